"""The forced draw where the logits lie: fused on a GPU that Triton serves, else in torch."""

from functools import cache
from types import ModuleType

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
    form = _fused() if logits.is_cuda else None
    return (form or torch_form).draw_rows(
        logits, keys, positions, temperature, top_k, top_p, min_p, vocabulary_size
    )


@cache
def _fused() -> ModuleType | None:
    try:
        from protocol.draw import triton_form
    except ImportError:
        return None
    return triton_form
