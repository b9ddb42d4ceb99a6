"""What the draw alone costs, beside the sampler it replaces.

One table of logits at a full vocabulary. Every way of sampling takes its turn in every round, so
that whatever else the machine does falls on all of them, and the best round counts. Times are the
processor's, on one core; on a GPU they are the clock's, from the call to the ids on the host.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from protocol.draw import device_form, numba_form, reference, torch_form
from protocol.draw.key import key_words
from protocol.messages import DeviceKind
from protocol.sampling import Sampling

VOCABULARY = 151_936
ROWS, QUICK_ROWS = 64, 8
ROUNDS, QUICK_ROUNDS = 5, 3
REFERENCE_ROWS = 4  # the reference is linear in rows and slow; its time is scaled up
PLAIN = "plain sampler, torch"
SAMPLINGS = {
    "unfiltered": Sampling(),
    "k 20, p .95": Sampling(top_k=20, top_p=0.95),
    "p .95": Sampling(top_p=0.95),
    "min_p .05": Sampling(min_p=0.05),
}


@dataclass(frozen=True)
class Timing:
    """The best time of one way of sampling: milliseconds for the whole table."""

    way: str
    filters: str
    milliseconds: float
    ratio: float  # times faster than the plain sampler of the same run


@dataclass(frozen=True)
class Rows:
    """A table of logits, float32 [R, V], with the key and the position of each row."""

    logits: np.ndarray
    keys: list[bytes]
    positions: np.ndarray

    @classmethod
    def synthetic(cls, count: int, seed: int) -> "Rows":
        """Rows as peaked as text's: a bell of 2.5 logits with 50 ids raised by up to 17."""
        rng = np.random.default_rng(seed)
        logits = rng.normal(0, 2.5, (count, VOCABULARY)).astype(np.float32)
        raised = rng.integers(0, VOCABULARY, (count, 50))
        lift = rng.uniform(0, 17, raised.shape).astype(np.float32)
        np.put_along_axis(logits, raised, lift + np.take_along_axis(logits, raised, 1), 1)
        return cls(logits, [rng.bytes(32) for _ in range(count)], np.arange(count))

    def entropy(self) -> float:
        """The mean entropy of the rows, in nats."""
        shifted = self.logits - self.logits.max(axis=1, keepdims=True)
        mass = np.exp(shifted)
        mass /= mass.sum(axis=1, keepdims=True)
        return float(-(mass * np.log(np.maximum(mass, 1e-300))).sum(axis=1).mean())


def run(quick: bool, device: DeviceKind = "cpu") -> list[Timing]:
    """Measure, print the table and return its entries.

    Args:
        quick: fewer rows and rounds.
        device: where the tensors lie.

    Raises:
        RuntimeError: two forms of the draw gave different ids.
    """
    rows = Rows.synthetic(QUICK_ROWS if quick else ROWS, seed=1)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        timings = [
            timing
            for filters, sampling in SAMPLINGS.items()
            for timing in _measure(
                rows, filters, sampling, QUICK_ROUNDS if quick else ROUNDS, device
            )
        ]
    finally:
        torch.set_num_threads(threads)
    Console().print(_table(timings, rows, device))
    return timings


def plain_sampler(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Sample as an inference engine does without a forced draw; ids, int64 [R].

    A full sort serves top_k and top_p. Gumbel noise from uniform numbers takes a third of the time
    of ``torch.multinomial`` or of exponential noise on a CPU.
    """
    logits = logits / sampling.temperature
    if sampling.min_p > 0:
        mass = logits.softmax(dim=-1)
        low = mass < sampling.min_p * mass.amax(dim=-1, keepdim=True)
        logits = logits.masked_fill(low, -torch.inf)
    if sampling.top_k > 0 or sampling.top_p < 1:
        rising, ids = logits.sort(dim=-1)
        if sampling.top_k > 0:
            kth = rising[:, -sampling.top_k, None]
            rising = rising.masked_fill(rising < kth, -torch.inf)
        behind = rising.softmax(dim=-1).cumsum(dim=-1)
        outside = behind <= 1 - sampling.top_p
        outside[:, -1] = False
        rising = rising.masked_fill(outside, -torch.inf)
        logits = torch.empty_like(rising).scatter_(-1, ids, rising)
    noise = torch.rand_like(logits).log_().neg_().log_()
    return (logits - noise).argmax(dim=-1)


def _measure(
    rows: Rows, filters: str, sampling: Sampling, rounds: int, device: DeviceKind
) -> list[Timing]:
    """Time every way of sampling under one set of filters."""
    ways = _ways(rows, sampling, device)
    clock = time.thread_time if device == "cpu" else time.perf_counter
    drawn = {way: sample() for way, sample in ways.items() if way != PLAIN}
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for way, sample in ways.items():
            start = clock()
            sample()
            best[way] = min(best[way], clock() - start)
    first = next(iter(drawn.values()))
    for way, ids in drawn.items():
        if not np.array_equal(ids, first[: len(ids)]):
            raise RuntimeError(f"{way} drew other ids under {filters}")
        best[way] *= len(first) / len(ids)
    return [
        Timing(way, filters, seconds * 1e3, best[PLAIN] / seconds) for way, seconds in best.items()
    ]


def _ways(
    rows: Rows, sampling: Sampling, device: DeviceKind
) -> dict[str, Callable[[], np.ndarray]]:
    """Return every way of sampling the rows, by name; each gives the ids of the first rows."""
    count = len(rows.logits)
    keys = np.stack([key_words(key) for key in rows.keys])
    parameters = (
        np.full(count, sampling.temperature),
        np.full(count, sampling.top_k),
        np.full(count, sampling.top_p),
        np.full(count, sampling.min_p),
    )
    columns = (keys, rows.positions, *parameters)
    logits = torch.from_numpy(rows.logits).to(device)
    temperature, top_k, top_p, min_p = (torch.from_numpy(one).to(device) for one in parameters)
    words, positions = (
        torch.from_numpy(one).to(device) for one in (keys.astype(np.int64), rows.positions)
    )
    tensors = (logits, words, positions, temperature, top_k, top_p, min_p)

    def readable() -> np.ndarray:
        drawn = [
            reference.draw(rows.logits[row], rows.keys[row], row, sampling)
            for row in range(min(REFERENCE_ROWS, count))
        ]
        return np.array(drawn)

    here = {
        "forced, numba": lambda: numba_form.draw_rows(rows.logits, *columns, VOCABULARY),
        "forced, NumPy reference": readable,
    }
    there = {
        "forced, torch": lambda: torch_form.draw_rows(*tensors, VOCABULARY).cpu().numpy(),
        PLAIN: lambda: plain_sampler(logits, sampling).cpu().numpy(),
    }
    if device == "cpu":
        return here | there
    fused = {"forced, fused": lambda: device_form.draw_rows(*tensors, VOCABULARY).cpu().numpy()}
    return fused | there


def _table(timings: list[Timing], rows: Rows, device: DeviceKind) -> Table:
    place = "one core" if device == "cpu" else torch.cuda.get_device_name()
    table = Table(
        title=f"Sampling {len(rows.logits)} rows of {VOCABULARY:,} logits on {place}\n"
        f"ms, and times as fast as the plain sampler; mean entropy {rows.entropy():.1f} nats"
    )
    table.add_column("")
    for filters in SAMPLINGS:
        table.add_column(filters, justify="right")
    for way in dict.fromkeys(timing.way for timing in timings):
        cells = [timing for timing in timings if timing.way == way]
        table.add_row(way, *(_cell(cell) for cell in cells))
    return table


def _cell(timing: Timing) -> str:
    digits = 0 if timing.ratio >= 10 else 1
    return f"{timing.milliseconds:,.1f}  {timing.ratio:,.{digits}f}x"
