"""The compiled loops of the forced draw; ``numba_form`` says why they are cheap and checks.

No function here may be called from a compiled function of another module: numba's cache would not
notice a change of this file.
"""

import math

import numpy as np

from protocol.draw.compiled import compiled, inlined
from protocol.draw.philox import MULTIPLIER_0, MULTIPLIER_1, WEYL_0, WEYL_1

BLOCK = 256  # ids per block; a multiple of 4, the words of one Philox call
FEW = 256  # so many ids at most are drawn from one by one
FAR = 4.0  # so many temperatures below its block's largest logit an id is told by fewer words
NOT_DRAWN = -1

_M0, _M1 = np.uint64(MULTIPLIER_0), np.uint64(MULTIPLIER_1)
_W0, _W1 = np.uint64(WEYL_0), np.uint64(WEYL_1)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_UNIT = 2.0**-32
_LOG2_E = 1.0 / math.log(2.0)
_LN2_HIGH = float.fromhex("0x1.62e42fefp-1")  # the first 33 bits of ln 2: n times it is exact
_LN2_LOW = float.fromhex("0x1.473de6af278edp-34")  # the rest of ln 2
_ROUNDER = 1.5 * 2.0**52
_ONE_BITS = 1023 << 52  # 1.0 as an integer
_POSITIVE_INFINITY, _NEGATIVE_INFINITY = 0x7F800000, -0x7F800001  # as ordered integers


@inlined
def _round(x0, x1, x2, x3, k0, k1):
    """One round of Philox on words in the low halves of 64-bit integers."""
    product_0 = (x0 & _LOW) * _M0
    product_1 = (x2 & _LOW) * _M1
    return (product_1 >> _HALF) ^ x1 ^ k0, product_1, (product_0 >> _HALF) ^ x3 ^ k1, product_0


@inlined
def _philox(x0, x1, k0, k1, x2, x3):
    """The four words of ids ``4 block .. 4 block + 3``, in the low halves of 64-bit integers."""
    # Written out, since a loop here would keep the caller's loop over blocks from being vectorised.
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0, k1)
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0 + _W0, k1 + _W1)
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0 + np.uint64(2) * _W0, k1 + np.uint64(2) * _W1)
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0 + np.uint64(3) * _W0, k1 + np.uint64(3) * _W1)
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0 + np.uint64(4) * _W0, k1 + np.uint64(4) * _W1)
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0 + np.uint64(5) * _W0, k1 + np.uint64(5) * _W1)
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0 + np.uint64(6) * _W0, k1 + np.uint64(6) * _W1)
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0 + np.uint64(7) * _W0, k1 + np.uint64(7) * _W1)
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0 + np.uint64(8) * _W0, k1 + np.uint64(8) * _W1)
    return _round(x0, x1, x2, x3, k0 + np.uint64(9) * _W0, k1 + np.uint64(9) * _W1)


@compiled
def _fill_words(first, position, key, words):
    """Write the words of the ids from ``first`` (a multiple of 4) on into ``words`` [4 n].

    The word of id ``first + 4 b + w`` goes to place ``n w + b``: whole vectors are stored at once.
    """
    start = np.uint64(first) >> np.uint64(2)
    k0, k1, k2, k3 = np.uint64(key[0]), np.uint64(key[1]), np.uint64(key[2]), np.uint64(key[3])
    count = words.shape[0] // 4
    for block in range(count):
        x0, x1, x2, x3 = _philox(start + np.uint64(block), np.uint64(position), k0, k1, k2, k3)
        words[block] = np.uint32(x0)
        words[count + block] = np.uint32(x1)
        words[2 * count + block] = np.uint32(x2)
        words[3 * count + block] = np.uint32(x3)


@compiled
def _gumbel(word):
    """The Gumbel(0, 1) value of a 32-bit integer."""
    return -math.log(-math.log1p(-(np.float64(word) + 0.5) * _UNIT))


@compiled
def gumbel_of(key, position, ids, noise):
    """Write the noise of ``ids`` into ``noise``."""
    words = np.empty(4, dtype=np.uint32)
    for index in range(ids.shape[0]):
        _fill_words(ids[index] & ~3, position, key, words)
        noise[index] = _gumbel(words[ids[index] & 3])


@compiled
def find_peaks(row, peaks):
    """Write the largest logit of every block into ``peaks``; False where the row has no draw.

    Floats are compared as integers that have their order, so that the loop is vectorised and NaN,
    which lies beyond the infinities there, is found in the same pass.
    """
    bits = row.view(np.int32)
    ordered_peaks = peaks.view(np.int32)
    lowest, highest = np.int32(0x7FFFFFFF), np.int32(-0x80000000)
    for block in range(peaks.shape[0]):
        part = bits[block * BLOCK : min((block + 1) * BLOCK, row.shape[0])]
        low, high = np.int32(0x7FFFFFFF), np.int32(-0x80000000)
        for index in range(part.shape[0]):
            value = part[index]
            ordered = np.int32(value ^ ((value >> 31) & 0x7FFFFFFF))
            low = min(low, ordered)
            high = max(high, ordered)
        ordered_peaks[block] = np.int32(high ^ ((high >> 31) & 0x7FFFFFFF))
        lowest = min(lowest, low)
        highest = max(highest, high)
    return lowest >= _NEGATIVE_INFINITY and _NEGATIVE_INFINITY < highest < _POSITIVE_INFINITY


@compiled
def _lane_peaks(row, lanes):
    """The largest logits of ``lanes`` sets of ids, each of which lie ``lanes`` apart."""
    peaks = row[:lanes].copy()
    for start in range(lanes, row.shape[0], lanes):
        part = row[start : min(start + lanes, row.shape[0])]
        for index in range(part.shape[0]):
            peaks[index] = part[index] if part[index] > peaks[index] else peaks[index]
    return peaks


@compiled
def _under_kth(row, peaks, k):
    """A logit that the k-th largest is at least, 1 <= k <= V.

    k sets of ids whose largest logit is at least t hold k logits of at least t. Rows of too few
    blocks for that are cut into narrower sets.
    """
    maxima = peaks if k <= peaks.shape[0] else _lane_peaks(row, min(4 * k, row.shape[0]))
    return np.partition(maxima, maxima.shape[0] - k)[maxima.shape[0] - k]


@compiled
def kth_largest(row, peaks, k):
    """The k-th largest logit, 1 <= k <= V."""
    least = _under_kth(row, peaks, k)
    size = 0
    for block in range(peaks.shape[0]):
        if peaks[block] >= least:
            size += min(BLOCK, row.shape[0] - block * BLOCK)
    found = np.empty(size, dtype=np.float32)
    count = 0
    for block in range(peaks.shape[0]):
        if peaks[block] >= least:
            for index in range(block * BLOCK, min((block + 1) * BLOCK, row.shape[0])):
                if row[index] >= least:
                    found[count] = row[index]
                    count += 1
    return np.partition(found[:count], count - k)[count - k]


@compiled
def _word_limit(peak, best, temperature):
    """The largest word x with which an id of logit ``peak`` may reach ``best``; -1 where none may.

    The slack covers the rounding of scores, counted in units of the temperature.
    """
    slack = 1e-15 * (abs(peak) + abs(best))
    exponent = (peak - best + slack) / temperature + 1e-9
    if exponent >= 0:
        return np.int64(0xFFFFFFFF)
    return np.int64(math.floor(math.exp(exponent) / _UNIT - 0.5))


@compiled
def _best(row, peaks, key, position, temperature, floor, edge, words):
    """The best-scoring id among those with logit >= ``floor`` that lie ahead of id ``edge``.

    The ids lie by falling logit, then rising id; ``edge`` -1 sets no edge. Returns -1 where no
    id is left.
    """
    if edge >= 0:
        floor = max(floor, np.float64(row[edge]))
    best, best_id = -np.inf, np.int64(-1)
    first = np.argmax(peaks)
    for step in range(-1, peaks.shape[0]):
        # The block of the largest logit goes first and sets a high bar from the start.
        block = first if step < 0 else step
        peak = np.float64(peaks[block])
        if step == first or peak < floor or peak == -np.inf:
            continue
        limit = _word_limit(peak, best, temperature)
        if limit < 0:
            continue
        start = block * BLOCK
        _fill_words(start, position, key, words)
        if step < 0 and edge < 0:
            # The id of the largest logit sets the bar, so that few others need a logarithm.
            best_id = start + np.argmax(row[start : start + BLOCK])
            best = peak + temperature * _gumbel(words[_place(best_id)])
            limit = _word_limit(peak, best, temperature)
        if not _any_within(words, limit):
            continue
        # Most logits of a block lie far below its largest one, and need a much rarer word.
        far = peak - FAR * temperature
        far_limit = _word_limit(far, best, temperature)
        for place in range(BLOCK):
            if words[place] > limit:
                continue
            index = start + 4 * (place % (BLOCK // 4)) + place // (BLOCK // 4)
            if index >= row.shape[0]:
                continue
            logit = np.float64(row[index])
            if logit < far and words[place] > far_limit:
                continue
            if logit < floor or (edge >= 0 and logit == row[edge] and index >= edge):
                continue
            score = logit + temperature * _gumbel(words[place])
            if score > best or (score == best and index < best_id):
                best, best_id = score, index
                limit = _word_limit(peak, best, temperature)
                far_limit = _word_limit(far, best, temperature)
    return best_id


@inlined
def _place(index):
    """Where ``_fill_words`` puts the word of an id, counted within its block."""
    return (index % 4) * (BLOCK // 4) + (index % BLOCK) // 4


@compiled
def _any_within(words, limit):
    """Whether one of the words is at most ``limit``."""
    least = np.uint32(0xFFFFFFFF)
    for index in range(words.shape[0]):
        least = min(least, words[index])
    return least <= limit


@compiled
def _mass_ahead(row, peaks, temperature, edge):
    """The mass of the ids ahead of id ``edge``, relative to the top's."""
    top = np.float64(peaks.max())
    limit = np.float64(row[edge])
    total = 0.0
    for block in range(peaks.shape[0]):
        if peaks[block] < limit:
            continue
        for index in range(block * BLOCK, min((block + 1) * BLOCK, row.shape[0])):
            logit = np.float64(row[index])
            if logit > limit or (logit == limit and index < edge):
                total += math.exp((logit - top) / temperature)
    return total


@compiled
def _whole_mass(row, peaks, temperature, floor):
    """The mass of the ids with logit >= ``floor``, to the top's, less blocks too small to count."""
    top = np.float64(peaks.max())
    least = max(floor, top - 50.0 * temperature)
    exponents = np.empty(BLOCK, dtype=np.float64)
    shifted = np.empty(BLOCK, dtype=np.float64)
    sums = np.zeros(BLOCK, dtype=np.float64)
    for block in range(peaks.shape[0]):
        if peaks[block] < least:
            continue
        part = row[block * BLOCK : min((block + 1) * BLOCK, row.shape[0])]
        for index in range(part.shape[0]):
            exponent = (np.float64(part[index]) - top) / temperature
            exponents[index] = exponent if part[index] >= floor else -np.inf
        add_exponentials(exponents[: part.shape[0]], shifted, sums)
    return sums.sum()


@inlined
def _series(r):
    """exp(r) for abs(r) <= ln(2) / 2 by its power series."""
    low = 1.0 + r * (1.0 + r * (1 / 2 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r / 720)))))
    high = 1 / 5_040 + r * (
        1 / 40_320
        + r * (1 / 362_880 + r * (1 / 3_628_800 + r * (1 / 39_916_800 + r / 479_001_600)))
    )
    cube = r * r * r
    return low + cube * cube * r * high


@compiled
def add_exponentials(exponents, shifted, sums):
    """Add exp of each exponent, at most 0, to its sum; anything below -700 counts as -700.

    exp(z) = 2^n exp(r) with n = round(z / ln 2), in straight lines of arithmetic that vectorise,
    unlike calls of the mathematics library. Adding 1.5 * 2^52 leaves n in the low bits.
    """
    bits = shifted.view(np.int64)
    for index in range(exponents.shape[0]):
        exponents[index] = max(exponents[index], -700.0)
        shifted[index] = exponents[index] * _LOG2_E + _ROUNDER
    for index in range(exponents.shape[0]):
        power = shifted[index] - _ROUNDER
        rest = exponents[index] - power * _LN2_HIGH - power * _LN2_LOW
        exponents[index] = _series(rest)
    for index in range(exponents.shape[0]):
        bits[index] = (bits[index] << 52) + _ONE_BITS
    for index in range(exponents.shape[0]):
        sums[index] += exponents[index] * shifted[index]


@compiled
def _gather(row, peaks, floor, ids):
    """Write the ids with logit >= ``floor``, rising, into ``ids`` [FEW + BLOCK].

    Returns how many they are, -1 where there are more than FEW.
    """
    count = 0
    for block in range(peaks.shape[0]):
        if peaks[block] < floor:
            continue
        for index in range(block * BLOCK, min((block + 1) * BLOCK, row.shape[0])):
            # Always written, so that nothing depends on a branch that cannot be foreseen.
            ids[count] = index
            count += row[index] >= floor
        if count > FEW:
            return -1
    return count


@compiled
def _keep_largest(row, ids, k):
    """Move the ids of the k largest logits and of their equals to the front; how many they are."""
    if ids.shape[0] <= k:
        return ids.shape[0]
    logits = row[ids]
    kth = np.partition(logits, ids.shape[0] - k)[ids.shape[0] - k]
    count = 0
    for place in range(ids.shape[0]):
        ids[count] = ids[place]
        count += logits[place] >= kth
    return count


@compiled
def _draw_few(row, ids, key, position, temperature, top_p, scores, masses):
    """The id due where top_k and min_p leave the rising ``ids``, all of finite logits."""
    first = np.argmax(row[ids])
    top = np.float64(row[ids[first]])
    whole = 0.0
    for place in range(ids.shape[0]):
        masses[place] = math.exp((np.float64(row[ids[place]]) - top) / temperature)
        whole += masses[place]
    if masses[first] >= top_p * whole and top_p < 1:
        # The likeliest id fills the nucleus by itself, whatever the noise.
        return ids[first]
    gumbel_of(key, position, ids, scores)
    for place in range(ids.shape[0]):
        scores[place] = np.float64(row[ids[place]]) + temperature * scores[place]
    while True:
        drawn = np.argmax(scores[: ids.shape[0]])
        logit, ahead = row[ids[drawn]], 0.0
        for place in range(ids.shape[0]):
            other = row[ids[place]]
            if other > logit or (other == logit and place < drawn):
                ahead += masses[place]
            else:
                scores[place] = -np.inf
        if top_p == 1 or ahead < top_p * whole:
            return ids[drawn]


@compiled
def _draw_many(row, peaks, key, position, temperature, floor, top_p, words):
    """The id due among those with logit >= ``floor``."""
    top = np.float64(peaks.max())
    drawn = _best(row, peaks, key, position, temperature, floor, -1, words)
    whole = 0.0
    while top_p < 1:
        ahead = _mass_ahead(row, peaks, temperature, drawn)
        own = math.exp((np.float64(row[drawn]) - top) / temperature)
        if ahead < top_p * (ahead + own):
            break
        if whole == 0.0:
            whole = _whole_mass(row, peaks, temperature, floor)
        if ahead < top_p * whole:
            break
        drawn = _best(row, peaks, key, position, temperature, floor, drawn, words)
    return drawn


@compiled
def _draw_row(row, key, position, temperature, top_k, top_p, min_p, scratch):
    """The id due at one row, or ``NOT_DRAWN``."""
    peaks, words, ids, scores, masses = scratch
    if not find_peaks(row, peaks):
        return np.int64(NOT_DRAWN)
    floor = -np.inf
    if min_p > 0:
        floor = np.float64(peaks.max()) + temperature * math.log(min_p)
    ranked = 0 < top_k < row.shape[0]
    near = max(floor, np.float64(_under_kth(row, peaks, top_k))) if ranked else floor
    count = _gather(row, peaks, near, ids) if near > -np.inf else -1
    if count > 0:
        if ranked:
            count = _keep_largest(row, ids[:count], top_k)
        few = ids[:count]
        return _draw_few(row, few, key, position, temperature, top_p, scores, masses)
    if ranked:
        floor = max(floor, np.float64(kth_largest(row, peaks, top_k)))
    return _draw_many(row, peaks, key, position, temperature, floor, top_p, words)


@compiled
def draw_all(logits, keys, positions, temperature, top_k, top_p, min_p, vocabulary_size, drawn):
    """Write the id due at each row into ``drawn``."""
    scratch = (
        np.empty((vocabulary_size + BLOCK - 1) // BLOCK, dtype=np.float32),
        np.empty(BLOCK, dtype=np.uint32),
        np.empty(FEW + BLOCK, dtype=np.int64),
        np.empty(FEW, dtype=np.float64),
        np.empty(FEW, dtype=np.float64),
    )
    for index in range(logits.shape[0]):
        drawn[index] = _draw_row(
            logits[index, :vocabulary_size],
            keys[index],
            positions[index],
            temperature[index],
            top_k[index],
            top_p[index],
            min_p[index],
            scratch,
        )
