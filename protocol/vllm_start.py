"""Starting vLLM inside this very process, for either role."""

import os
from importlib import import_module
from typing import TYPE_CHECKING

from protocol.messages import DeviceKind, Stack, dtype_name
from protocol.vllm_limits import VllmUnusable

if TYPE_CHECKING:
    from vllm.config import VllmConfig

# The scheduler lives in this process, and the V1 runner takes a V1 logits processor.
ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_USE_V2_MODEL_RUNNER": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}
GIB = 2**30
# Room for keys and values on a CPU, where vLLM would else take most of the machine.
CPU_MEMORY_GIB = 1.0
# How both roles have it, so that they compute the same: a float32 head, and nothing of the
# repository's sampling defaults.
ARGUMENTS = {
    "skip_tokenizer_init": True,
    "hf_overrides": {"head_dtype": "float32"},
    "generation_config": "vllm",
    "disable_log_stats": True,
}


def prepare(threads: int | None, extra: str) -> None:
    """Set this process up for vLLM; before it is imported anywhere.

    Args:
        threads: of the processor; None leaves the library's own choice.
        extra: the extra that brings vLLM, for the message.

    Raises:
        VllmUnusable: it is not installed.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import_module("vllm.engine.arg_utils")
    except ImportError as error:
        raise VllmUnusable(
            f"vLLM cannot be imported ({error}); install the extra {extra}, or choose the engine "
            "'transformers'"
        ) from error
    _pass_kernel_scan()
    if threads is not None:
        import_module("torch").set_num_threads(threads)


def device_kind() -> DeviceKind:
    """Return where vLLM, as it is installed here, computes."""
    from vllm.platforms import current_platform

    return "cpu" if current_platform.is_cpu() else "cuda"


def stack_of(config: "VllmConfig") -> Stack:
    """Return vLLM's version, dtypes, device and kernels.

    Args:
        config: of an engine that has loaded a model.
    """
    vllm, kernels = import_module("vllm"), import_module("protocol.kernels")
    layers = config.compilation_config.static_forward_context.values()
    backends = {
        layer.get_attn_backend().get_name()
        for layer in layers
        if hasattr(layer, "get_attn_backend")
    }
    form = "eager" if config.model_config.enforce_eager else "compiled"
    device = device_kind()
    return Stack(
        engine="vllm",
        version=vllm.__version__,
        dtype=dtype_name(config.model_config.dtype),
        head_dtype=dtype_name(config.model_config.head_dtype),
        device=device,
        parallelism=config.parallel_config.tensor_parallel_size,
        kernels=kernels.kernels(device, " ".join([*sorted(backends), form])),
    )


def memory_bytes(gib: float | None) -> int | None:
    """Return the room for keys and values; None where vLLM takes what is free of the GPU.

    Args:
        gib: the operator's; None for the default.
    """
    gib = gib or (CPU_MEMORY_GIB if device_kind() == "cpu" else None)
    return None if gib is None else int(gib * GIB)


def _pass_kernel_scan() -> None:
    """Let vLLM's CPU build start beside numba.

    Looking for kernels to replace, it reads ``vars()`` of every global of every module, and
    llvmlite's library handle answers for ``__dict__`` with a function instead of a dictionary.
    """
    from llvmlite.binding import ffi

    table = getattr(ffi.lib, "_fntab", None)
    if isinstance(table, dict):
        table.setdefault("__dict__", {})
