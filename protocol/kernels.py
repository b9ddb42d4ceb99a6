"""What computes beneath an engine, in words: where they are the same, logits are rounded alike."""

import torch

from protocol.messages import DeviceKind

# Instruction sets by which oneDNN and vLLM choose among their loops, beside torch's own choice.
CHOSEN_BY = ("avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16", "arm_bf16", "sve2")


def kernels(device: DeviceKind, attention: str | None) -> str:
    """Return torch's build, the instruction set or the GPU, and the attention, in a line.

    Args:
        device: where the model lies.
        attention: the engine's name of what computes it; None where it leaves that to the model.
    """
    chip = torch.cuda.get_device_name() if device == "cuda" else _instruction_set()
    return f"torch {torch.__version__}, {chip}, {attention or 'its own attention'}"


def _instruction_set() -> str:
    # Older versions of torch cannot tell.
    told = getattr(torch.cpu, "get_capabilities", dict)()
    return " ".join([torch.backends.cpu.get_cpu_capability(), *filter(told.get, CHOSEN_BY)])
