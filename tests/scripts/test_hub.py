"""The local hub against the public client ``huggingface_hub`` and plain HTTP."""

import hashlib
import http.client
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from scripts.hub import HubError, HubServer, publish, set_access

MODEL = "reliquary/sample"
TOKEN = "hf_sampletoken"
WEIGHTS = bytes(range(256)) * 8_192


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text('{"a": 1}')
    (folder / "sub" / "note.txt").write_text("größer")
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    (folder / ".hidden").write_text("not published")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "hub"


@pytest.fixture
def server(folder: Path) -> Iterator[HubServer]:
    with HubServer(folder, tokens=frozenset({TOKEN})) as server:
        yield server


def api(server: HubServer, token: str | bool = False) -> HfApi:
    return HfApi(endpoint=server.url, token=token)


def test_the_client_resolves_main_and_downloads_the_pinned_snapshot(
    server: HubServer, folder: Path, files: Path, tmp_path: Path
) -> None:
    commit = publish(folder, MODEL, files)
    info = api(server).model_info(MODEL, files_metadata=True)
    assert info.sha == commit
    assert info.private is False
    assert info.gated is False
    sizes = {file.rfilename: file.size for file in info.siblings or []}
    assert sizes == {"config.json": 8, "model.safetensors": len(WEIGHTS), "sub/note.txt": 8}
    path = snapshot_download(
        MODEL, revision="main", endpoint=server.url, cache_dir=tmp_path / "cache"
    )
    assert Path(path).name == commit
    assert (Path(path) / "model.safetensors").read_bytes() == WEIGHTS
    assert (Path(path) / "sub" / "note.txt").read_text() == "größer"
    assert not (Path(path) / ".hidden").exists()


def test_a_changed_folder_moves_main_and_the_old_commit_still_downloads(
    server: HubServer, folder: Path, files: Path, tmp_path: Path
) -> None:
    first = publish(folder, MODEL, files)
    (files / "config.json").write_text('{"a": 2}')
    second = publish(folder, MODEL, files)
    assert first != second
    assert api(server).model_info(MODEL).sha == second
    for commit, text in ((first, '{"a": 1}'), (second, '{"a": 2}')):
        path = hf_hub_download(
            MODEL,
            "config.json",
            revision=commit,
            endpoint=server.url,
            cache_dir=tmp_path / "cache",
        )
        assert Path(path).read_text() == text


def test_equal_content_has_one_commit_anywhere(files: Path, tmp_path: Path) -> None:
    first = publish(tmp_path / "a", MODEL, files)
    assert publish(tmp_path / "a", MODEL, files) == first
    assert publish(tmp_path / "b", "other/name", files) == first
    assert len(first) == 40
    (files / "sub" / "note.txt").rename(files / "sub" / "renamed.txt")
    assert publish(tmp_path / "a", MODEL, files) != first


def test_publishing_at_once_from_many_threads_gives_one_commit(folder: Path, files: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        commits = set(pool.map(lambda _: publish(folder, MODEL, files), range(16)))
    assert len(commits) == 1
    names = {path.name for path in (folder / ".commits" / MODEL).iterdir()}
    commit = commits.pop()
    assert names == {commit, f"{commit}.json", "main"}


def test_models_lying_in_the_folder_are_published_at_the_start(folder: Path, files: Path) -> None:
    (folder / "org").mkdir(parents=True)
    files.rename(folder / "org" / "name")
    with HubServer(folder) as server:
        siblings = api(server).model_info("org/name").siblings or []
    assert [file.rfilename for file in siblings] == [
        "config.json",
        "model.safetensors",
        "sub/note.txt",
    ]


def test_the_tree_lists_files_and_folders(server: HubServer, folder: Path, files: Path) -> None:
    commit = publish(folder, MODEL, files)
    hub = api(server)
    flat = {entry.path for entry in hub.list_repo_tree(MODEL, revision=commit)}
    assert flat == {"config.json", "model.safetensors", "sub"}
    deep = {entry.path: entry for entry in hub.list_repo_tree(MODEL, recursive=True)}
    assert set(deep) == flat | {"sub/note.txt"}
    assert deep["model.safetensors"].lfs.sha256 == hashlib.sha256(WEIGHTS).hexdigest()
    assert [entry.path for entry in hub.list_repo_tree(MODEL, "sub")] == ["sub/note.txt"]
    assert hub.file_exists(MODEL, "sub/note.txt", revision=commit)
    assert not hub.file_exists(MODEL, "sub/other.txt", revision=commit)


def test_unknown_names_have_the_hubs_own_errors(
    server: HubServer, folder: Path, files: Path
) -> None:
    publish(folder, MODEL, files)
    hub = api(server)
    with pytest.raises(RepositoryNotFoundError):
        hub.model_info("reliquary/none")
    with pytest.raises(RevisionNotFoundError):
        hub.model_info(MODEL, revision="develop")
    with pytest.raises(RevisionNotFoundError):
        hub.model_info(MODEL, revision="0" * 40)
    with pytest.raises(RemoteEntryNotFoundError):
        hub.hf_hub_download(MODEL, "none.json", cache_dir=folder / "cache")


def test_a_private_model_is_unknown_to_strangers(
    server: HubServer, folder: Path, files: Path
) -> None:
    commit = publish(folder, MODEL, files)
    set_access(folder, MODEL, private=True)
    with pytest.raises(RepositoryNotFoundError):
        api(server).model_info(MODEL)
    info = api(server, TOKEN).model_info(MODEL)
    assert (info.sha, info.private) == (commit, True)


def test_a_gated_model_shows_itself_but_gives_no_file(
    server: HubServer, folder: Path, files: Path, tmp_path: Path
) -> None:
    publish(folder, MODEL, files)
    set_access(folder, MODEL, gated="manual")
    assert api(server).model_info(MODEL).gated == "manual"
    with pytest.raises(GatedRepoError):
        api(server).hf_hub_download(MODEL, "config.json", cache_dir=tmp_path / "cache")
    path = api(server, TOKEN).hf_hub_download(MODEL, "config.json", cache_dir=tmp_path / "cache")
    assert Path(path).read_text() == '{"a": 1}'


def test_ranges_and_heads_are_answered(server: HubServer, folder: Path, files: Path) -> None:
    commit = publish(folder, MODEL, files)
    address = f"{server.url}/{MODEL}/resolve/{commit}/model.safetensors"
    part = urllib.request.Request(address, headers={"Range": "bytes=256-511"})
    with urllib.request.urlopen(part) as answer:
        assert answer.status == 206
        assert answer.headers["Content-Range"] == f"bytes 256-511/{len(WEIGHTS)}"
        assert answer.read() == bytes(range(256))
    with urllib.request.urlopen(urllib.request.Request(address, method="HEAD")) as answer:
        assert answer.headers["Content-Length"] == str(len(WEIGHTS))
        assert answer.headers["ETag"] == f'"{hashlib.sha256(WEIGHTS).hexdigest()}"'
        assert answer.headers["X-Repo-Commit"] == commit
        assert answer.read() == b""


@pytest.mark.parametrize(
    "path",
    ["../main", "%2e%2e/main", "..%2f..%2f..%2fsecret", "sub/../../main", "/etc/passwd", "sub"],
)
def test_no_path_leads_out_of_a_commit(
    server: HubServer, folder: Path, files: Path, path: str
) -> None:
    commit = publish(folder, MODEL, files)
    (folder / "secret").write_text("secret")
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    connection.request("GET", f"/{MODEL}/resolve/{commit}/{path}")
    assert connection.getresponse().status == 404
    connection.close()


@pytest.mark.parametrize("model", ["name", "../up/name", "a/b/c", ".commits/name", "a/.."])
def test_a_bad_name_is_not_published(tmp_path: Path, files: Path, model: str) -> None:
    with pytest.raises(HubError, match="no model name"):
        publish(tmp_path / "hub", model, files)


def test_an_empty_folder_is_not_published(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(HubError, match="no files"):
        publish(tmp_path / "hub", MODEL, tmp_path / "empty")
