"""The forced draw as a processor that stands aside for batches that bring no draw key."""

from typing import TYPE_CHECKING

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate

from miner.engines.forced_draw import EXTRA_ARGS_KEY, ForcedDraw

if TYPE_CHECKING:
    from vllm.config import VllmConfig


class OptionalDraw(ForcedDraw):
    """Lets one engine serve whole batches with the draw and whole batches without, in turn."""

    def __init__(
        self, vllm_config: "VllmConfig", device: torch.device, is_pin_memory: bool
    ) -> None:
        super().__init__(vllm_config, device, is_pin_memory)
        self._aside = False

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Check requests that ask for the draw; let all others pass."""
        if EXTRA_ARGS_KEY in (sampling_params.extra_args or {}):
            super().validate_params(sampling_params)

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow the batch only where it draws."""
        if batch_update is not None and batch_update.added:
            _, params, _, _ = batch_update.added[0]
            self._aside = EXTRA_ARGS_KEY not in (params.extra_args or {})
        if not self._aside:
            super().update_state(batch_update)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Force the drawn tokens, or leave the logits to vLLM's own sampler."""
        return logits if self._aside else super().apply(logits)
