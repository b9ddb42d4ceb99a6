"""Batches on large files, each at a gateway of its own: its cost beside the bare cost, and so on.

Three things are measured, in one run: the processor time of creating the batch, as a multiple of
what parsing, rendering and tokenizing the same file costs barely; the peak memory of the gateway
and its worker, the upload included; and how long other requests take meanwhile. What those cost,
and what the gateway does by itself all the time, is taken off: what they cost beside the bare
reading, for work of any kind beside them makes them dearer.
"""

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from scripts.bench.intake.bare import bare_seconds
from scripts.bench.intake.files import MODEL, write_file
from scripts.bench.intake.gateway import Gateway, running_gateway
from scripts.bench.intake.model import write_model
from scripts.hub import HubServer, publish

MIB = 2**20
LINES = 50_000
# Sizes of the files in MiB: short prompts, and the most that either upload takes.
SIZES = (20, 32, 200)
QUIET_SECONDS = 5
PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class Measured:
    """What one file took; times in seconds, sizes in bytes."""

    size: int
    bare: float
    upload: float
    create: float
    create_wall: float
    peak: int
    quiet_p99: float
    busy_p99: float
    busy_longest: float
    requests: int


def main() -> None:
    """Read the command line and measure."""

    def command(
        size: Annotated[
            list[int] | None, typer.Option(help="Size of a file in MiB; may be repeated.")
        ] = None,
    ) -> None:
        run(size or list(SIZES))

    typer.run(command)


def run(sizes: list[int]) -> list[Measured]:
    """Measure files of 50,000 lines of these sizes in MiB; print a table."""
    found: list[Measured] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder / "model")
        publish(folder / "hub", MODEL, folder / "model")
        with HubServer(folder / "hub") as hub:
            for size in sizes:
                found.append(_measure(folder, hub.url, size * MIB))
                Console(stderr=True).print(found[-1])
    Console().print(_table(found))
    return found


def _measure(folder: Path, hub_url: str, size: int) -> Measured:
    place = folder / str(size)
    place.mkdir()
    path, first = place / "large.jsonl", place / "first.jsonl"
    write_file(path, LINES, size)
    write_file(first, 1, 1_000)
    with running_gateway(place, hub_url) as gateway:
        # Model and tokenizer are fetched and loaded before the clock starts, as in the bare run.
        gateway.order(gateway.upload(first))
        before = gateway.used()
        file_id = gateway.upload(path)
        uploaded = gateway.used() - before
        before = gateway.used()
        time.sleep(QUIET_SECONDS)
        a_second = (gateway.used() - before) / QUIET_SECONDS
        with _probing(gateway) as quiet:
            time.sleep(QUIET_SECONDS)
        # Barely before and after, since a machine's speed changes with what else it does.
        first_bare, first_probe = _bare(gateway, path, folder / "model", a_second)
        before, started = gateway.used(), time.monotonic()
        with _probing(gateway) as busy:
            gateway.order(file_id)
        wall = time.monotonic() - started
        used = gateway.used() - before
        peak = gateway.peak()
        last_bare, last_probe = _bare(gateway, path, folder / "model", a_second)
        bare, a_probe = (first_bare + last_bare) / 2, (first_probe + last_probe) / 2
        created = used - wall * a_second - len(busy) * a_probe
    path.unlink()
    return Measured(
        size=size,
        bare=bare,
        upload=uploaded,
        create=created,
        create_wall=wall,
        peak=peak,
        quiet_p99=float(np.quantile(quiet, 0.99)),
        busy_p99=float(np.quantile(busy, 0.99)),
        busy_longest=max(busy),
        requests=len(busy),
    )


def _bare(gateway: Gateway, path: Path, model: Path, a_second: float) -> tuple[float, float]:
    """Return the processor seconds of a bare reading, and of one request beside it.

    Beside the same requests, which take the caches and the cores' shared parts from it too.
    """
    before, started = gateway.used(), time.monotonic()
    with _probing(gateway) as beside:
        bare = bare_seconds(path, model)
    idle = (time.monotonic() - started) * a_second
    return bare, (gateway.used() - before - idle) / len(beside)


@contextmanager
def _probing(gateway: Gateway) -> Iterator[list[float]]:
    """Ask for the list of files again and again; collects how long each answer took."""
    times: list[float] = []
    stop = threading.Event()

    def probe() -> None:
        with gateway.client() as client:
            while not stop.is_set():
                started = time.monotonic()
                client.get("/files").raise_for_status()
                times.append(time.monotonic() - started)
                stop.wait(PAUSE_SECONDS)

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        yield times
    finally:
        stop.set()
        thread.join()


def _table(found: list[Measured]) -> Table:
    table = Table(title=f"files of {LINES:,} lines")
    for heading in (
        "MiB",
        "bare s",
        "create s",
        "ratio",
        "upload s",
        "wall s",
        "peak MB",
        "GET p99 ms, quiet",
        "meanwhile",
        "longest",
        "GETs",
    ):
        table.add_column(heading, justify="right")
    for one in found:
        table.add_row(
            str(one.size // MIB),
            f"{one.bare:.1f}",
            f"{one.create:.1f}",
            f"{one.create / one.bare:.2f}",
            f"{one.upload:.1f}",
            f"{one.create_wall:.1f}",
            f"{one.peak / 1e6:.0f}",
            f"{1000 * one.quiet_p99:.0f}",
            f"{1000 * one.busy_p99:.0f}",
            f"{1000 * one.busy_longest:.0f}",
            str(one.requests),
        )
    return table


if __name__ == "__main__":
    main()
