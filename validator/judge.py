"""Judging claims: the margin of every token, then the rule over each sample."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scoring.margin_numba import judge_rows

from protocol.documents import work_keys
from protocol.draw.key import key_words
from protocol.messages import SampleVerdict, Work
from scoring.void_rule import violation
from validator.forward import Claim, Forward, Rows
from validator.structure import check_work
from validator.verdicts import failure

# Logits that stand in memory at once: rows times vocabulary never exceeds this.
LOGITS_BYTES = 64 * 1024 * 1024
NOT_FINITE = "logits that are not finite"

Progress = Callable[[int], None]


@dataclass(slots=True)
class _Sheet:
    """What has been found about one sample so far; the last entry of each array is its last id."""

    index: int
    claimed: NDArray[np.int64]
    margins: NDArray[np.float64]
    drawn: NDArray[np.int64]
    open: int
    finite: bool = True


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
    sheets = [_sheet(index, ids) for index, ids in samples.items()]
    claims = [Claim(work.samples[sheet.index].prompt, samples[sheet.index]) for sheet in sheets]
    keys = np.array([key_words(key) for key in work_keys(work)], dtype=np.uint32)
    for rows in forward.hidden(work.prompts, claims, pack_tokens):
        for start, stop in _chunks(len(rows.places), forward.vocabulary_size):
            part = Rows(rows.hidden[start:stop], rows.claims[start:stop], rows.places[start:stop])
            _enter(forward, work, keys, sheets, part)
            progress(stop - start)
        for number in np.unique(rows.claims):
            if sheets[number].open == 0:
                yield sheets[number].index, _verdict(sheets[number])


def _sheet(index: int, ids: Sequence[int]) -> _Sheet:
    size = len(ids)
    return _Sheet(
        index=index,
        claimed=np.asarray(ids, dtype=np.int64),
        margins=np.zeros(size),
        drawn=np.zeros(size, dtype=np.int64),
        open=size,
    )


def _chunks(rows: int, vocabulary: int) -> Iterator[tuple[int, int]]:
    size = max(1, LOGITS_BYTES // (4 * vocabulary))
    for start in range(0, rows, size):
        yield start, min(start + size, rows)


def _enter(
    forward: Forward,
    work: Work,
    keys: NDArray[np.uint32],
    sheets: Sequence[_Sheet],
    rows: Rows,
) -> None:
    """Judge some rows and enter what they show into the sheets of their samples."""
    logits = forward.logits(rows.hidden)
    claimed = np.array(
        [
            sheets[claim].claimed[place]
            for claim, place in zip(rows.claims, rows.places, strict=True)
        ]
    )
    order = np.array([sheets[claim].index for claim in rows.claims])
    # A sum is finite only where all of its terms are: one pass, no table of truth values.
    finite = np.isfinite(logits[:, : work.vocabulary_size].sum(axis=1))
    drawn, margins = judge_rows(
        np.where(finite[:, None], logits, np.float32(0)) if not finite.all() else logits,
        claimed,
        keys[order],
        rows.places.astype(np.uint32),
        work.sampling,
        work.vocabulary_size,
    )
    for number in np.unique(rows.claims):
        sheet, mine = sheets[number], rows.claims == number
        sheet.drawn[rows.places[mine]] = drawn[mine]
        sheet.margins[rows.places[mine]] = margins[mine]
        sheet.open -= int(mine.sum())
        sheet.finite &= bool(finite[mine].all())


def _verdict(sheet: _Sheet) -> SampleVerdict:
    tokens = len(sheet.claimed)
    if not sheet.finite:
        return failure(NOT_FINITE, tokens)
    found = violation(sheet.margins)
    return SampleVerdict(
        outcome="verified" if found is None else "void",
        reason=None if found is None else found.reason,
        tokens=tokens,
        mismatches=int((sheet.drawn != sheet.claimed).sum()),
        largest_margin_micro=round(float(sheet.margins.max()) * 1e6),
        position=None if found is None else found.position,
    )
