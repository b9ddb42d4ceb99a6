"""The forced draw inside vLLM's V2 runner, which exists on accelerators alone.

The same table and the same forcing as in the V1 form. ``VllmEngine`` pins the V1 runner; this form
serves models that need V2, when ``VLLM_USE_V2_MODEL_RUNNER=1`` is set.
"""

from typing import TYPE_CHECKING

import torch
from vllm import SamplingParams
from vllm.v1.worker.gpu.sample.logits_processor import (
    LogitsContext,
    LogitsProcessor,
    LogitsProcRequestState,
)

from miner.engines.draw_table import DrawTable
from miner.engines.forced_draw import check_params, force

if TYPE_CHECKING:
    from vllm.config import VllmConfig


class ForcedDrawV2(LogitsProcessor):
    """Forces the drawn token of every row; a row's request is found by its slot."""

    def __init__(self, vllm_config: "VllmConfig", req_states: LogitsProcRequestState) -> None:
        self._table = DrawTable(req_states.max_num_reqs, req_states.device)
        self._prompt_lengths = req_states.prompt_len

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Refuse a request that the draw cannot serve, before it is queued."""
        check_params(sampling_params)

    def add_request(self, req_idx: int, sampling_params: SamplingParams) -> bool:
        """Take the draw inputs of the request that now owns slot ``req_idx``."""
        self._table.put(req_idx, check_params(sampling_params))
        return True

    def apply_staged_writes(self) -> None:
        """Copy changed inputs to the device before the forward pass."""
        self._table.upload()

    def apply(self, logits: torch.Tensor, ctx: LogitsContext) -> torch.Tensor:
        """Draw for every row of ``logits`` (float32 [R, vocabulary]) and force the outcome."""
        slots = ctx.expanded_idx_mapping.long()
        # Prompt tokens that are still being filled in give a negative number; such rows' tokens
        # are thrown away by the runner.
        positions = (ctx.pos + 1 - self._prompt_lengths.gpu[slots]).long().clamp_(min=0)
        return force(logits, self._table.draw(logits, slots, positions))
