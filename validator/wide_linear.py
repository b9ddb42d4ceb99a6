"""16-bit layers multiplied in float32, for processors without 16-bit arithmetic.

Such a processor emulates a 16-bit matrix product an order of magnitude slower than a float32 one.
The product of 16-bit numbers is exact in float32, so multiplying there and rounding the result is
what 16-bit hardware with a float32 accumulator computes, at the price of float32 weights in memory.
"""

import torch
from torch.nn.functional import linear


class WideLinear(torch.nn.Module):
    """A linear layer with 16-bit input and output whose product is taken in float32."""

    def __init__(self, layer: torch.nn.Linear) -> None:
        """Take over the weights of ``layer``."""
        super().__init__()
        self.weight = torch.nn.Parameter(layer.weight.float(), requires_grad=False)
        bias = None if layer.bias is None else layer.bias.float()
        self.bias = None if bias is None else torch.nn.Parameter(bias, requires_grad=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return inputs @ weight^T + bias, [..., out], rounded to the inputs' dtype."""
        return linear(inputs.float(), self.weight, self.bias).to(inputs.dtype)


def multiplies(dtype: torch.dtype, device: str) -> bool:
    """Tell whether ``device`` has matrix products of ``dtype`` in hardware."""
    if device != "cpu" or dtype == torch.float32:
        return True
    if dtype == torch.float16:
        return bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def widen(module: torch.nn.Module) -> None:
    """Replace every 16-bit linear layer inside ``module``."""
    for name, child in module.named_children():
        if isinstance(child, torch.nn.Linear):
            setattr(module, name, WideLinear(child))
        else:
            widen(child)
