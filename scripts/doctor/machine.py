"""What the machine offers: packages, disk, memory, open files, accelerator."""

import os
import resource
import shutil
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from scripts.doctor.finding import Finding, broken, doubtful, good
from scripts.doctor.memory import has_device

PROJECT = "reliquary-batch"
GIB = 2**30
# A model of 8 billion parameters in bfloat16, and room for its next version.
NODE_DISK_GIB = 40
GATEWAY_DISK_GIB = 10
OPEN_FILES = 4_096


def packages(extra: str) -> Finding:
    """Say whether what an extra of the project asks for is installed, in a version that it takes.

    Args:
        extra: such as ``miner``.
    """
    wrong = []
    for line in metadata.requires(PROJECT) or []:
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
            continue
        try:
            version = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{wanted.name} is missing")
            continue
        if not wanted.specifier.contains(version.partition("+")[0], prereleases=True):
            wrong.append(f"{wanted.name} is {version}, not {wanted.specifier}")
    if wrong:
        return broken("packages", "; ".join(wrong), f"pip install '{PROJECT}[{extra}]'")
    return good("packages", f"all that [{extra}] asks for")


def disk(folder: Path, wanted_gib: int) -> Finding:
    """Say whether the disk under ``folder``, which need not be there yet, has room."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    if not os.access(place, os.W_OK):
        return broken("disk", f"{place} cannot be written", f"give this user the right to {place}")
    free = shutil.disk_usage(place).free / GIB
    seen = f"{free:,.0f} GiB free at {place}"
    if free < wanted_gib:
        return doubtful("disk", seen, f"free up space: {wanted_gib} GiB are wanted")
    return good("disk", seen)


def open_files() -> Finding:
    """Say whether this user's processes may have many connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < OPEN_FILES:
        remedy = f"raise it: ulimit -n {OPEN_FILES}, or LimitNOFILE={OPEN_FILES} in the unit"
        return doubtful("open files", f"at most {soft:,}", remedy)
    return good("open files", f"at most {soft:,}" if soft >= 0 else "as many as wanted")


def accelerator(wanted: bool) -> Finding:
    """Say which GPU PyTorch sees, if a driver offers one at all.

    Args:
        wanted: whether the role is set to compute on one.
    """
    if has_device():
        import torch

        if torch.cuda.is_available():
            properties = torch.cuda.get_device_properties(0)
            count, room = torch.cuda.device_count(), properties.total_memory / GIB
            return good("accelerator", f"{count} x {properties.name}, {room:,.0f} GiB each")
    seen = f"none (PyTorch {metadata.version('torch')})"
    if wanted:
        remedy = "install the driver and a CUDA build of PyTorch, or set the device to cpu"
        return broken("accelerator", seen, remedy)
    remedy = "only small models are served well from a CPU; a GPU box earns more"
    return doubtful("accelerator", seen, remedy)
