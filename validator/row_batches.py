"""Batches of rows: every claim a row behind its prompt, padded on the right.

For models whose layers carry a state from id to id, in which samples that lie end to end would
leak into one another. What pads a row stands behind all that counts, so nothing of it is seen. A
prompt that is long against its claims is computed once and continued by each; what does not fit
one batch goes through several, whose state is kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from validator.forward import Claim

# A prompt is computed once where doing so anew for every claim would cost this share of a batch.
SHARE = 1 / 8
# Ids whose keys and values are in memory at once, in batches' budgets.
KEPT_FACTOR = 8


class Origin(Enum):
    """What stands before a batch: nothing, the kept prompt in every row, or the batch before."""

    NOTHING = auto()
    PROMPT = auto()
    BATCH = auto()


@dataclass(frozen=True, slots=True)
class RowBatch:
    """One call of the model.

    Args:
        tokens: ids, shape [R, L]; what pads a row is 0.
        rows: row of each wanted final hidden state, shape [N]; ``columns`` its column; ``claims``
            and ``places`` (shape [N]) say which claim's which token it predicts.
        origin: what stands before.
        before: how many ids that is.
        keep: whether the state is needed after this batch.
        is_prompt: whether what is kept is the prompt that ``Origin.PROMPT`` means from here on.
    """

    tokens: NDArray[np.int64]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    claims: NDArray[np.int64]
    places: NDArray[np.int64]
    origin: Origin = Origin.NOTHING
    before: int = 0
    keep: bool = False
    is_prompt: bool = False


@dataclass(frozen=True, slots=True)
class _Row:
    """Ids to feed; from ``first`` on they predict the tokens of a claim from ``place`` on."""

    claim: int
    ids: Sequence[int]
    first: int
    place: int


def row_batches(
    prompts: Sequence[Sequence[int]], claims: Sequence[Claim], budget: int
) -> Iterator[RowBatch]:
    """Yield batches of at most ``budget`` ids, padding included, that hold every claim.

    Raises:
        ValueError: a prompt or a claim is empty, so that nothing predicts its first token.
    """
    alone: list[_Row] = []
    for prompt, numbers in _families(prompts, claims).items():
        ids = prompts[prompt]
        if (len(numbers) - 1) * len(ids) > SHARE * budget:
            yield from _shared(ids, [(number, claims[number].ids) for number in numbers], budget)
            continue
        alone += [
            _Row(number, [*ids, *claims[number].ids[:-1]], len(ids) - 1, 0) for number in numbers
        ]
    yield from _batches(alone, Origin.NOTHING, 0, budget)


def _families(prompts: Sequence[Sequence[int]], claims: Sequence[Claim]) -> dict[int, list[int]]:
    """Return the claims' numbers by prompt."""
    members: dict[int, list[int]] = {}
    for number, claim in enumerate(claims):
        if not prompts[claim.prompt] or not claim.ids:
            raise ValueError(f"claim {number}: prompt and ids have at least one id each")
        members.setdefault(claim.prompt, []).append(number)
    return members


def _shared(
    prompt: Sequence[int], claims: Sequence[tuple[int, Sequence[int]]], budget: int
) -> Iterator[RowBatch]:
    """Yield the batches of a prompt that is computed once, then those of its claims."""
    for start in range(0, len(prompt), budget):
        piece = prompt[start : start + budget]
        last = start + budget >= len(prompt)
        wanted = [number for number, _ in claims] if last else []
        yield RowBatch(
            tokens=np.asarray([piece], dtype=np.int64),
            rows=np.zeros(len(wanted), dtype=np.int64),
            columns=np.full(len(wanted), len(piece) - 1),
            claims=np.asarray(wanted, dtype=np.int64),
            places=np.zeros(len(wanted), dtype=np.int64),
            origin=Origin.BATCH if start else Origin.NOTHING,
            before=start,
            keep=True,
            is_prompt=last,
        )
    rows = [_Row(number, ids[:-1], 0, 1) for number, ids in claims if len(ids) > 1]
    yield from _batches(rows, Origin.PROMPT, len(prompt), budget)


def _batches(rows: Sequence[_Row], origin: Origin, before: int, budget: int) -> Iterator[RowBatch]:
    """Yield rows of like length together, the longest first; those over ``budget`` in pieces."""
    waiting = sorted(rows, key=lambda row: -len(row.ids))
    while waiting:
        longest = len(waiting[0].ids)
        if longest > budget:
            yield from _pieces(waiting.pop(0), origin, before, budget)
            continue
        # Padding is never most of a batch.
        alike = sum(2 * len(row.ids) >= longest for row in waiting)
        width = min(budget // longest, KEPT_FACTOR * budget // (before + longest), alike)
        yield _batch(waiting[: max(1, width)], origin, before)
        waiting = waiting[max(1, width) :]


def _batch(rows: Sequence[_Row], origin: Origin, before: int) -> RowBatch:
    tokens = np.zeros((len(rows), max(len(row.ids) for row in rows)), dtype=np.int64)
    for number, row in enumerate(rows):
        tokens[number, : len(row.ids)] = row.ids
    counts = [len(row.ids) - row.first for row in rows]
    offsets = [np.arange(count) for count in counts]
    return RowBatch(
        tokens=tokens,
        rows=np.repeat(np.arange(len(rows)), counts),
        columns=np.concatenate([row.first + o for row, o in zip(rows, offsets, strict=True)]),
        claims=np.repeat([row.claim for row in rows], counts),
        places=np.concatenate([row.place + o for row, o in zip(rows, offsets, strict=True)]),
        origin=origin,
        before=before,
    )


def _pieces(row: _Row, origin: Origin, before: int, budget: int) -> Iterator[RowBatch]:
    """Yield one long row in batches of ``budget`` ids, each of which continues the one before."""
    for start in range(0, len(row.ids), budget):
        ids = row.ids[start : start + budget]
        columns = np.arange(max(0, row.first - start), len(ids))
        yield RowBatch(
            tokens=np.asarray([ids], dtype=np.int64),
            rows=np.zeros_like(columns),
            columns=columns,
            claims=np.full_like(columns, row.claim),
            places=row.place + start + columns - row.first,
            origin=Origin.BATCH if start else origin,
            before=before + start,
            keep=start + budget < len(row.ids),
        )
