"""The forced draw on tensors: batches of rows on a GPU, or on the CPU where numba is absent.

Equal to ``protocol.draw.reference``. Integers are 64 bits wide, since torch has no arithmetic on
unsigned 32-bit ones; scores and masses are float64.

top_p sorts nothing. What it keeps is a prefix of the ids by falling logit, and the winner of a
prefix that lies in a shorter prefix also wins there. So the batch draws, and rows whose id lies
outside their nucleus draw again from the ids ahead of it.
"""

import torch
from torch import Tensor

from protocol.draw.philox import MULTIPLIER_0, MULTIPLIER_1, ROUNDS, WEYL_0, WEYL_1

NOT_DRAWN = -1
ELEMENTS = 2**22  # logits handled at a time: some 300 MB of intermediate values

_LOW = 0xFFFFFFFF


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
    """Return the id due at each row.

    Args:
        logits: float32 [R, C], C >= V; columns past V are padding and never drawn.
        keys: integers [R, 4], ``key_words`` of each row's draw key.
        positions: integers [R], 0 is the first completion token.
        temperature, top_k, top_p, min_p: [R], as in ``Sampling``. Float64 keeps the parameters'
            exact values, float32 rounds them.
        vocabulary_size: V of the draw.

    All tensors lie on one device, which must have float64.

    Returns:
        int64 [R] there; ``NOT_DRAWN`` for a row that holds NaN or +inf, or whose logits are all
        -inf.

    Raises:
        ValueError: a shape does not fit.
        TypeError: the logits are not float32.
    """
    columns = checked(
        logits, keys, positions, temperature, top_k, top_p, min_p, vocabulary_size=vocabulary_size
    )
    rows = max(1, ELEMENTS // vocabulary_size)
    parts = [
        _draw(logits[at : at + rows, :vocabulary_size], *(c[at : at + rows] for c in columns))
        for at in range(0, len(logits), rows)
    ]
    return torch.cat(parts) if parts else keys.new_empty(0, dtype=torch.int64)


def checked(
    logits: Tensor,
    keys: Tensor,
    positions: Tensor,
    temperature: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    min_p: Tensor,
    *,
    vocabulary_size: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the columns of ``draw_rows`` as int64 and float64, after a look at every shape.

    Raises:
        ValueError: a shape does not fit.
        TypeError: the logits are not float32.
    """
    if logits.dtype != torch.float32:
        raise TypeError(f"logits must be float32, not {logits.dtype}")
    if logits.ndim != 2 or not 1 <= vocabulary_size <= logits.shape[1]:
        shape = tuple(logits.shape)
        raise ValueError(f"logits of shape {shape} do not hold rows of {vocabulary_size} ids")
    columns = (
        keys.to(torch.int64),
        positions.to(torch.int64),
        temperature.to(torch.float64),
        top_k.to(torch.int64),
        top_p.to(torch.float64),
        min_p.to(torch.float64),
    )
    if any(len(column) != len(logits) for column in columns) or keys.shape[1:] != (4,):
        raise ValueError(f"keys and parameters must have one entry for each of {len(logits)} rows")
    return columns


def gumbel(keys: Tensor, positions: Tensor, ids: Tensor) -> Tensor:
    """Return the noise of some ids at each row.

    Args:
        keys: int64 [R, 4], the words of each row's draw key.
        positions: int64 [R].
        ids: int64 [R, n].

    Returns:
        float64 [R, n].
    """
    words = torch.stack(_philox(keys, positions, ids >> 2), dim=-1)
    return _gumbel_of_words(words.gather(-1, (ids & 3)[..., None]).squeeze(-1))


def _draw(
    logits: Tensor,
    keys: Tensor,
    positions: Tensor,
    temperature: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    min_p: Tensor,
) -> Tensor:
    """Return the ids due at rows that fit into memory at once, int64 [R]."""
    top = logits.amax(dim=1).double()
    valid = top.isfinite()
    floor = floors(logits, top, temperature, top_k, min_p)
    count = int((logits >= floor[:, None]).sum(dim=1).max())
    if count * 8 <= logits.shape[1]:
        # Few survive: they are the first ones of each row, and only they need noise.
        values, ids = logits.topk(max(count, 1), dim=1)
        noise = gumbel(keys, positions, ids)
    else:
        values = logits
        ids = torch.arange(logits.shape[1], device=logits.device)[None].expand_as(logits)
        noise = _gumbel_of_all(keys, positions, logits.shape[1])
    values = values.double()
    scores = torch.where(
        values >= floor[:, None], values + temperature[:, None] * noise, -torch.inf
    )
    drawn, logit = _best(scores, values, ids)
    if bool((top_p < 1).any()):
        mass = torch.exp((values - top[:, None]) / temperature[:, None])
        mass = mass.masked_fill(values < floor[:, None], 0.0)
        needed = torch.where(valid & (top_p < 1), top_p * mass.sum(dim=1), torch.inf)
        drawn = _draw_in_nucleus(scores, values, ids, mass, needed, drawn, logit)
    return torch.where(valid, drawn, NOT_DRAWN)


def _draw_in_nucleus(
    scores: Tensor,
    values: Tensor,
    ids: Tensor,
    mass: Tensor,
    needed: Tensor,
    drawn: Tensor,
    logit: Tensor,
) -> Tensor:
    """Return the drawn ids [R] after drawing again where the mass ahead is ``needed`` or more.

    ``drawn`` and ``logit`` [R] are the ids of the first draw and their logits; the tables are
    [R, n].
    """
    result = drawn.clone()
    rows = torch.arange(len(result), device=result.device)
    while True:
        ahead = (values > logit[:, None]) | ((values == logit[:, None]) & (ids < drawn[:, None]))
        outside = (mass * ahead).sum(dim=1) >= needed
        if not bool(outside.any()):
            return result
        scores = scores[outside].masked_fill(~ahead[outside], -torch.inf)
        values, ids, mass = values[outside], ids[outside], mass[outside]
        needed, rows = needed[outside], rows[outside]
        drawn, logit = _best(scores, values, ids)
        result[rows] = drawn


def floors(
    logits: Tensor, top: Tensor, temperature: Tensor, top_k: Tensor, min_p: Tensor
) -> Tensor:
    """Return the least logit that min_p and top_k keep, float64 [R]; -inf where both are off."""
    # log(0) is -inf, which is what min_p 0 asks for.
    floor = top + temperature * torch.log(min_p)
    limited = (top_k > 0) & (top_k < logits.shape[1])
    most = int(torch.where(limited, top_k, 0).max())
    if most == 0:
        return floor
    place = (top_k.clamp(1, most) - 1)[:, None]
    # A customer's top_k may be most of the vocabulary, and all of these are written down.
    rows = max(1, ELEMENTS // most)
    parts = zip(logits.split(rows), place.split(rows), strict=True)
    kth = torch.cat([part.topk(most, dim=1).values.gather(1, at) for part, at in parts])
    kth = kth.squeeze(1).double()
    return torch.where(limited, torch.maximum(floor, kth), floor)


def _best(scores: Tensor, values: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the ids of the largest scores, the lower id of equal ones, and their logits, [R]."""
    ties = scores == scores.amax(dim=1, keepdim=True)
    column = torch.where(ties, ids, torch.iinfo(torch.int64).max).argmin(dim=1, keepdim=True)
    return ids.gather(1, column).squeeze(1), values.gather(1, column).squeeze(1)


def _gumbel_of_all(keys: Tensor, positions: Tensor, size: int) -> Tensor:
    """Return the noise of ids 0 .. size-1 at each row, float64 [R, size]."""
    blocks = torch.arange((size + 3) // 4, device=keys.device)[None].expand(len(keys), -1)
    words = torch.stack(_philox(keys, positions, blocks), dim=-1).flatten(1)[:, :size]
    return _gumbel_of_words(words)


def _gumbel_of_words(words: Tensor) -> Tensor:
    """Return the Gumbel(0, 1) value of each 32-bit integer, float64, same shape."""
    return -torch.log(-torch.log1p((words.double() + 0.5) * -(2.0**-32)))


def _philox(
    keys: Tensor, positions: Tensor, blocks: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the four words of each block of four ids, int64, each of the shape of ``blocks``.

    A product wraps modulo 2^64, which keeps the bits of both of its halves.
    """
    k0, k1, x2, x3 = (keys[:, word, None] for word in range(4))
    x0, x1 = blocks, positions[:, None]
    for _ in range(ROUNDS):
        product_0 = x0 * MULTIPLIER_0
        product_1 = x2 * MULTIPLIER_1
        x0 = ((product_1 >> 32) & _LOW) ^ x1 ^ k0
        x1 = product_1 & _LOW
        x2 = ((product_0 >> 32) & _LOW) ^ x3 ^ k1
        x3 = product_0 & _LOW
        k0 = (k0 + WEYL_0) & _LOW
        k1 = (k1 + WEYL_1) & _LOW
    return x0, x1, x2, x3
