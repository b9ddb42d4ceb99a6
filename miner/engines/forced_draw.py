"""The forced draw inside vLLM's V1 runner: a logits processor that leaves one token standing."""

from typing import TYPE_CHECKING

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

from miner.engines.draw_table import DrawInputs, DrawTable

if TYPE_CHECKING:
    from vllm.config import VllmConfig

EXTRA_ARGS_KEY = "reliquary_draw"
# The greedy argmax takes the forced id, and no processor that runs later can outweigh it.
FORCED_LOGIT = 1e9


def check_params(params: SamplingParams) -> DrawInputs:
    """Return the draw inputs that a request carries.

    Raises:
        ValueError: the request has none, or asks for something that the draw does not know.
    """
    foreign = {
        "temperature": params.temperature != 0,
        "n": params.n != 1,
        "repetition_penalty": params.repetition_penalty != 1,
        "presence_penalty": params.presence_penalty != 0,
        "frequency_penalty": params.frequency_penalty != 0,
        "logit_bias": bool(params.logit_bias),
        "allowed_token_ids": params.allowed_token_ids is not None,
        "bad_words": bool(params.bad_words),
        "structured_outputs": params.structured_outputs is not None,
        "min_tokens": params.min_tokens != 0,
        "thinking_token_budget": params.thinking_token_budget is not None,
        "repetition_detection": params.repetition_detection is not None,
    }
    named = [name for name, present in foreign.items() if present]
    if named:
        raise ValueError(f"the forced draw knows no {', '.join(named)}; leave the default")
    plain = (params.extra_args or {}).get(EXTRA_ARGS_KEY)
    if plain is None:
        raise ValueError(f"extra_args has no {EXTRA_ARGS_KEY!r}: this engine only draws by key")
    return DrawInputs.from_plain(plain)


def force(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Make ``tokens`` (int64 [R]) the argmax of their rows, in place."""
    return logits.scatter_(1, tokens.unsqueeze(1), FORCED_LOGIT)


class ForcedDraw(LogitsProcessor):
    """Forces the drawn token of every row. Stateless by position, so it survives preemption."""

    def __init__(
        self, vllm_config: "VllmConfig", device: torch.device, is_pin_memory: bool
    ) -> None:
        slots = vllm_config.scheduler_config.max_num_seqs
        self._table = DrawTable(slots, device)
        # vLLM's own running lists: only their length is used, as their values may be placeholders.
        self._outputs: list[list[int] | None] = [None] * slots

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Refuse a request that the draw cannot serve, before it is queued."""
        check_params(sampling_params)

    def is_argmax_invariant(self) -> bool:
        """The draw changes the argmax; that is its purpose."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow vLLM's batch: requests removed, then added, then moved."""
        if batch_update is None:
            return
        for index in batch_update.removed:
            self._outputs[index] = None
        for index, params, _, output_ids in batch_update.added:
            self._table.put(index, check_params(params))
            self._outputs[index] = output_ids
        for first, second, direction in batch_update.moved:
            self._move(first, second, direction)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Draw for every row of ``logits`` (float32 [R, vocabulary]) and force the outcome."""
        rows = logits.shape[0]
        lengths = [len(output) for output in self._outputs[:rows] if output is not None]
        if len(lengths) != rows:
            raise RuntimeError(f"{rows} rows of logits, but {len(lengths)} requests to draw for")
        positions = torch.tensor(lengths, dtype=torch.int64)
        return force(logits, self._table.draw(logits, slice(0, rows), positions))

    def _move(self, first: int, second: int, direction: MoveDirectionality) -> None:
        outputs = self._outputs
        if direction is MoveDirectionality.SWAP:
            self._table.swap(first, second)
            outputs[first], outputs[second] = outputs[second], outputs[first]
        else:
            self._table.move(first, second)
            outputs[second], outputs[first] = outputs[first], None
