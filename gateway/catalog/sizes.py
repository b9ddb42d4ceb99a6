"""Whether a model fits one node: its weights, and what it keeps of the samples at work."""

from dataclasses import dataclass

from gateway.errors import GatewayError
from protocol.repository import CacheShape

# What an engine needs beside the weights themselves.
WEIGHTS_FACTOR = 1.3
SEQUENCES = 8
# Prompts of this many ids are always allowed for.
LEAST_PROMPT = 8_192
_GB = 10**9


@dataclass(frozen=True)
class ModelSize:
    """The size of a model commit.

    Attributes:
        weight_bytes: of its safetensors files.
        parameters: how many weights that is in the model's type.
        cache: what it keeps of a sample.
    """

    weight_bytes: int
    parameters: int
    cache: CacheShape

    def needed_bytes(self, ids: int) -> int:
        """Return the memory to serve samples of so many ids, prompt and completion together."""
        return round(self.weight_bytes * WEIGHTS_FACTOR) + SEQUENCES * self.cache.bytes_of(ids)


def allowed_ids(longest_prompt: int, max_tokens: int) -> int:
    """Return the ids of the longest sample that an order is allowed for."""
    return max(longest_prompt, LEAST_PROMPT) + max_tokens


def check_fit(model: str, size: ModelSize, ids: int, node_bytes: int) -> None:
    """Refuse a model that no node can hold.

    Args:
        model: its name, for the error.
        ids: of the longest sample, see ``allowed_ids``.
        node_bytes: GPU memory of one node.

    Raises:
        GatewayError: 422 ``model_too_large``.
    """
    needed = size.needed_bytes(ids)
    if needed > node_bytes:
        raise GatewayError(
            422,
            "model_too_large",
            f"{model} needs {needed / _GB:,.1f} GB of GPU memory: its weights x {WEIGHTS_FACTOR}, "
            f"and the KV cache of {SEQUENCES} sequences of {ids:,} tokens. One node has "
            f"{node_bytes / _GB:,.0f} GB.",
        )
