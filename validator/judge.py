"""Judging claims: the margin of every token, then the evidence over each sample."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
import torch

from protocol.documents import work_keys
from protocol.draw.key import key_words
from protocol.messages import MAX_MARKS, DeviceKind, SampleVerdict, Work
from protocol.sampling import Sampling
from scoring.margin_numba import judge_rows
from scoring.profile import Profile, bins_of
from scoring.sample_rule import Violation, judge_sample
from validator.forward import Claim, Forward, Rows, failures
from validator.shown import Shown, shown, shown_on_device
from validator.structure import check_work
from validator.verdicts import failure

# Logits that stand in memory at once: rows times vocabulary never exceeds this.
LOGITS_BYTES: dict[DeviceKind, int] = {"cpu": 2**26, "cuda": 2**30}
NOT_FINITE = "logits that are not finite"
MANY_MARKS = f"more than {MAX_MARKS} margins"

Progress = Callable[[int], None]


class _Record:
    """What has been found about every token of some samples, laid end to end."""

    def __init__(self, work: Work, samples: Mapping[int, Sequence[int]], profile: Profile) -> None:
        keys = work_keys(work)
        self.profile = profile
        self.indices = list(samples)
        self.keys = np.array([key_words(keys[index]) for index in samples], dtype=np.uint32)
        self.starts = np.cumsum([0, *(len(ids) for ids in samples.values())])
        self.open = np.diff(self.starts)
        self.claimed = np.concatenate([np.asarray(ids, np.int64) for ids in samples.values()])
        self.drawn = np.empty_like(self.claimed)
        self.margins = np.empty(self.claimed.size)
        self.entropies = np.zeros(self.claimed.size, dtype=np.float32)

    def enter(self, forward: Forward, work: Work, rows: Rows, pool: Executor) -> None:
        """Judge some rows, on all threads, and enter what they show."""
        logits = forward.logits(rows.hidden)
        if logits.device.type == "cpu":
            bounds = np.linspace(0, len(rows.places), forward.threads + 1).astype(int).tolist()
            parts = [slice(*pair) for pair in pairwise(bounds)]
            list(pool.map(lambda part: self._note(shown, logits[part], work, rows, part), parts))
        else:
            with failures():
                self._note(partial(shown_on_device, pool=pool), logits, work, rows, slice(None))
        self.open -= np.bincount(rows.claims, minlength=self.open.size)

    def _note(
        self,
        show: Callable[..., Shown],
        logits: torch.Tensor,
        work: Work,
        rows: Rows,
        part: slice,
    ) -> None:
        """Note what ``part`` of the rows show, of which these are the logits."""
        claims, positions = rows.claims[part], rows.places[part]
        places = self.starts[claims] + positions
        found = show(
            logits,
            self.claimed[places],
            self.keys[claims],
            positions.astype(np.uint32),
            work.sampling,
            work.vocabulary_size,
        )
        self.drawn[places], self.margins[places] = found.drawn, found.margins
        self.entropies[places] = found.entropies

    def verdict(self, number: int) -> SampleVerdict:
        """Return the verdict on a sample of which every token is entered."""
        own = slice(self.starts[number], self.starts[number + 1])
        tokens = int(self.starts[number + 1] - self.starts[number])
        margins = self.margins[own]
        if np.isnan(margins).any():
            return failure(NOT_FINITE, tokens)
        marks = self._marks(own)
        found = judge_sample(self.profile, tokens, marks[:MAX_MARKS])
        void = found.violation
        if void is None and len(marks) > MAX_MARKS:
            void = Violation(marks[MAX_MARKS][0], MANY_MARKS)
        return SampleVerdict(
            outcome="verified" if void is None else "void",
            reason=None if void is None else void.reason,
            tokens=tokens,
            mismatches=int((self.drawn[own] != self.claimed[own]).sum()),
            largest_margin_micro=round(float(margins.max()) * 1e6),
            position=None if void is None else void.position,
            # What lies behind the violation would only fill the verdict.
            marks=[mark for mark in marks[:MAX_MARKS] if void is None or mark[0] <= void.position],
            abstained=found.abstained,
        )

    def _marks(self, own: slice) -> list[tuple[int, int, int]]:
        """Return position, stratum and bin of each token of a sample whose margin is not 0."""
        margins, entropies = self.margins[own], self.entropies[own]
        positions = np.flatnonzero(margins > 0)
        strata = self.profile.strata_of(entropies[positions])
        bins = bins_of(margins[positions])
        return list(zip(positions.tolist(), strata.tolist(), bins.tolist(), strict=True))


def judge(
    forward: Forward,
    work: Work,
    samples: Mapping[int, Sequence[int]],
    profile: Profile,
    pack_tokens: int,
    progress: Progress,
) -> Iterator[tuple[int, SampleVerdict]]:
    """Yield the index in ``work.samples`` and the verdict of each sample, as each is complete.

    Args:
        forward: holds the work's model at its revision.
        work: the unit.
        samples: claimed ids by index in ``work.samples``, all of legal structure.
        profile: the honest margins of the miner's stack before this forward's.
        pack_tokens: tokens that the forward computes at once.
        progress: called with the number of tokens judged since the last call; what it raises
            ends the audit.

    Raises:
        ForwardFailed: memory or the device gave out; what was yielded before stays valid.
        ValueError: the work does not fit the model (see ``check_work``).
    """
    check_work(work, forward.vocabulary_size)
    record = _Record(work, samples, profile)
    claims = [Claim(work.samples[index].prompt, ids) for index, ids in samples.items()]
    with ThreadPoolExecutor(forward.threads) as pool:
        for rows in forward.hidden(work.prompts, claims, pack_tokens):
            for start, stop in chunks(len(rows.places), forward):
                part = slice(start, stop)
                table = Rows(rows.hidden[part], rows.claims[part], rows.places[part])
                record.enter(forward, work, table, pool)
                progress(stop - start)
            for number in np.unique(rows.claims):
                if record.open[number] == 0:
                    yield record.indices[number], record.verdict(number)


def compile_ahead() -> None:
    """Compile the loops of the judging, which takes a while where no cache holds them."""
    logits = np.linspace(0, 1, 64, dtype=np.float32).reshape(2, 32)
    sampling = Sampling(top_p=0.9, top_k=30, min_p=0.01)
    for claimed in range(32):
        ids = np.full(2, claimed)
        judge_rows(logits, ids, np.ones((2, 4), np.uint32), np.zeros(2, np.uint32), sampling, 32)


def chunks(rows: int, forward: Forward) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the rows whose logits stand in memory together."""
    size = max(1, LOGITS_BYTES[forward.stack().device] // (4 * forward.vocabulary_size))
    for start in range(0, rows, size):
        yield start, min(start + size, rows)
