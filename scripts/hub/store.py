"""The hub's folder: repositories, their commits, and who may see them.

``<folder>/<org>/<name>/`` may hold a model to publish; what is served lies in
``<folder>/.commits/<org>/<name>/``: a folder of files and a ``.json`` a commit, ``main`` (the
commit it names) and ``access.json``. Commits are copies, so later edits change none of them.
"""

import json
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal
from uuid import uuid4

from scripts.hub.commits import Commit, describe

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
COMMIT_ID = re.compile(r"[0-9a-f]{40}")
COMMITS = ".commits"

Gate = Literal["auto", "manual", False]


class HubError(Exception):
    """The hub cannot publish a model, or not serve; the message says why."""


@dataclass(frozen=True)
class Access:
    """Who may see a repository: ``private`` needs a token to see, ``gated`` one to download."""

    private: bool = False
    gated: Gate = False


def publish(folder: Path, model: str, files_from: Path) -> str:
    """Make the files below ``files_from`` the commit that ``main`` of ``model`` names.

    Hidden files are left out. The same content gives the same commit; older commits stay.

    Returns:
        The commit's id, 40 hex digits that follow from paths and content alone.

    Raises:
        HubError: ``model`` is not ``org/name``, or there are no files.
    """
    if not NAME.fullmatch(model):
        raise HubError(f"{model!r} is no model name; write org/name")
    paths = [path for path in files_from.rglob("*") if path.is_file() and _shown(path, files_from)]
    if not paths:
        raise HubError(f"{files_from} holds no files to publish")
    repository = folder / COMMITS / model
    repository.mkdir(parents=True, exist_ok=True)
    copy = Path(mkdtemp(prefix="new-", dir=repository))
    for path in paths:
        target = copy / path.relative_to(files_from)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    commit = Commit.of([describe(copy, path) for path in copy.rglob("*") if path.is_file()])
    _keep(copy, repository / commit.id)
    _write(repository / f"{commit.id}.json", commit.to_json())
    _write(repository / "main", commit.id)
    return commit.id


def publish_all(folder: Path) -> dict[str, str]:
    """Publish every ``<org>/<name>/`` of the folder and return the commits by model."""
    commits = {}
    for path in sorted(folder.glob("*/*/")):
        model = path.relative_to(folder).as_posix()
        if path.is_dir() and NAME.fullmatch(model):
            commits[model] = publish(folder, model, path)
    return commits


def set_access(folder: Path, model: str, *, private: bool = False, gated: Gate = False) -> None:
    """Make a published model private or gated, or open again."""
    access = Access(private=private, gated=gated)
    _write(folder / COMMITS / model / "access.json", json.dumps(asdict(access)))


@dataclass(frozen=True)
class Repository:
    """One published model as it is read."""

    model: str
    folder: Path

    @property
    def access(self) -> Access:
        """Return who may see it."""
        path = self.folder / "access.json"
        return Access(**json.loads(path.read_text())) if path.is_file() else Access()

    def commit(self, revision: str) -> Commit | None:
        """Return the commit that ``main`` or a commit id names, or None."""
        name = (self.folder / "main").read_text() if revision == "main" else revision
        path = self.folder / f"{name}.json"
        if not COMMIT_ID.fullmatch(name) or not path.is_file():
            return None
        return Commit.from_json(path.read_text())


def find(folder: Path, model: str) -> Repository | None:
    """Return the published repository ``model``, or None."""
    path = folder / COMMITS / model
    if not NAME.fullmatch(model) or not (path / "main").is_file():
        return None
    return Repository(model, path)


def _keep(copy: Path, target: Path) -> None:
    """Move a copied commit to its place, or drop it where the same commit is there already."""
    copy.chmod(0o755)
    try:
        copy.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        shutil.rmtree(copy)


def _shown(path: Path, root: Path) -> bool:
    return not any(part.startswith(".") for part in path.relative_to(root).parts)


def _write(path: Path, text: str) -> None:
    """Replace a small file at once, so that no reader sees half of it."""
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")
    part.write_text(text)
    part.replace(path)
