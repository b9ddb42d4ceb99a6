"""Exports of orders of two sizes, each in a fresh process: the most memory, and processor time.

A delivery streams, so that memory must not grow with the order.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gateway.store.tables import OutputFormat
from scripts.bench.export.made_order import make_order

LINES = (5_000, 50_000)
QUICK_LINES = (500, 2_000)
SAMPLES_A_LINE = (1, 4)
FORMATS = ("batch", *OutputFormat)
MIB = 2**20


@dataclass(frozen=True)
class Measured:
    """One export: the most resident memory of its process, processor seconds, bytes written."""

    peak_bytes: int
    cpu_seconds: float
    written_bytes: int


def main() -> None:
    """Read the command line and measure."""

    def command(
        quick: Annotated[bool, typer.Option(help="Small orders: a look, no figure.")] = False,
    ) -> None:
        """Export orders of two sizes in every format, each in a process of its own."""
        print("lines   n  format        delivery MiB  CPU s  peak MiB")
        for n in SAMPLES_A_LINE:
            for lines in QUICK_LINES if quick else LINES:
                _measure(lines, n)

    typer.run(command)


def _measure(lines: int, n: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        made = Path(name) / "made"
        made.mkdir()
        began = time.monotonic()
        order_id = asyncio.run(make_order(made, lines, n))
        print(f"made {lines:,} x {n} in {time.monotonic() - began:.0f} s", file=sys.stderr)
        for kind in FORMATS:
            data = Path(name) / "exported"
            shutil.copytree(made, data)
            found = exported(data, order_id, kind)
            shutil.rmtree(data)
            print(
                f"{lines:>6,}  {n}  {kind:<12}  {found.written_bytes / MIB:>12.1f}"
                f"  {found.cpu_seconds:>5.1f}  {found.peak_bytes / MIB:>8.0f}",
                flush=True,
            )


def exported(data: Path, order_id: str, kind: str) -> Measured:
    """Export an order in a fresh process.

    Args:
        kind: an ``OutputFormat``, or ``batch`` for a batch of the OpenAI dialects.
    """
    command = [sys.executable, "-m", "scripts.bench.export.child", str(data), order_id, kind]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return Measured(**json.loads(done.stdout))


if __name__ == "__main__":
    main()
