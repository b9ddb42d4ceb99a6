"""Packed batches: prompts and completions laid end to end without padding.

A prompt that several completions share stands once, and each completion's queries see the prompt's
keys and their own. What does not fit one pack goes through several, whose keys are kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from validator.forward import Claim


@dataclass(frozen=True, slots=True)
class Segment:
    """Queries ``start .. stop`` of a pack, causal among themselves.

    Before their own keys they see the keys ``prefix[0] .. prefix[1]``, counted over the kept keys
    of earlier packs followed by the pack's own.
    """

    start: int
    stop: int
    prefix: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Pack:
    """One call of the model.

    Args:
        tokens: ids, shape [T]; ``positions``: each token's place in its own sequence, shape [T].
        rows: indices into the pack whose final hidden states are wanted, shape [R]; ``claims`` and
            ``places`` (shape [R]) say which claim's which token each of them predicts.
        kept: how many keys of earlier packs this one sees; later ones are dropped before it runs.
        keep: whether this pack's keys stay for the next one.
    """

    tokens: NDArray[np.int64]
    positions: NDArray[np.int64]
    segments: tuple[Segment, ...]
    rows: NDArray[np.int64]
    claims: NDArray[np.int64]
    places: NDArray[np.int64]
    kept: int = 0
    keep: bool = False


@dataclass(frozen=True, slots=True)
class _Family:
    """A prompt with the claims that continue it, each under its number."""

    prompt: Sequence[int]
    claims: Sequence[tuple[int, Sequence[int]]]

    @property
    def tokens(self) -> int:
        # A claim's last token is predicted, never fed.
        return len(self.prompt) + sum(len(ids) - 1 for _, ids in self.claims)


def packs(
    prompts: Sequence[Sequence[int]], claims: Sequence[Claim], pack_tokens: int
) -> Iterator[Pack]:
    """Yield packs of at most ``pack_tokens`` tokens that hold every claim.

    Raises:
        ValueError: a prompt or a claim is empty, so that nothing predicts its first token.
    """
    builder = _Builder()
    for family in _families(prompts, claims):
        if family.tokens > pack_tokens:
            yield from _train(family, pack_tokens)
            continue
        if builder.size + family.tokens > pack_tokens:
            yield builder.build()
            builder = _Builder()
        _add_family(builder, family)
    if builder.size:
        yield builder.build()


def _families(prompts: Sequence[Sequence[int]], claims: Sequence[Claim]) -> list[_Family]:
    members: dict[int, list[tuple[int, Sequence[int]]]] = {}
    for number, claim in enumerate(claims):
        if not prompts[claim.prompt] or not claim.ids:
            raise ValueError(f"claim {number}: prompt and ids have at least one id each")
        members.setdefault(claim.prompt, []).append((number, claim.ids))
    return [_Family(prompts[prompt], found) for prompt, found in members.items()]


class _Builder:
    """A pack that grows piece by piece."""

    def __init__(self, kept: int = 0) -> None:
        self.size = 0
        self._kept = kept
        self._tokens: list[Sequence[int]] = []
        self._positions: list[NDArray[np.int64]] = []
        self._segments: list[Segment] = []
        self._rows: list[NDArray[np.int64]] = []
        self._claims: list[NDArray[np.int64]] = []
        self._places: list[NDArray[np.int64]] = []

    def feed(self, ids: Sequence[int], position: int) -> int:
        """Append ids, the first at ``position`` of its sequence; return where they start."""
        start = self.size
        self._tokens.append(ids)
        self._positions.append(np.arange(position, position + len(ids)))
        self.size += len(ids)
        return start

    def attend(self, start: int, prefix: tuple[int, int] = (0, 0)) -> None:
        """Make everything fed since ``start`` one segment."""
        if self.size > start:
            self._segments.append(Segment(start, self.size, prefix))

    def want(self, claim: int, row: int, place: int, count: int) -> None:
        """Ask for ``count`` rows from ``row`` on, which predict tokens from ``place`` on."""
        self._rows.append(np.arange(row, row + count))
        self._claims.append(np.full(count, claim))
        self._places.append(np.arange(place, place + count))

    def build(self, *, keep: bool = False) -> Pack:
        """Return the pack."""
        none = [np.empty(0, dtype=np.int64)]
        return Pack(
            tokens=np.concatenate([np.asarray(ids, dtype=np.int64) for ids in self._tokens]),
            positions=np.concatenate(self._positions),
            segments=tuple(self._segments),
            rows=np.concatenate(self._rows or none),
            claims=np.concatenate(self._claims or none),
            places=np.concatenate(self._places or none),
            kept=self._kept,
            keep=keep,
        )


def _add_family(builder: _Builder, family: _Family) -> None:
    length = len(family.prompt)
    start = builder.feed(family.prompt, 0)
    prompt = (start, start + length)
    for order, (claim, ids) in enumerate(family.claims):
        branch = builder.feed(ids[:-1], length)
        # The first claim follows its prompt directly: one segment holds both.
        builder.attend(start if order == 0 else branch, (0, 0) if order == 0 else prompt)
        builder.want(claim, prompt[1] - 1, 0, 1)
        builder.want(claim, branch, 1, len(ids) - 1)


def _train(family: _Family, pack_tokens: int) -> Iterator[Pack]:
    """Yield the packs of a family that one pack cannot hold: the prompt's, then the claims'."""
    length = len(family.prompt)
    for start in range(0, length, pack_tokens):
        builder = _Builder(kept=start)
        builder.feed(family.prompt[start : start + pack_tokens], start)
        builder.attend(0, (0, start))
        if start + pack_tokens >= length:
            for claim, _ in family.claims:
                builder.want(claim, builder.size - 1, 0, 1)
        yield builder.build(keep=True)
    builder = _Builder(kept=length)
    for claim, ids in family.claims:
        if len(ids) - 1 > pack_tokens:
            yield from _long_claim(claim, ids, length, pack_tokens)
            continue
        if builder.size + len(ids) - 1 > pack_tokens:
            yield builder.build()
            builder = _Builder(kept=length)
        branch = builder.feed(ids[:-1], length)
        builder.attend(branch, (0, length))
        builder.want(claim, branch, 1, len(ids) - 1)
    if builder.size:
        yield builder.build()


def _long_claim(claim: int, ids: Sequence[int], length: int, pack_tokens: int) -> Iterator[Pack]:
    fed = len(ids) - 1
    for start in range(0, fed, pack_tokens):
        piece = ids[start : min(start + pack_tokens, fed)]
        builder = _Builder(kept=length + start)
        builder.feed(piece, length + start)
        builder.attend(0, (0, length + start))
        builder.want(claim, 0, start + 1, len(piece))
        yield builder.build(keep=start + pack_tokens < fed)
