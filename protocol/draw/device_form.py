"""The forced draw where the logits lie: fused on a GPU that Triton serves, else in torch."""

import warnings
from functools import cache
from importlib import import_module
from types import ModuleType

import torch
from torch import Tensor

from protocol.draw import torch_form


def draw_rows(
    logits: Tensor,
    keys: Tensor,
    positions: Tensor,
    temperature: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    min_p: Tensor,
    vocabulary_size: int,
) -> Tensor:
    """Return the id due at each row; arguments and result as ``torch_form.draw_rows`` has them.

    Raises:
        ValueError: a shape does not fit.
        TypeError: the logits are not float32.
    """
    form = _on(logits.device) if logits.is_cuda else torch_form
    return form.draw_rows(
        logits, keys, positions, temperature, top_k, top_p, min_p, vocabulary_size
    )


@cache
def _on(device: torch.device) -> ModuleType:
    """Return the fused form where it runs on a device, else the one in torch.

    To start a kernel Triton builds a program, for which many a system has no compiler.
    """
    integers = torch.zeros((1, 4), dtype=torch.int64, device=device)
    reals = torch.full((1,), 0.5, dtype=torch.float64, device=device)
    row = (integers.float(), integers, integers[:, 0], reals, integers[:, 0], reals, reals)
    try:
        form = import_module("protocol.draw.triton_form")
        form.draw_rows(*row, 4)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other form gives the same ids
        reason = f"{type(error).__name__}: {error}"
        warnings.warn(f"the draw runs in torch, not in Triton ({reason[:200]})", stacklevel=2)
        return torch_form
    return form
