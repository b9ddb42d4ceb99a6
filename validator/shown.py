"""What rows of logits show of claimed ids: the id due, the margin of the claim, the entropy."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from protocol.draw import device_form
from protocol.sampling import Sampling
from scoring.entropy import entropies
from scoring.margin_numba import judge_rows, margins_of


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
    """Return what rows show; computed where the logits lie.

    From a GPU only the rows travel whose claim is not the drawn id: a percent or two of an honest
    miner's.

    Args:
        logits: float32 [R, C], C >= V.
        claimed: [R], 0 .. V-1.
        keys: [R, 4], ``key_words`` of each row's draw key.
        positions: [R], 0 is the first completion token.
        sampling: the order's.
        vocabulary_size: V of the draw.
    """
    if logits.device.type == "cpu":
        table = logits.numpy()
        drawn, margins = judge_rows(table, claimed, keys, positions, sampling, vocabulary_size)
        odd = np.flatnonzero(margins > 0)
        rows = table[odd, :vocabulary_size]
    else:
        drawn = drawn_on_device(logits, keys, positions, sampling, vocabulary_size)
        margins = np.where(drawn < 0, np.nan, 0.0)
        odd = np.flatnonzero((drawn >= 0) & (drawn != claimed))
        rows = logits[torch.from_numpy(odd).to(logits.device), :vocabulary_size].cpu().numpy()
        margins[odd] = margins_of(
            rows, claimed[odd], drawn[odd], keys[odd], positions[odd], sampling
        )
    found = np.zeros(len(logits), dtype=np.float32)
    if odd.size:
        found[odd] = entropies(rows, sampling.temperature)
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
