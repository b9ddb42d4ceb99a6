"""Whether the models that are ordered fit this machine's memory."""

import asyncio
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

from protocol.messages import Demand
from protocol.repository.errors import RepositoryError
from protocol.repository.hub import weight_bytes
from scripts.doctor.finding import Finding, doubtful, good

GIB = 2**30
# The weights and what else an engine keeps beside them, as the gateway reckons (docs/models.md).
WEIGHTS_FACTOR = 1.3
BFLOAT16_BYTES = 2
# A model of 8 billion parameters, as in deploy/min_compute.yml.
WANTED_GIB = 24
# So many of the models that work waits for are looked up.
LOOKED_UP = 3


def gpu_gib() -> float | None:
    """Return the memory of all CUDA devices together in GiB, None without one.

    PyTorch, which takes seconds to start, is asked only where there is a device.
    """
    if not has_device() or importlib.util.find_spec("torch") is None:
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    devices = range(torch.cuda.device_count())
    return sum(torch.cuda.get_device_properties(one).total_memory for one in devices) / GIB


def has_device() -> bool:
    """Say whether a driver offers a GPU, as Linux does and as it does under Windows."""
    devices = Path("/dev")
    return any(devices.glob("nvidia[0-9]*")) or (devices / "dxg").exists()


def host_gib() -> float:
    """Return the main memory in GiB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB


def largest_parameters(room_gib: float) -> float:
    """Return how many parameters a model in bfloat16 may have that fits."""
    return room_gib * GIB / WEIGHTS_FACTOR / BFLOAT16_BYTES


def memory(room_gib: float, *, on_gpu: bool) -> Finding:
    """Say what models this much memory holds."""
    billions = largest_parameters(room_gib) / 1e9
    place = "GPU" if on_gpu else "main"
    seen = f"{room_gib:,.1f} GiB of {place} memory: models of up to {billions:.1f} billion weights"
    if room_gib < WANTED_GIB:
        remedy = f"{WANTED_GIB} GiB hold those of 8 billion, which most orders are for"
        return doubtful("memory", seen, remedy)
    return good("memory", seen)


async def ordered_models(
    demands: Sequence[Demand], room_gib: float, cache: Path | None
) -> list[Finding]:
    """Say of the models that work waits for, most urgent first, whether this memory holds them.

    Args:
        demands: the demand board.
        room_gib: the memory.
        cache: folder of downloaded models; None is Hugging Face's own.
    """
    commits = dict.fromkeys((demand.model, demand.revision) for demand in demands)
    found = []
    for model, revision in list(commits)[:LOOKED_UP]:
        try:
            size = await asyncio.to_thread(weight_bytes, model, revision, cache_dir=cache)
        except (RepositoryError, OSError) as error:
            remedy = "see that HF_ENDPOINT, where it is set, names a hub that has it"
            found.append(doubtful("model", str(error), remedy))
            continue
        needed = size * WEIGHTS_FACTOR / GIB
        seen = f"{model} is ordered and needs {needed:,.1f} GiB"
        if needed > room_gib:
            found.append(doubtful("model", seen, "it is left to larger machines"))
        else:
            found.append(good("model", seen))
    return found
