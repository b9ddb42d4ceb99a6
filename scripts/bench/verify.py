"""How long ``reliquary verify`` takes and how much memory, on deliveries of two sizes.

The check runs in a process of its own, as a customer runs it; the delivery is made up
(``made_delivery.py``), its samples all of one length.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from protocol.documents import work_keys
from protocol.manifest import FILES
from protocol.messages import Work
from scripts.bench.made_delivery import Model, make_delivery
from scripts.bench.made_receipts import Signers
from scripts.tiny_model import WEIGHTS

MODEL = Model("reliquary/tiny-qwen3", "0123456789abcdef0123456789abcdef01234567", WEIGHTS)
N = 2
SAMPLE_TOKENS = 256
WORDS_OF_PROMPT = 60
POLL_SECONDS = 0.02
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)
MIB = 1024 * 1024


@dataclass(frozen=True)
class Measured:
    """One run of the check.

    Processor seconds are those of both processes. ``peak_bytes`` is the most resident memory of
    the process that checks, ``worker_bytes`` that of the one that renders the prompts.
    """

    samples: int
    delivery_bytes: int
    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    worker_bytes: int


def run(quick: bool) -> None:
    """Measure both sizes and print a row for each."""
    sizes = (200, 1_000) if quick else (1_000, 10_000)
    print("samples  delivery MiB  wall s  CPU s  peak MiB  renderer's peak MiB")
    for samples in sizes:
        found = measure(samples)
        print(
            f"{found.samples:>7,}  {found.delivery_bytes / MIB:>12.1f}  {found.wall_seconds:>6.1f}"
            f"  {found.cpu_seconds:>5.1f}  {found.peak_bytes / MIB:>8.0f}"
            f"  {found.worker_bytes / MIB:>19.0f}"
        )


def measure(samples: int) -> Measured:
    """Make a delivery of ``samples`` samples and check it once.

    Raises:
        RuntimeError: the delivery does not hold, so the figures mean nothing.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        delivery, ordered = folder / "delivery", folder / "in.jsonl"
        delivery.mkdir()
        ordered.write_text("".join(map(_row, range(samples // N))))
        make_delivery(delivery, ordered, MODEL, _generate, Signers())
        size = sum((delivery / file).stat().st_size for file in FILES)
        command = [sys.executable, "-m", "scripts.cli", "verify", str(delivery)]
        command += ["--input", str(ordered), "--model-folder", str(WEIGHTS)]
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        peaks, cpu_seconds = _watch(process.pid)
        wall = time.monotonic() - began
    own = peaks.pop(process.pid)
    return Measured(samples, size, wall, cpu_seconds, own, max(peaks.values(), default=0))


def _watch(process_id: int) -> tuple[dict[int, int], float]:
    """Follow a process to its end; return the peak of each process of its, and processor seconds.

    Raises:
        RuntimeError: it failed.
    """
    peaks: dict[int, int] = {}
    while True:
        for one in (process_id, *_children(process_id)):
            peaks[one] = max(peaks.get(one, 0), _peak_bytes(one))
        ended, status, usage = os.wait4(process_id, os.WNOHANG)
        if ended:
            break
        time.sleep(POLL_SECONDS)
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError("the delivery does not hold, so the figures mean nothing")
    return peaks, usage.ru_utime + usage.ru_stime


def _children(process_id: int) -> list[int]:
    try:
        listed = Path(f"/proc/{process_id}/task/{process_id}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(one) for one in listed.split()]


def _peak_bytes(process_id: int) -> int:
    """Return the most resident memory that a process has had; 0 where it has ended."""
    try:
        match = _PEAK.search(Path(f"/proc/{process_id}/status").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if match is None else int(match[1]) * 1024


def _row(number: int) -> str:
    content = f"{number} " + "Tell me a story about a river. " * (WORDS_OF_PROMPT // 7)
    body = {
        "messages": [{"role": "user", "content": content}],
        "max_tokens": SAMPLE_TOKENS,
        "n": N,
        "seed": 7,
    }
    row = {"custom_id": f"q{number}", "method": "POST", "url": "/v1/chat/completions"}
    return json.dumps({**row, "body": body}) + "\n"


def _generate(work: Work) -> list[list[int]]:
    """Return ids made from the draw keys, none of them an end id."""
    return [[8 + byte for byte in (key * 8)[:SAMPLE_TOKENS]] for key in work_keys(work)]
