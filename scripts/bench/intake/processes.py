"""What a process and its children have used, as Linux tells it in ``/proc``."""

import os
import re
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


def family(process_id: int) -> list[int]:
    """Return the id of a process and those of all processes below it."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        fields = _stat(int(entry.name))
        if fields is not None:
            parents[int(entry.name)] = int(fields[1])
    found = [process_id]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def processor_seconds(process_ids: list[int]) -> float:
    """Return the processor seconds that processes have used so far, in user and system mode."""
    stats = [fields for one in process_ids if (fields := _stat(one)) is not None]
    return sum(int(fields[11]) + int(fields[12]) for fields in stats) / _TICKS


def peak_bytes(process_id: int) -> int:
    """Return the most resident memory that a process has had (``VmHWM``)."""
    match = _PEAK.search(Path(f"/proc/{process_id}/status").read_text())
    return 0 if match is None else int(match[1]) * 1024


def _stat(process_id: int) -> list[str] | None:
    """Return the fields of ``/proc/<pid>/stat`` from the state on; None where it has ended."""
    try:
        text = Path(f"/proc/{process_id}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()
