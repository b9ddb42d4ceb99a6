"""The hub as the network uses it: a branch resolved to a commit, a commit's files on disk.

Only JSON, tokenizer, template and safetensors files at the root of a repository are ever fetched,
and its template for tools; pickled weights and code never are. A commit never changes, so one that
is complete on disk is served without asking the hub.
"""

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from uuid import uuid4

from huggingface_hub import HfApi, constants, hf_hub_download
from huggingface_hub.file_download import repo_folder_name

from protocol.repository.errors import (
    Gated,
    NotFound,
    Private,
    Unreachable,
    Unsupported,
)
from protocol.repository.progress import Progress, progress_bar
from protocol.repository.translation import translated

COMMIT = re.compile(r"[0-9a-f]{40}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
TEXT_PATTERNS = ("*.json", "merges.txt", "*.jinja", "tokenizer.model")
# The one template that is kept below the root.
TOOL_TEMPLATE = "additional_chat_templates/tool_use.jinja"
WEIGHT_PATTERNS = ("*.safetensors",)
# Some repositories hold their weights twice, the second time in their maker's own layout.
DOUBLE_PATTERNS = ("consolidated*",)
TEXT_FILE_LIMIT = 64 * 2**20
FILES_LIMIT = 2_000
TIMEOUT_S = 10.0
DOWNLOADS_AT_ONCE = 4
# The client keeps some pieces of each file in memory; its own are of 10 MiB.
constants.DOWNLOAD_CHUNK_SIZE = 2**20


def resolve_revision(model: str, revision: str = "main", *, cache_dir: Path | None = None) -> str:
    """Return the commit (40 lower-case hex digits) that ``revision`` of ``model`` names now.

    A commit whose files are in the cache is returned without asking the hub. ``HF_ENDPOINT``
    names the hub; a request is given up after ``TIMEOUT_S`` seconds without an answer.

    Raises:
        NotFound, RevisionNotFound, Private, Gated, Unreachable: see ``errors``.
    """
    _check_name(model)
    if COMMIT.fullmatch(revision) and _cached(model, revision, cache_dir, weights=False):
        return revision
    commit, _ = _ask(model, revision)
    return commit


def download(
    model: str,
    revision: str,
    *,
    weights: bool,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """Return the folder that holds the files of ``model`` at a commit, fetching what is missing.

    Args:
        model: ``org/name``.
        revision: the commit, 40 lower-case hex digits; never a branch.
        weights: fetch the safetensors too, else only configuration, tokenizer and template.
        cache_dir: the hub cache's folder, by default ``huggingface_hub``'s own.
        progress: told about the bytes as they arrive.

    Raises:
        Unsupported: no safetensors, or a text file above 64 MiB.
        NotFound, RevisionNotFound, Private, Gated, Unreachable: see ``errors``.
        ValueError: ``revision`` is no commit.
        OSError: the cache cannot be written.
    """
    _check_name(model)
    if not COMMIT.fullmatch(revision):
        raise ValueError(f"revision must be a commit of 40 lower-case hex digits, not {revision!r}")
    cached = _cached(model, revision, cache_dir, weights=weights)
    if cached is not None:
        return cached
    _, sizes = _ask(model, revision)
    wanted = _wanted(model, sizes, weights=weights)
    _note_weights(model, revision, cache_dir, sizes)
    bar = progress_bar(progress, sum(wanted.values()))
    fetch = partial(
        hf_hub_download,
        model,
        revision=revision,
        cache_dir=cache_dir,
        etag_timeout=TIMEOUT_S,
        endpoint=_endpoint(),
        tqdm_class=bar,
    )
    with translated(model, revision), ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
        list(pool.map(fetch, wanted))
    _note_complete(model, revision, cache_dir, wanted, weights=weights)
    if progress is not None:
        progress(sum(wanted.values()), sum(wanted.values()))
    return _storage(model, cache_dir) / "snapshots" / revision


def weight_bytes(model: str, revision: str, *, cache_dir: Path | None = None) -> int:
    """Return the size of the safetensors of ``model`` at a commit, none of which is fetched.

    What the hub once said of a commit is in the cache and not asked for again.

    Raises:
        Unsupported: no safetensors.
        NotFound, RevisionNotFound, Private, Gated, Unreachable: see ``errors``.
        OSError: the cache cannot be written.
    """
    _check_name(model)
    note = _weights_note(model, revision, cache_dir)
    if note.is_file():
        return json.loads(note.read_text())
    _, sizes = _ask(model, revision)
    return _note_weights(model, revision, cache_dir, sizes)


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


def _check_name(model: str) -> None:
    """Refuse what can be no repository, before it becomes part of a path or an address."""
    if not NAME.fullmatch(model) or ".." in model or "--" in model:
        raise NotFound(f"{model!r} is no repository name; write org/name")


def _ask(model: str, revision: str) -> tuple[str, dict[str, int]]:
    """Return the commit of a revision and the size of each of its files, from the hub."""
    with translated(model, revision):
        api = HfApi(endpoint=_endpoint())
        info = api.model_info(model, revision=revision, timeout=TIMEOUT_S, files_metadata=True)
    if info.private or info.disabled:
        raise Private(f"{model} is private; the network's nodes could not fetch it")
    if info.gated:
        raise Gated(f"{model} is gated: its files need an accepted agreement")
    siblings = info.siblings or []
    if info.sha is None or not COMMIT.fullmatch(info.sha) or len(siblings) > FILES_LIMIT:
        raise Unreachable(f"the hub's answer for {model} names no commit or too many files")
    if COMMIT.fullmatch(revision) and info.sha != revision:
        raise Unreachable(f"the hub answered {info.sha} when asked for {model} at {revision}")
    return info.sha, {file.rfilename: file.size or 0 for file in siblings}


def _wanted(model: str, sizes: dict[str, int], *, weights: bool) -> dict[str, int]:
    """Choose the files to fetch among ``sizes``."""
    texts = {
        name: size
        for name, size in sizes.items()
        if _matches(name, TEXT_PATTERNS) or name == TOOL_TEMPLATE
    }
    large = [name for name, size in texts.items() if size > TEXT_FILE_LIMIT]
    if large:
        raise Unsupported(f"{model}: {large[0]} is larger than 64 MiB")
    tensors = _tensors(model, sizes)
    return texts | tensors if weights else texts


def _tensors(model: str, sizes: dict[str, int]) -> dict[str, int]:
    """Choose the files of the weights among ``sizes``."""
    tensors = {name: size for name, size in sizes.items() if _matches(name, WEIGHT_PATTERNS)}
    if not tensors:
        raise Unsupported(f"{model} has no safetensors weights")
    return tensors


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    at_root = "/" not in name and "\\" not in name and not name.startswith(".")
    double = any(fnmatchcase(name, pattern) for pattern in DOUBLE_PATTERNS)
    return at_root and not double and any(fnmatchcase(name, pattern) for pattern in patterns)


def _storage(model: str, cache_dir: Path | None) -> Path:
    folder = repo_folder_name(repo_id=model, repo_type="model")
    return Path(cache_dir or constants.HF_HUB_CACHE) / folder


def _listing(model: str, revision: str, cache_dir: Path | None, *, weights: bool) -> Path:
    kind = "full" if weights else "texts"
    return _storage(model, cache_dir) / "complete" / f"{revision}.{kind}.json"


def _cached(model: str, revision: str, cache_dir: Path | None, *, weights: bool) -> Path | None:
    """Return the snapshot's folder if every file that was wanted is still there."""
    snapshot = _storage(model, cache_dir) / "snapshots" / revision
    kinds = (True,) if weights else (True, False)
    for kind in kinds:
        listing = _listing(model, revision, cache_dir, weights=kind)
        if listing.is_file():
            names = json.loads(listing.read_text())
            if all((snapshot / name).is_file() for name in names):
                return snapshot
    return None


def _note_complete(
    model: str, revision: str, cache_dir: Path | None, wanted: dict[str, int], *, weights: bool
) -> None:
    """Write down that these files are all there, for a start without the hub."""
    listing = _listing(model, revision, cache_dir, weights=weights)
    _write(listing, json.dumps(sorted(wanted)))


def _weights_note(model: str, revision: str, cache_dir: Path | None) -> Path:
    return _storage(model, cache_dir) / "complete" / f"{revision}.weight_bytes.json"


def _note_weights(model: str, revision: str, cache_dir: Path | None, sizes: dict[str, int]) -> int:
    """Write down what the weights come to, and return it."""
    total = sum(_tensors(model, sizes).values())
    _write(_weights_note(model, revision, cache_dir), json.dumps(total))
    return total


def _write(path: Path, text: str) -> None:
    """Write a small file at once, so that no reader sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{uuid4().hex}.part")
    part.write_text(text)
    part.replace(path)
