"""The hub's HTTP routes, as the public client ``huggingface_hub`` calls them."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from scripts.hub.commits import Commit, File
from scripts.hub.store import Repository, find


class Refusal(Exception):
    """An answer other than the wished one, in the hub's own form."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def create_app(folder: Path, tokens: frozenset[str] = frozenset()) -> Starlette:
    """Return the hub over ``folder``.

    Args:
        folder: what ``publish`` wrote to; read at every request, so new commits appear at once.
        tokens: bearer tokens that see private repositories and download gated ones.
    """

    def reading(answer: Callable[[Request, Repository, Commit], Response]) -> Callable[..., Any]:
        """Look repository and commit up off the event loop, then answer."""

        async def endpoint(request: Request) -> Response:
            try:
                return await run_in_threadpool(look_up, request)
            except Refusal as refusal:
                headers = {"X-Error-Code": refusal.code, "X-Error-Message": refusal.message}
                body = {"error": refusal.message}
                return JSONResponse(body, status_code=refusal.status, headers=headers)

        def look_up(request: Request) -> Response:
            values = request.path_params
            repository = _visible(folder, f"{values['org']}/{values['name']}", request, tokens)
            commit = repository.commit(values.get("revision", "main"))
            if commit is None:
                raise Refusal(404, "RevisionNotFound", "No such revision")
            return answer(request, repository, commit)

        return endpoint

    def resolve(request: Request, repository: Repository, commit: Commit) -> Response:
        """Send one file, or a range of it."""
        if repository.access.gated and not _knows(request, tokens):
            raise Refusal(403, "GatedRepo", "Access to this model is restricted")
        file = commit.find(request.path_params["path"])
        if file is None:
            raise Refusal(404, "EntryNotFound", "Entry not found")
        headers = {"X-Repo-Commit": commit.id, "ETag": f'"{file.etag}"'}
        path = repository.folder / commit.id / file.path
        return FileResponse(path, media_type="application/octet-stream", headers=headers)

    model = "/api/models/{org}/{name}"
    return Starlette(
        routes=[
            Route("/", lambda _: PlainTextResponse("model hub\n")),
            Route(model, reading(_info)),
            Route(f"{model}/revision/{{revision}}", reading(_info)),
            Route(f"{model}/tree/{{revision}}", reading(_tree)),
            Route(f"{model}/tree/{{revision}}/{{path:path}}", reading(_tree)),
            Route("/{org}/{name}/resolve/{revision}/{path:path}", reading(resolve)),
        ],
    )


def _knows(request: Request, tokens: frozenset[str]) -> bool:
    return request.headers.get("authorization", "").removeprefix("Bearer ") in tokens


def _visible(folder: Path, model: str, request: Request, tokens: frozenset[str]) -> Repository:
    """Return the repository; a private one looks unknown, and a stranger is told to log in."""
    repository = find(folder, model)
    if repository is None:
        raise Refusal(404, "RepoNotFound", "Repository not found")
    if repository.access.private and not _knows(request, tokens):
        raise Refusal(401, "RepoNotFound", "Invalid username or password.")
    return repository


def _info(request: Request, repository: Repository, commit: Commit) -> Response:
    """Describe the repository at a commit."""
    sized = request.query_params.get("blobs", "").lower() == "true"
    made = (repository.folder / f"{commit.id}.json").stat().st_mtime
    access = repository.access
    return JSONResponse(
        {
            "_id": commit.id[:24],
            "id": repository.model,
            "modelId": repository.model,
            "author": repository.model.split("/")[0],
            "sha": commit.id,
            "lastModified": datetime.fromtimestamp(made, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
            "private": access.private,
            "gated": access.gated,
            "disabled": False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "siblings": [_sibling(file, sized=sized) for file in commit.files],
        }
    )


def _sibling(file: File, *, sized: bool) -> dict[str, Any]:
    if not sized:
        return {"rfilename": file.path}
    sibling: dict[str, Any] = {"rfilename": file.path, "size": file.size, "blobId": file.blob_id}
    if file.sha256 is not None:
        sibling["lfs"] = {
            "sha256": file.sha256,
            "size": file.size,
            "pointerSize": file.pointer_size,
        }
    return sibling


def _tree(request: Request, _: Repository, commit: Commit) -> Response:
    """List the files below a folder, and its sub-folders where the listing is not recursive."""
    root = request.path_params.get("path", "").strip("/")
    prefix = f"{root}/" if root else ""
    recursive = request.query_params.get("recursive", "").lower() in ("true", "1")
    below = [file for file in commit.files if file.path.startswith(prefix)]
    if root and not below:
        raise Refusal(404, "EntryNotFound", "Entry not found")
    folders = sorted(
        {
            prefix + "/".join(parts[:depth])
            for file in below
            for parts in [file.path.removeprefix(prefix).split("/")]
            for depth in range(1, len(parts) if recursive else min(2, len(parts)))
        }
    )
    files = [file for file in below if recursive or "/" not in file.path.removeprefix(prefix)]
    entries: list[dict[str, Any]] = [
        {"type": "directory", "oid": commit.id, "size": 0, "path": path} for path in folders
    ]
    return JSONResponse(entries + [_entry(file) for file in files])


def _entry(file: File) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "oid": file.blob_id, "size": file.size}
    entry["path"] = file.path
    if file.sha256 is not None:
        entry["lfs"] = {"oid": file.sha256, "size": file.size, "pointerSize": file.pointer_size}
    return entry
