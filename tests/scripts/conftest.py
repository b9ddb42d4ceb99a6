"""What a command sets up in the test's own process is undone after the test."""

import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from checked_delivery import ROWS, Case

from gateway.intake.outcome import Intake


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


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """Undo what a command takes into the environment from a file."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tmp_path_factory.mktemp("verify"), ROWS)


@pytest.fixture(scope="module")
def intake(case: Case) -> Intake:
    return case.render(case.folder / "work")


@pytest.fixture
def copy(case: Case, tmp_path: Path) -> Path:
    return shutil.copytree(case.delivery, tmp_path / "copy")
