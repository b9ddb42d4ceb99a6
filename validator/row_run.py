"""The forward of models whose layers carry a state: batches of rows through transformers."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

from validator.forward import Claim, Rows
from validator.packing import Segment
from validator.row_batches import Origin, RowBatch, row_batches

# The types of layer whose state is the batch's and not a sample's own in a pack.
CARRYING = ("linear_attention",)


def carries_state(model: PreTrainedModel) -> bool:
    """Say whether a layer of ``model`` carries a state from id to id, so that it takes rows."""
    types = getattr(model.config.get_text_config(), "layer_types", None) or ()
    return any(kind in CARRYING for kind in types)


def row_states(
    model: PreTrainedModel, prompts: Sequence[Sequence[int]], claims: Sequence[Claim], budget: int
) -> Iterator[Rows]:
    """Yield the rows of every token of every claim; see ``Forward.hidden``.

    Args:
        model: loaded with ``packed_attention``.
        budget: ids that a batch has at most, padding included.

    Raises:
        RuntimeError, MemoryError: memory or the device gave out.
    """
    kept: DynamicCache | None = None
    prompt: DynamicCache | None = None
    for batch in row_batches(prompts, claims, budget):
        if batch.origin is Origin.NOTHING:
            kept = DynamicCache(config=model.config) if batch.keep else None
            prompt = None
        elif batch.origin is Origin.PROMPT:
            kept = _in_every_row(prompt, len(batch.tokens))
        hidden = _run(model, batch, kept)
        if batch.is_prompt:
            prompt = kept
        if batch.rows.size:
            yield Rows(hidden, batch.claims, batch.places)


def _in_every_row(prompt: DynamicCache | None, rows: int) -> DynamicCache:
    """Return a copy of what is kept of a prompt, as each of ``rows`` rows goes on from it."""
    copy = deepcopy(prompt)
    assert copy is not None
    first: Any = torch.zeros(rows, dtype=torch.int64)
    with torch.inference_mode():
        copy.reorder_cache(first)
    return copy


def _run(model: PreTrainedModel, batch: RowBatch, cache: DynamicCache | None) -> torch.Tensor:
    """Return the wanted final hidden states of a batch, [N, width]."""
    device = model.device
    length = batch.tokens.shape[1]
    positions = torch.arange(batch.before, batch.before + length, device=device)
    with torch.inference_mode():
        output = model.base_model(
            input_ids=torch.from_numpy(batch.tokens).to(device),
            position_ids=positions.expand(len(batch.tokens), -1),
            past_key_values=cache,
            use_cache=cache is not None,
            segments=(Segment(0, length, (0, batch.before)),),
        )
        rows, columns = (torch.from_numpy(part).to(device) for part in (batch.rows, batch.columns))
        return output.last_hidden_state[rows, columns]
