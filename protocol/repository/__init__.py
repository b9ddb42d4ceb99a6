"""Model repositories: names resolved to commits, files fetched, facts read. Never needs torch."""

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
from protocol.repository.hub import download, resolve_revision, weight_bytes
from protocol.repository.json_files import read_text_config
from protocol.repository.progress import Progress

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
