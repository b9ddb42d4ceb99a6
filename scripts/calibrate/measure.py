"""What an audit sees of claimed tokens: the margin and the entropy of every position."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocol.documents import work_keys
from protocol.draw.key import key_words
from protocol.messages import Work
from scoring.entropy import entropies
from scoring.margin_numba import judge_rows
from validator.forward import Claim, Forward

PACK_TOKENS = 4_096
ROWS_AT_ONCE = 1_024


@dataclass(frozen=True)
class Seen:
    """What was seen of one sample, in the order of its tokens.

    Attributes:
        margins: in logits, float64 [tokens].
        entropies: of the validator's softmax(l/T), in nats, float32 [tokens].
        mismatches: whether the claimed id is another than the drawn one [tokens].
    """

    margins: NDArray[np.float64]
    entropies: NDArray[np.float32]
    mismatches: NDArray[np.bool_]


# Of some rows: logits [R, V], draw keys [R, 4] and positions [R], the ids that are claimed in place
# of the sample's own [R].
Claims = Callable[
    [NDArray[np.float32], NDArray[np.uint32], NDArray[np.uint32]],
    NDArray[np.int64],
]


def seen(
    work: Work,
    samples: Sequence[Sequence[int]],
    forward: Forward,
    claims_instead: Claims | None = None,
) -> list[Seen]:
    """Return what an audit of ``samples`` sees of each, in the work's order.

    Args:
        work: the unit as it was ordered.
        samples: the ids that are claimed, at least one a sample.
        forward: the work's model at its revision.
        claims_instead: what is claimed at each position in place of the sample's own id, which
            stays its context: so one cheat token at a time is looked at.
    """
    claims = [Claim(sample.prompt, ids) for sample, ids in zip(work.samples, samples, strict=True)]
    keys = np.array([key_words(key) for key in work_keys(work)], dtype=np.uint32)
    found = [
        Seen(np.empty(len(ids)), np.empty(len(ids), np.float32), np.empty(len(ids), bool))
        for ids in samples
    ]
    for claim, place, logits in _rows(work, claims, forward):
        claimed = np.array([claims[c].ids[p] for c, p in zip(claim, place, strict=True)])
        positions = place.astype(np.uint32)
        if claims_instead is not None:
            claimed = claims_instead(logits, keys[claim], positions)
        drawn, margins = judge_rows(
            logits, claimed, keys[claim], positions, work.sampling, work.vocabulary_size
        )
        own = entropies(logits, work.sampling.temperature)
        for at, (c, p) in enumerate(zip(claim, place, strict=True)):
            found[c].margins[p] = margins[at]
            found[c].entropies[p] = own[at]
            found[c].mismatches[p] = drawn[at] != claimed[at]
    return found


def _rows(
    work: Work, claims: Sequence[Claim], forward: Forward
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]]:
    """Yield claims, places and logits [R, V of the draw] of some rows at a time."""
    for rows in forward.hidden(work.prompts, claims, PACK_TOKENS):
        for start in range(0, len(rows.places), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            logits = forward.logits(rows.hidden[part])[:, : work.vocabulary_size]
            yield rows.claims[part], rows.places[part], logits.cpu().numpy()
