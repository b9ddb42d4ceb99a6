"""What a command sets up in the test's own process is undone after the test."""

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def own_logs() -> Iterator[None]:
    """Undo a command's logging, whose stream ends with its test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    if root.handlers != handlers:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.reset_defaults()
