"""What a model keeps of the ids that it has read, from its configuration alone.

A layer of full attention keeps a key and a value of every id. A layer of linear attention keeps a
state of constant size, whatever it has read: a matrix a head, and the last columns of its
convolution.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protocol.repository.errors import Unsupported
from protocol.repository.json_files import positive, read_text_config

LINEAR = "linear_attention"
# Engines accumulate the matrices of linear attention in float32, whatever the model's type.
STATE_BYTES = 4
# Every how many layers a model that mixes both kinds is of full attention, where it does not say.
DEFAULT_INTERVAL = 4


@dataclass(frozen=True)
class CacheShape:
    """The memory that one sample takes: ``bytes_per_id`` times its ids, and ``bytes_per_sample``.

    Source: the models' definitions in transformers.
    """

    bytes_per_id: int
    bytes_per_sample: int

    def bytes_of(self, ids: int) -> int:
        """Return the bytes of a sample of so many ids, its prompt included."""
        return ids * self.bytes_per_id + self.bytes_per_sample


def read_cache_shape(folder: Path, element_bytes: int) -> CacheShape:
    """Return the cache shape of the model whose files lie in ``folder``; see ``cache_shape``.

    Raises:
        Unsupported: ``config.json`` is missing or lacks a member.
    """
    return cache_shape(read_text_config(folder), element_bytes)


def cache_shape(config: Mapping[str, Any], element_bytes: int) -> CacheShape:
    """Return the cache shape of a language model.

    Args:
        config: its (text) configuration.
        element_bytes: of a key or value, by the model's type.

    Raises:
        Unsupported: a member is missing or no positive whole number.
    """
    values = dict(config)
    layers = positive((values,), "num_hidden_layers")
    linear = _linear_layers(values, layers)
    per_layer = 2 * _key_value_heads(values) * _head_dim(values) * element_bytes
    state = _state_bytes(values, element_bytes) if linear else 0
    return CacheShape((layers - linear) * per_layer, linear * state)


def _linear_layers(config: dict[str, Any], layers: int) -> int:
    """Return how many layers are of linear attention."""
    types = config.get("layer_types")
    if types is not None:
        if not isinstance(types, list) or len(types) != layers:
            raise Unsupported("config.json: layer_types must name the type of every layer")
        return types.count(LINEAR)
    if config.get("linear_num_value_heads") is None:
        return 0
    default = {"full_attention_interval": DEFAULT_INTERVAL}
    return layers - layers // positive((config, default), "full_attention_interval")


def _key_value_heads(config: dict[str, Any]) -> int:
    own = "num_key_value_heads"
    return positive((config,), own if config.get(own) is not None else "num_attention_heads")


def _head_dim(config: dict[str, Any]) -> int:
    if config.get("head_dim") is not None:
        return positive((config,), "head_dim")
    return positive((config,), "hidden_size") // positive((config,), "num_attention_heads")


def _state_bytes(config: dict[str, Any], element_bytes: int) -> int:
    """Return the bytes of one linear layer's state: its matrices and its convolution's columns."""
    heads = positive((config,), "linear_num_value_heads")
    key, value = (positive((config,), f"linear_{kind}_head_dim") for kind in ("key", "value"))
    channels = 2 * positive((config,), "linear_num_key_heads") * key + heads * value
    columns = positive((config,), "linear_conv_kernel_dim")
    return heads * key * value * STATE_BYTES + channels * columns * element_bytes
