"""Muon in float32: momentum whose matrix updates are made orthogonal.

Source: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks", with its
quintic Newton-Schulz iteration. The form in torch iterates in bfloat16, which many CPUs have to
emulate; in float32 it is an order of magnitude faster there.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


def orthogonal(matrices: Tensor) -> Tensor:
    """Return matrices [B, n, m] of the same singular vectors with singular values near 1."""
    a, b, c = COEFFICIENTS
    x = matrices.mT if matrices.shape[-2] > matrices.shape[-1] else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if matrices.shape[-2] > matrices.shape[-1] else x


class Muon(torch.optim.Optimizer):
    """Muon over matrices [n, m], each step worked out for all matrices of one shape at once.

    Args:
        matrices: the parameters, every one of two dimensions.
        lr: step size; a matrix moves by ``lr * sqrt(max(1, n / m))`` in each singular direction.
        momentum: share of the past gradients kept, in Nesterov's form.
    """

    def __init__(self, matrices: Iterable[Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(matrices, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Apply one update from the gradients in place; ``closure`` first makes them anew."""
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for matrix in group["params"]:
                by_shape[matrix.shape].append(matrix)
            for shape, matrices in by_shape.items():
                updates = orthogonal(torch.stack([self._look_ahead(m, group) for m in matrices]))
                scale = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for matrix, update in zip(matrices, updates, strict=True):
                    matrix.sub_(update, alpha=scale)
        return loss

    def _look_ahead(self, matrix: Tensor, group: dict[str, float]) -> Tensor:
        """Fold the gradient into the momentum and return Nesterov's mix of both."""
        gradient = matrix.grad
        assert gradient is not None
        state = self.state[matrix]
        momentum = state.setdefault("momentum", torch.zeros_like(matrix))
        momentum.lerp_(gradient, 1 - group["momentum"])
        return gradient.lerp(momentum, group["momentum"])
