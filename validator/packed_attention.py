"""Attention over packs, as an attention function of transformers.

torch's own kernels do the work, segment by segment; a mask never has more than ``MASK_ROWS`` rows.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from validator.packing import Segment
from validator.wide_linear import multiplies

NAME = "reliquary_packed"
# Queries that are masked together: bounds a mask to this many rows.
MASK_ROWS = 512
# What some models add to plain causal attention; computing without it would be another model.
_FOREIGN = ("softcap", "s_aux", "position_bias")


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    segments: Sequence[Segment],
    scaling: float | None = None,
    sliding_window: int | None = None,
    **arguments: Any,
) -> tuple[torch.Tensor, None]:
    """Return the attention of every segment's queries over its prefix and its own keys.

    Args:
        module: unused, given by transformers.
        query: [1, heads, T, dimension], the pack's.
        key: [1, key heads, kept + T, dimension], keys of earlier packs first; ``value`` likewise.
        attention_mask: None; the segments say who sees whom.
        segments: the pack's segments, which cover it in order.
        scaling: factor on the scores, None for 1 / sqrt(dimension).
        sliding_window: how many keys, its own included, a query sees; None for all.
        arguments: further arguments of transformers, refused where they change the result.

    Returns:
        [1, T, heads, dimension] and None, as transformers expects.

    Raises:
        NotImplementedError: the model's attention has a part that is not computed here.
    """
    foreign = [name for name in _FOREIGN if arguments.get(name) is not None]
    if foreign or attention_mask is not None:
        raise NotImplementedError(f"attention with {', '.join(foreign) or 'a mask of its own'}")
    kept = key.shape[2] - query.shape[2]
    dtype = query.dtype
    if not multiplies(dtype, query.device.type):
        query, key, value = query.float(), key.float(), value.float()
    outputs = [
        _segment(
            query[:, :, segment.start : segment.stop],
            _keys(key, segment, kept),
            _keys(value, segment, kept),
            scaling,
            sliding_window,
        )
        for segment in segments
    ]
    return torch.cat(outputs, dim=2).transpose(1, 2).to(dtype), None


def _keys(states: torch.Tensor, segment: Segment, kept: int) -> torch.Tensor:
    first, last = segment.prefix
    own = kept + segment.start, kept + segment.stop
    if first == last:
        return states[:, :, own[0] : own[1]]
    if last == own[0]:
        return states[:, :, first : own[1]]
    return torch.cat((states[:, :, first:last], states[:, :, own[0] : own[1]]), dim=2)


def _segment(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scaling: float | None,
    window: int | None,
) -> torch.Tensor:
    """Return the causal attention of n queries that are the last n of the m keys' positions."""
    queries, keys = query.shape[2], key.shape[2]
    if queries == keys and (window is None or keys <= window):
        return scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scaling, enable_gqa=True
        )
    offset = keys - queries
    blocks = [
        _block(query[:, :, start : start + MASK_ROWS], key, value, offset + start, scaling, window)
        for start in range(0, queries, MASK_ROWS)
    ]
    return torch.cat(blocks, dim=2)


def _block(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    position: int,
    scaling: float | None,
    window: int | None,
) -> torch.Tensor:
    """Return the attention of queries of which the first stands at ``position`` of the keys."""
    stop = position + query.shape[2]
    start = 0 if window is None else max(0, position - window + 1)
    places = torch.arange(start, stop, device=query.device)
    own = torch.arange(position, stop, device=query.device)[:, None]
    visible = places <= own
    if window is not None:
        visible &= places > own - window
    return scaled_dot_product_attention(
        query,
        key[:, :, start:stop],
        value[:, :, start:stop],
        attn_mask=visible,
        scale=scaling,
        enable_gqa=True,
    )


AttentionInterface.register(NAME, packed_attention)
