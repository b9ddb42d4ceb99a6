"""What rows of logits show of claimed ids: the id due, the margin of the claim, the entropy."""

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from protocol.draw import device_form
from protocol.sampling import Sampling
from scoring.entropy import entropies
from scoring.margin_numba import judge_rows, margins_of

# Of rows that travel from a GPU, what stands in memory here at once, and what a thread takes.
TRAVEL_BYTES = 2**26
TRAVEL_ROWS = 8


@dataclass(frozen=True, slots=True)
class Shown:
    """Of some rows.

    Attributes:
        drawn: the ids due, int64 [R]; -1 where the logits are no distribution.
        margins: of the claimed ids in logits, float64 [R]; NaN where there is no draw.
        entropies: of softmax(l/T) in nats, float32 [R]; 0 where the margin is 0, since there the
            stratum has no say.
    """

    drawn: NDArray[np.int64]
    margins: NDArray[np.float64]
    entropies: NDArray[np.float32]


def shown(
    logits: torch.Tensor,
    claimed: NDArray[np.int64],
    keys: NDArray[np.uint32],
    positions: NDArray[np.uint32],
    sampling: Sampling,
    vocabulary_size: int,
) -> Shown:
    """Return what rows show whose logits lie on the CPU.

    Args:
        logits: float32 [R, C], C >= V.
        claimed: [R], 0 .. V-1.
        keys: [R, 4], ``key_words`` of each row's draw key.
        positions: [R], 0 is the first completion token.
        sampling: the order's.
        vocabulary_size: V of the draw.
    """
    table = logits.numpy()
    drawn, margins = judge_rows(table, claimed, keys, positions, sampling, vocabulary_size)
    odd = np.flatnonzero(margins > 0)
    found = np.zeros(len(logits), dtype=np.float32)
    if odd.size:
        found[odd] = entropies(table[odd, :vocabulary_size], sampling.temperature)
    return Shown(drawn, margins, found)


def shown_on_device(
    logits: torch.Tensor,
    claimed: NDArray[np.int64],
    keys: NDArray[np.uint32],
    positions: NDArray[np.uint32],
    sampling: Sampling,
    vocabulary_size: int,
    pool: Executor,
) -> Shown:
    """Return what rows show whose logits lie on a GPU; the arguments are those of ``shown``.

    Only the rows travel whose claim is not the drawn id: a percent or two of an honest miner's,
    and all of a cheat's, so a few at a time.

    To be called in the thread in which the logits were computed: another one may have another
    stream of the GPU's work, which does not wait for them.

    Args:
        pool: judges the rows that travelled.
    """
    drawn = drawn_on_device(logits, keys, positions, sampling, vocabulary_size)
    margins = np.where(drawn < 0, np.nan, 0.0)
    found = np.zeros(len(logits), dtype=np.float32)

    def judge(rows: NDArray[np.float32], places: NDArray[np.intp]) -> None:
        margins[places] = margins_of(
            rows, claimed[places], drawn[places], keys[places], positions[places], sampling
        )
        found[places] = entropies(rows, sampling.temperature)

    odd = np.flatnonzero((drawn >= 0) & (drawn != claimed))
    at_once = max(1, TRAVEL_BYTES // (4 * vocabulary_size))
    for start in range(0, odd.size, at_once):
        places = odd[start : start + at_once]
        here = logits[torch.from_numpy(places).to(logits.device), :vocabulary_size].cpu().numpy()
        cuts = range(TRAVEL_ROWS, len(places), TRAVEL_ROWS)
        list(pool.map(judge, np.split(here, cuts), np.split(places, cuts)))
    return Shown(drawn, margins, found)


def drawn_on_device(
    logits: torch.Tensor,
    keys: NDArray[np.uint32],
    positions: NDArray[np.uint32],
    sampling: Sampling,
    vocabulary_size: int,
) -> NDArray[np.int64]:
    """Return the ids due at rows, drawn where they lie; arguments as ``shown`` has them."""
    rows, device = len(logits), logits.device
    # torch has no arithmetic on unsigned 32-bit integers; the words keep their values in int64.
    words, places = (
        torch.from_numpy(column.astype(np.int64)).to(device) for column in (keys, positions)
    )
    temperature, top_k, top_p, min_p = (
        torch.full((rows,), value, dtype=torch.float64, device=device)
        for value in (sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p)
    )
    drawn = device_form.draw_rows(
        logits, words, places, temperature, top_k, top_p, min_p, vocabulary_size
    )
    return drawn.cpu().numpy()
