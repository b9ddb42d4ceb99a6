"""Judging claims: the margin of every token, then the rule over each sample."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from protocol.documents import work_keys
from protocol.draw.key import key_words
from protocol.messages import SampleVerdict, Work
from protocol.sampling import Sampling
from scoring.margin_numba import judge_rows
from scoring.void_rule import violation
from validator.forward import Claim, Forward, Rows
from validator.structure import check_work
from validator.verdicts import failure

# Logits that stand in memory at once: rows times vocabulary never exceeds this.
LOGITS_BYTES = 64 * 1024 * 1024
NOT_FINITE = "logits that are not finite"

Progress = Callable[[int], None]


class _Record:
    """What has been found about every token of some samples, laid end to end."""

    def __init__(self, work: Work, samples: Mapping[int, Sequence[int]]) -> None:
        keys = work_keys(work)
        self.indices = list(samples)
        self.keys = np.array([key_words(keys[index]) for index in samples], dtype=np.uint32)
        self.starts = np.cumsum([0, *(len(ids) for ids in samples.values())])
        self.open = np.diff(self.starts)
        self.claimed = np.concatenate([np.asarray(ids, np.int64) for ids in samples.values()])
        self.drawn = np.empty_like(self.claimed)
        self.margins = np.empty(self.claimed.size)
        self.finite = np.empty(self.claimed.size, dtype=bool)

    def enter(self, forward: Forward, work: Work, rows: Rows) -> None:
        """Judge some rows and enter what they show."""
        places = self.starts[rows.claims] + rows.places
        logits = forward.logits(rows.hidden)
        # A sum is finite only where all of its terms are: one pass, no table of truth values.
        self.finite[places] = np.isfinite(logits[:, : work.vocabulary_size].sum(axis=1))
        self.drawn[places], self.margins[places] = judge_rows(
            logits,
            self.claimed[places],
            self.keys[rows.claims],
            rows.places.astype(np.uint32),
            work.sampling,
            work.vocabulary_size,
        )
        self.open -= np.bincount(rows.claims, minlength=self.open.size)

    def verdict(self, number: int) -> SampleVerdict:
        """Return the verdict on a sample of which every token is entered."""
        own = slice(self.starts[number], self.starts[number + 1])
        tokens = int(self.starts[number + 1] - self.starts[number])
        if not self.finite[own].all():
            return failure(NOT_FINITE, tokens)
        margins = self.margins[own]
        found = violation(margins)
        return SampleVerdict(
            outcome="verified" if found is None else "void",
            reason=None if found is None else found.reason,
            tokens=tokens,
            mismatches=int((self.drawn[own] != self.claimed[own]).sum()),
            largest_margin_micro=round(float(margins.max()) * 1e6),
            position=None if found is None else found.position,
        )


def judge(
    forward: Forward,
    work: Work,
    samples: Mapping[int, Sequence[int]],
    pack_tokens: int,
    progress: Progress,
) -> Iterator[tuple[int, SampleVerdict]]:
    """Yield the index in ``work.samples`` and the verdict of each sample, as each is complete.

    Args:
        forward: holds the work's model at its revision.
        work: the unit.
        samples: claimed ids by index in ``work.samples``, all of legal structure.
        pack_tokens: tokens that the forward computes at once.
        progress: called with the number of tokens judged since the last call; what it raises
            ends the audit.

    Raises:
        ForwardFailed: memory or the device gave out; what was yielded before stays valid.
        ValueError: the work does not fit the model (see ``check_work``).
    """
    check_work(work, forward.vocabulary_size)
    record = _Record(work, samples)
    claims = [Claim(work.samples[index].prompt, ids) for index, ids in samples.items()]
    for rows in forward.hidden(work.prompts, claims, pack_tokens):
        for start, stop in _chunks(len(rows.places), forward.vocabulary_size):
            part = Rows(rows.hidden[start:stop], rows.claims[start:stop], rows.places[start:stop])
            record.enter(forward, work, part)
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


def _chunks(rows: int, vocabulary: int) -> Iterator[tuple[int, int]]:
    size = max(1, LOGITS_BYTES // (4 * vocabulary))
    for start in range(0, rows, size):
        yield start, min(start + size, rows)
