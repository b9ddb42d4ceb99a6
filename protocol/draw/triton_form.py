"""The forced draw in Triton: noise, filters and maximum in one pass over the logits on a GPU.

Equal to ``protocol.draw.torch_form``, and drawn the same way: the least logit that min_p and top_k
keep comes first, the largest score above it is drawn, and rows whose id lies outside their nucleus
draw again from the ids ahead of it. No noise is ever written to memory; of every 4,096 ids a
program leaves one score, or one pair of masses. Scores and masses are float64.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from protocol.draw.torch_form import NOT_DRAWN, checked, floors

# Blocks of four ids, which share one Philox call, that a program handles.
BLOCKS = tl.constexpr(1_024)
NOBODY = tl.constexpr(2**31 - 1)


def draw_rows(
    logits: Tensor,
    keys: Tensor,
    positions: Tensor,
    temperature: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    min_p: Tensor,
    vocabulary_size: int,
) -> Tensor:
    """Return the id due at each row; arguments and result as ``torch_form.draw_rows`` has them.

    Raises:
        ValueError: a shape does not fit.
        TypeError: the logits are not float32.
    """
    columns = checked(
        logits, keys, positions, temperature, top_k, top_p, min_p, vocabulary_size=vocabulary_size
    )
    keys, positions, temperature, top_k, top_p, min_p = columns
    if not len(logits):
        return keys.new_empty(0)
    own = logits[:, :vocabulary_size]
    top = own.amax(dim=1).double()
    valid = top.isfinite()
    floor = floors(own, top, temperature, top_k, min_p)
    rows = _Rows(own, keys.contiguous(), positions.contiguous(), temperature, top, floor)
    everybody = torch.arange(len(logits), device=logits.device)
    nothing = torch.full_like(top, -torch.inf)
    drawn, logit = rows.best(everybody, nothing, torch.full_like(positions, vocabulary_size))
    inside = everybody[valid & (top_p < 1)]
    if len(inside):
        needed = top_p[inside] * rows.masses(inside, nothing[inside], inside * 0 + vocabulary_size)
        while True:
            ahead = rows.masses(inside, logit[inside], drawn[inside])
            outside = ahead >= needed
            inside, needed = inside[outside], needed[outside]
            if not len(inside):
                break
            drawn[inside], logit[inside] = rows.best(inside, logit[inside], drawn[inside])
    return torch.where(valid, drawn, NOT_DRAWN)


class _Rows:
    """Rows of logits and what their draw depends on; columns are [R], int64 or float64."""

    def __init__(
        self,
        logits: Tensor,
        keys: Tensor,
        positions: Tensor,
        temperature: Tensor,
        top: Tensor,
        floor: Tensor,
    ) -> None:
        self._logits = logits if logits.stride(1) == 1 else logits.contiguous()
        self._columns = (keys, positions, temperature.contiguous(), top, floor)
        self._parts = triton.cdiv(logits.shape[1], 4 * BLOCKS.value)

    def best(self, rows: Tensor, limit: Tensor, limit_id: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ids of the largest scores and their logits, of the ids ahead of a limit.

        Args:
            rows: which ones, [n].
            limit, limit_id: [n], a logit and an id: larger logits are ahead, and of equal ones the
                lower ids.
        """
        shape = (len(rows), self._parts)
        scores, values = (limit.new_empty(shape) for _ in range(2))
        ids = rows.new_empty(shape)
        keys, positions, temperature, _, floor = self._columns
        _best[shape](
            *(self._logits, self._logits.stride(0), self._logits.shape[1]),
            *(rows, keys, positions, temperature, floor, limit, limit_id),
            *(scores, ids, values),
        )
        top = scores.amax(dim=1, keepdim=True)
        part = torch.where(scores == top, ids, NOBODY.value).argmin(dim=1, keepdim=True)
        return ids.gather(1, part).squeeze(1), values.gather(1, part).squeeze(1)

    def masses(self, rows: Tensor, limit: Tensor, limit_id: Tensor) -> Tensor:
        """Return the mass of the kept ids ahead of a limit, relative to the largest logit's, [n].

        The arguments are those of ``best``.
        """
        masses = limit.new_empty(len(rows), self._parts)
        _, _, temperature, top, floor = self._columns
        _mass[masses.shape](
            *(self._logits, self._logits.stride(0), self._logits.shape[1]),
            *(rows, temperature, top, floor, limit, limit_id, masses),
        )
        return masses.sum(dim=1)


@triton.jit
def _gumbel(word):
    """The Gumbel(0, 1) value of 32-bit integers; what the inner logarithm takes is exact."""
    rest = (4294967295.5 - word.to(tl.float64)) * 2.3283064365386962890625e-10
    return -tl.log(-tl.log(rest))


@triton.jit
def _kept(logits, ids, size, floor, limit, limit_id):
    """The logits at ``ids``, and which of them the filters keep and are ahead of the limit."""
    value = tl.load(logits + ids, mask=ids < size, other=-float("inf")).to(tl.float64)
    ahead = (value > limit) | ((value == limit) & (ids < limit_id))
    return value, ahead & (value >= floor) & (ids < size)


@triton.jit
def _best(
    logits,
    stride,
    size,
    rows,
    keys,
    positions,
    temperatures,
    floors,
    limits,
    limit_ids,
    scores,
    ids,
    values,
):
    """Leave the best score of a row's part, its id and its logit."""
    place = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    row = tl.load(rows + tl.program_id(0))
    temperature, floor = tl.load(temperatures + row), tl.load(floors + row)
    limit, limit_id = tl.load(limits + tl.program_id(0)), tl.load(limit_ids + tl.program_id(0))
    block = tl.program_id(1) * BLOCKS + tl.arange(0, BLOCKS)
    zero = (block * 0).to(tl.uint32)
    word_0, word_1, word_2, word_3 = tl.philox_impl(
        block.to(tl.uint32),
        zero + tl.load(positions + row).to(tl.uint32),
        zero + tl.load(keys + 4 * row + 2).to(tl.uint32),
        zero + tl.load(keys + 4 * row + 3).to(tl.uint32),
        zero + tl.load(keys + 4 * row).to(tl.uint32),
        zero + tl.load(keys + 4 * row + 1).to(tl.uint32),
    )
    best = tl.full([BLOCKS], -float("inf"), tl.float64)
    logit = best
    best_id = tl.full([BLOCKS], NOBODY, tl.int32)
    for lane in tl.static_range(4):  # pyright: ignore[reportGeneralTypeIssues]
        word = word_0 if lane == 0 else word_1 if lane == 1 else word_2 if lane == 2 else word_3
        at = 4 * block + lane
        value, kept = _kept(logits + row * stride, at, size, floor, limit, limit_id)
        score = tl.where(kept, value + temperature * _gumbel(word), -float("inf"))
        # Lanes rise in id: of equal scores the first stays.
        better = score > best
        best = tl.where(better, score, best)
        logit = tl.where(better, value, logit)
        best_id = tl.where(better, at, best_id)
    top = tl.max(best, 0)
    winner = tl.min(tl.where(best == top, best_id, NOBODY), 0)
    tl.store(scores + place, top)
    tl.store(ids + place, winner)
    tl.store(values + place, tl.max(tl.where(best_id == winner, logit, -float("inf")), 0))


@triton.jit
def _mass(
    logits,
    stride,
    size,
    rows,
    temperatures,
    tops,
    floors,
    limits,
    limit_ids,
    masses,
):
    """Leave the mass of a row's part, relative to the row's largest logit."""
    place = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    row = tl.load(rows + tl.program_id(0))
    temperature, floor, top = (
        tl.load(temperatures + row),
        tl.load(floors + row),
        tl.load(tops + row),
    )
    limit, limit_id = tl.load(limits + tl.program_id(0)), tl.load(limit_ids + tl.program_id(0))
    at = tl.program_id(1) * 4 * BLOCKS + tl.arange(0, 4 * BLOCKS)
    value, kept = _kept(logits + row * stride, at, size, floor, limit, limit_id)
    mass = tl.where(kept, tl.exp((value - top) / temperature), 0.0)
    tl.store(masses + place, tl.sum(mass, 0))
