"""Drawn ids and margins of many rows at full vocabularies, on the CPU.

Equal to ``scoring.margin``, by three facts. Where the claim is the drawn id, which is nearly
always, there is nothing to compute. By falling logit every set of the margin is a prefix, so sums
from the far end and a running maximum of the scores serve all distances. And an id that is SURE is
kept, so no id below the drawn one's logit can be a rival: most margins need only the ids near the
top.
"""

import math

import numpy as np

from protocol.draw import numba_form
from protocol.draw.compiled import compiled
from protocol.sampling import Sampling
from scoring.margin import CAP, STEPS, bisect

FINEST = CAP / 2**STEPS
# Distances tried in turn, each with only the ids that matter below it. They are points of the
# bisection's own grid.
REACHES = (CAP / 64, CAP / 16, CAP / 4, CAP)


def judge_rows(
    logits: np.ndarray,
    claimed: np.ndarray,
    keys: np.ndarray,
    positions: np.ndarray,
    sampling: Sampling,
    vocabulary_size: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the id due at each row and the margin of the claimed one.

    Args:
        logits: float32 [R, C], C >= V; columns past V are padding.
        claimed: integers [R], the ids that the miner returned, 0 .. V-1.
        keys: uint32 [R, 4], ``key_words`` of each row's draw key.
        positions: integers [R], 0 is the first completion token.
        sampling: the order's sampling.
        vocabulary_size: V of the draw.

    Returns:
        Drawn ids, int64 [R], and margins in logits, float64 [R], as ``scoring.margin`` gives
        them. A row that holds NaN or +inf, or only -inf, has no draw: -1 and NaN.

    Raises:
        ValueError: a shape does not fit, or a claimed id is not one of the draw's.
        TypeError: the logits are not float32.
    """
    rows = len(logits)
    claimed = np.asarray(claimed, dtype=np.int64)
    if claimed.shape != (rows,):
        raise ValueError(f"claimed must have shape ({rows},), not {claimed.shape}")
    if rows and not (claimed.min() >= 0 and claimed.max() < vocabulary_size):
        raise ValueError(f"claimed ids must lie in 0 .. {vocabulary_size - 1}")
    drawn = numba_form.draw_rows(
        logits,
        keys,
        positions,
        np.full(rows, sampling.temperature),
        np.full(rows, sampling.top_k),
        np.full(rows, sampling.top_p),
        np.full(rows, sampling.min_p),
        vocabulary_size,
    )
    margins = np.where(drawn < 0, np.nan, 0.0)
    for row in np.flatnonzero((drawn != claimed) & (drawn >= 0)):
        part = slice(row, row + 1)
        margins[part] = margins_of(
            logits[part, :vocabulary_size],
            claimed[part],
            drawn[part],
            keys[part],
            positions[part],
            sampling,
        )
    return drawn, margins


def margins_of(
    logits: np.ndarray,
    claimed: np.ndarray,
    drawn: np.ndarray,
    keys: np.ndarray,
    positions: np.ndarray,
    sampling: Sampling,
) -> np.ndarray:
    """Return the margins of claims that are not the drawn ids, float64 [R].

    Args:
        logits: float32 [R, V], without padding.
        claimed, drawn: integers [R], different in every row.
        keys, positions, sampling: as ``judge_rows`` has them.
    """
    return np.array(
        [
            _margin(
                np.ascontiguousarray(logits[row]),
                int(claimed[row]),
                int(drawn[row]),
                np.ascontiguousarray(keys[row], dtype=np.uint32),
                int(positions[row]),
                sampling,
            )
            for row in range(len(logits))
        ]
    )


def _margin(
    row: np.ndarray, claimed: int, drawn: int, key: np.ndarray, position: int, sampling: Sampling
) -> float:
    """Return the margin of ``claimed`` at one row, float32 [V], where another id is drawn."""
    if row[claimed] == -math.inf:
        return CAP
    temperature, top_p = sampling.temperature, sampling.top_p
    ids = np.array([claimed, drawn])
    own, best = row[ids] + temperature * numba_form.gumbel_of(key, position, ids)
    edges = _edges(row, sampling)
    if max(edges) == -math.inf and top_p == 1:
        return bisect(lambda distance: best <= own + distance)
    for reach in REACHES:
        if row[claimed] + reach < max(edges):
            continue
        near, rivals, masses = _near(row, claimed, drawn, max(edges), sampling, reach)
        noise = numba_form.gumbel_of(key, position, rivals)
        scores = near[: len(rivals)] + temperature * noise
        leaders = np.maximum.accumulate(scores)
        nucleus = temperature * math.log(top_p / (1 - top_p)) if top_p < 1 else math.inf
        found = _bisect(
            near, leaders, *masses, float(row[claimed]), own, temperature, *edges, nucleus, reach
        )
        if found >= 0:
            return found
    return CAP


def _edges(row: np.ndarray, sampling: Sampling) -> tuple[float, float, float]:
    """Return the floor of min_p, the k-th largest logit and the one after it; -inf where off."""
    floor = kth = next_kth = -math.inf
    if sampling.min_p > 0:
        floor = numba_form.kth_largest(row, 1) + sampling.temperature * math.log(sampling.min_p)
    if 0 < sampling.top_k < len(row):
        kth = numba_form.kth_largest(row, sampling.top_k)
        next_kth = numba_form.kth_largest(row, sampling.top_k + 1)
    return floor, kth, next_kth


def _near(
    row: np.ndarray, claimed: int, drawn: int, edge: float, sampling: Sampling, reach: float
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return what matters of a row at distances up to ``reach``.

    Args:
        edge: the least logit that min_p and top_k keep, -inf where both are off.

    Returns:
        The falling logits, float64 [n], of all ids that have to be told apart; the ids, int64, of
        those among them that could be rivals, a prefix; and their masses as ``_masses`` has them.
    """
    cut = float(row[drawn])
    if sampling.top_p < 1:
        cut = min(cut - reach, float(row[claimed])) if edge == -math.inf else edge - reach
    # What lies below the edge by more than the reach is in no set; without an edge all ids are in
    # all sets, and those below the cut only ever count together.
    with_tail = sampling.top_p < 1 and edge == -math.inf
    packed, tail = _gather(row, cut, sampling.temperature, with_tail)
    packed.sort()
    ids = (packed & np.uint64(0xFFFFFFFF)).astype(np.int64)
    near = row[ids].astype(np.float64)
    rivals = ids[: np.searchsorted(-near, -float(row[drawn]), side="right")]
    return near, rivals, _masses(near, tail, cut, sampling.temperature)


@compiled
def _gather(row, cut, temperature, with_tail):
    """The ids of logit >= ``cut``, packed to sort by falling logit, then rising id.

    Also the mass of all others relative to ``cut``, where it is asked for.
    """
    bits = row.view(np.int32)
    packed = np.empty(row.shape[0], dtype=np.uint64)
    count = 0
    tail = 0.0
    for index in range(row.shape[0]):
        if row[index] >= cut:
            # Adding 0 turns -0 into 0: equal logits must have equal bits.
            value = np.int64(bits[index]) if row[index] != 0 else np.int64(0)
            rising = value if value >= 0 else value ^ 0x7FFFFFFF
            packed[count] = np.uint64(((0x7FFFFFFF - rising) << 32) | index)
            count += 1
        elif with_tail:
            tail += math.exp((row[index] - cut) / temperature)
    return packed[:count].copy(), tail


@compiled
def _masses(near, tail, cut, temperature):
    """Running masses from the far end: sums [n + 2] and the logits they are relative to [n + 2].

    Entry i stands for the ids from i on, entry n for the tail alone and entry n + 1 for nothing.
    The reference rises with the logits, so that no mass overflows and none is lost.
    """
    size = near.shape[0]
    sums = np.zeros(size + 2)
    references = np.full(size + 2, cut)
    sums[size] = tail
    for index in range(size - 1, -1, -1):
        mass, reference = sums[index + 1], references[index + 1]
        if near[index] - reference > 300.0 * temperature:
            mass *= math.exp((reference - near[index]) / temperature)
            reference = near[index]
        sums[index] = mass + math.exp((near[index] - reference) / temperature)
        references[index] = reference
    return sums, references


@compiled
def _soft_maximum(sums, references, start, stop, temperature):
    """T log of the mass of the ids from ``start`` up to ``stop``, in logits."""
    if start >= stop:
        return -np.inf
    shift = math.exp((references[stop] - references[start]) / temperature)
    return references[start] + temperature * math.log(sums[start] - sums[stop] * shift)


@compiled
def _soft_add(one, other, temperature):
    """T log of the sum of two masses given as T log of each."""
    high, low = max(one, other), min(one, other)
    if low == -np.inf:
        return high
    return high + temperature * math.log1p(math.exp((low - high) / temperature))


@compiled
def _count_above(near, limit):
    """How many of the falling logits are above ``limit``."""
    low, high = 0, near.shape[0]
    while low < high:
        middle = (low + high) // 2
        if near[middle] > limit:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _count_kept(near, moved, floor, kth, strict):
    """How many of the falling logits stay within the edges of min_p and top_k once ``moved``."""
    low, high = 0, near.shape[0]
    while low < high:
        middle = (low + high) // 2
        value = near[middle] + moved
        if value >= floor and (value > kth or (value == kth and not strict)):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _sure_in_nucleus(near, sums, references, rival, distance, temperature, sure, maybe, nucleus):
    """Whether the id at place ``rival`` is in the nucleus however the logits move."""
    stop = min(_count_above(near, near[rival] - distance), maybe)
    ahead = _soft_maximum(sums, references, 0, min(rival, stop), temperature)
    rest = _soft_maximum(sums, references, stop, sure, temperature)
    if stop > rival:
        behind = _soft_maximum(sums, references, rival + 1, stop, temperature)
        ahead = _soft_add(ahead, behind, temperature)
        rest = _soft_add(rest, near[rival], temperature)
    return ahead == -np.inf or ahead - rest + distance < nucleus


@compiled
def _possible(row, distance):
    """Whether the claimed id could be drawn if every logit moved by at most distance/2."""
    near, leaders, sums, references, logit, own, temperature, floor, kth, next_kth, nucleus = row
    if logit + distance < floor or logit + distance < kth:
        return False
    if floor == -np.inf and kth == -np.inf:
        sure = maybe = near.shape[0] + 1
    else:
        sure = _count_kept(near, -distance, floor, next_kth, True)
        maybe = _count_kept(near, distance, floor, kth, False)
    rivals = min(sure, leaders.shape[0])
    if nucleus < np.inf:
        stop = min(_count_above(near, logit + distance), sure)
        ahead = _soft_maximum(sums, references, 0, stop, temperature)
        rest = _soft_maximum(sums, references, stop, maybe, temperature)
        if stop > 0 and not ahead - rest - distance < nucleus:
            return False
        low = 0
        while low < rivals:
            middle = (low + rivals) // 2
            if _sure_in_nucleus(
                near, sums, references, middle, distance, temperature, sure, maybe, nucleus
            ):
                low = middle + 1
            else:
                rivals = middle
    return rivals == 0 or leaders[rivals - 1] <= own + distance


@compiled
def _bisect(
    near, leaders, sums, references, logit, own, temperature, floor, kth, next_kth, nucleus, reach
):
    """The smallest possible distance up to ``reach`` as ``scoring.margin.bisect`` has it, or -1."""
    row = (near, leaders, sums, references, logit, own, temperature, floor, kth, next_kth, nucleus)
    if not _possible(row, reach):
        return -1.0
    if _possible(row, 0.0):
        return 0.0
    low, high = 0.0, reach
    while high - low > FINEST:
        middle = (low + high) / 2
        if _possible(row, middle):
            high = middle
        else:
            low = middle
    return high
