"""Model repositories: names resolved to commits, files fetched, facts read. Never needs torch.

What asks the hub is imported when it is first used: whoever reads facts alone never needs its
client, which takes some 25 MB.
"""

from typing import TYPE_CHECKING, Any

from protocol.repository.cache_shape import CacheShape, cache_shape, read_cache_shape
from protocol.repository.errors import (
    Gated,
    NotFound,
    Private,
    RepositoryError,
    RevisionNotFound,
    Unreachable,
    Unsupported,
)
from protocol.repository.facts import ModelFacts, read_architecture, read_facts
from protocol.repository.json_files import read_text_config
from protocol.repository.progress import Progress

if TYPE_CHECKING:
    from protocol.repository.hub import download, resolve_revision, weight_bytes

__all__ = [
    "CacheShape",
    "Gated",
    "ModelFacts",
    "NotFound",
    "Private",
    "Progress",
    "RepositoryError",
    "RevisionNotFound",
    "Unreachable",
    "Unsupported",
    "cache_shape",
    "download",
    "read_architecture",
    "read_cache_shape",
    "read_facts",
    "read_text_config",
    "resolve_revision",
    "weight_bytes",
]

_ASKING = ("download", "resolve_revision", "weight_bytes")


def __getattr__(name: str) -> Any:
    if name not in _ASKING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from protocol.repository import hub

    return getattr(hub, name)
