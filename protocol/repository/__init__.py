"""Model repositories: names resolved to commits, files fetched, facts read. Never needs torch."""

from protocol.repository.errors import (
    Gated,
    NotFound,
    Private,
    RepositoryError,
    RevisionNotFound,
    Unreachable,
    Unsupported,
)
from protocol.repository.facts import ModelFacts, read_facts
from protocol.repository.hub import download, resolve_revision
from protocol.repository.progress import Progress

__all__ = [
    "Gated",
    "ModelFacts",
    "NotFound",
    "Private",
    "Progress",
    "RepositoryError",
    "RevisionNotFound",
    "Unreachable",
    "Unsupported",
    "download",
    "read_facts",
    "resolve_revision",
]
