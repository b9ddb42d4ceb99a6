"""What vLLM cannot load, said before it fails with a message about something else."""

from importlib.util import find_spec
from pathlib import Path

from protocol.repository import Unsupported, read_architecture, read_text_config

# Classes whose module in vLLM imports torchvision, also for text alone.
NEED_TORCHVISION = ("Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration")
# Classes that take images too; they are loaded without their vision tower.
WITH_VISION = ("Qwen3_5ForConditionalGeneration",)
INSTEAD = "choose the engine 'transformers', which computes this model"


class VllmUnusable(Exception):
    """vLLM, as it is installed here, cannot compute a model; the message names what can."""


def not_computed_here() -> tuple[str, ...]:
    """Return the supported classes that vLLM, as it is installed here, cannot load."""
    return NEED_TORCHVISION if find_spec("torchvision") is None else ()


def check_model(folder: Path, dtype: str, on_cpu: bool) -> str:
    """Return the class of the model in ``folder``.

    Args:
        folder: the repository's snapshot.
        dtype: the settings'; ``auto`` is the repository's own.
        on_cpu: whether this is vLLM's CPU build.

    Raises:
        VllmUnusable: it cannot be computed.
    """
    try:
        architecture = read_architecture(folder)
        config = read_text_config(folder)
    except Unsupported as error:
        raise VllmUnusable(f"no model for vLLM: {error}") from error
    if architecture in not_computed_here():
        raise VllmUnusable(
            f"vLLM's {architecture} needs torchvision, which is not installed; install the one "
            f"that fits this torch, or {INSTEAD}"
        )
    linear = "linear_attention" in (config.get("layer_types") or ())
    wanted = config.get("dtype") if dtype == "auto" else dtype
    if linear and on_cpu and wanted != "bfloat16":
        raise VllmUnusable(
            f"vLLM's CPU build computes the linear attention of {architecture} in bfloat16 alone, "
            f"not in {wanted}; set the dtype to bfloat16, or {INSTEAD}"
        )
    return architecture
