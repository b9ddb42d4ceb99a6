"""16-bit layers multiplied in float32: the exact product, rounded once."""

import pytest
import torch

from validator.wide_linear import WideLinear, multiplies, widen


@pytest.mark.parametrize("bias", [True, False])
def test_the_product_is_exact_up_to_one_rounding(bias: bool):
    torch.manual_seed(0)
    layer = torch.nn.Linear(256, 64, bias=bias).to(torch.bfloat16)
    inputs = torch.randn(9, 256).to(torch.bfloat16)
    exact = torch.nn.functional.linear(
        inputs.double(), layer.weight.double(), None if layer.bias is None else layer.bias.double()
    )
    found = WideLinear(layer)(inputs)
    assert found.dtype == torch.bfloat16
    # Half a unit in the last of 8 bits, and the little that a float32 sum may lose.
    assert ((found.double() - exact).abs() <= exact.abs() * 2.0**-8 + 1e-5).all()


def test_every_linear_layer_is_replaced_and_nothing_else():
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 4),
        torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.Linear(4, 2)),
    ).to(torch.bfloat16)
    widen(model)
    kinds = [type(module).__name__ for module in model.modules() if not list(module.children())]
    assert kinds == ["WideLinear", "LayerNorm", "WideLinear"]
    assert model(torch.ones(1, 4, dtype=torch.bfloat16)).shape == (1, 2)


def test_float32_and_accelerators_are_left_alone():
    assert multiplies(torch.float32, "cpu")
    assert multiplies(torch.bfloat16, "cuda")
