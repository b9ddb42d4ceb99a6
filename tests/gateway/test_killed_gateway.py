"""B61: the gateway is killed (SIGKILL) while a batch is under way, started again, and goes on."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import openai
import pytest
from batch_rows import encoded, request
from ended_batch import check_ended, wait
from fake_nodes import FakeNodes, all_verified, fake_nodes
from openai.types import Batch
from small_model import MODEL, small_model_hub
from tokenizers import Tokenizer

from protocol.chain.local import LocalChain
from protocol.messages import AuditLease, LoadedModel, SampleVerdict

CHAT = "/v1/chat/completions"
START_SECONDS = 60
# An exporter's lease runs out half a minute after it was killed.
END_SECONDS = 180

pytestmark = pytest.mark.slow


@dataclass
class Killable:
    """A gateway process on a folder: its origin, and the nodes that may serve it."""

    process: subprocess.Popen[bytes]
    origin: str
    chain: LocalChain
    key: str

    def register(self, hotkey: str, *, validator_permit: bool = False) -> None:
        with suppress(ValueError):
            self.chain.register(hotkey, f"owner-{hotkey}", validator_permit=validator_permit)

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(
            api_key=self.key, base_url=f"{self.origin}/api/openai/v1", max_retries=2
        )

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "scripts.cli", *arguments]


@contextmanager
def started(data: Path) -> Iterator[Killable]:
    """Start a gateway on ``data``, which may have had one before."""
    made = [("keys", "create")]
    if not data.exists():
        made.append(("accounts", "credit", "default", "1000000"))
    key, *_ = (
        subprocess.run(
            command(*words, "--data", str(data)), check=True, capture_output=True, text=True
        ).stdout.strip()
        for words in made
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = ("gateway", "--data", str(data), "--port", str(port), "--unit-samples", "16")
    process = subprocess.Popen(
        command(*arguments, "--architecture", "Qwen3ForCausalLM"),
        stderr=subprocess.DEVNULL,
        env=os.environ | {"RELIQUARY_GATEWAY_CANCEL_GRACE_SECONDS": "1"},
    )
    origin = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + START_SECONDS
        while True:
            with suppress(httpx.HTTPError):
                if httpx.get(f"{origin}/nodes/v1/gateway").status_code == 200:
                    break
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        chain = LocalChain(data / "chain.sqlite", time.time)
        yield Killable(process, origin, chain, key)
    finally:
        process.kill()
        process.wait()
    books = subprocess.run(
        command("ledger", "check", "--data", str(data)), capture_output=True, text=True
    )
    assert books.returncode == 0, books.stdout


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoadedModel, list[int]]]:
    folder = tmp_path_factory.mktemp("hub")
    with small_model_hub(folder) as commit, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_CACHE", str(folder / "cache"))
        tokenizer = Tokenizer.from_file(str(folder / "files" / "tokenizer.json"))
        end = tokenizer.token_to_id("<|im_end|>")
        assert end is not None
        said = [*tokenizer.encode("hello world").ids, end]
        yield LoadedModel(model=MODEL, revision=commit), said


def order(gateway: Killable, lines: int, **body: Any) -> Batch:
    content = b"".join(encoded(request(f"q{at}", **body)) + b"\n" for at in range(lines)) + b"5\n"
    client = gateway.client()
    file = client.files.create(file=content, purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")


@contextmanager
def nodes(
    gateway: Killable,
    folder: Path,
    hub: tuple[LoadedModel, list[int]],
    judge: Callable[[AuditLease], list[SampleVerdict]] = all_verified,
) -> Iterator[FakeNodes]:
    with fake_nodes(gateway, folder, *hub, judge) as running:
        yield running


def check_end(gateway: Killable, batch: Batch, status: str, lines: int) -> int:
    """Wait for the end and check that each line is in one place; return the output's lines."""
    ended = wait(gateway.client(), batch.id, seconds=END_SECONDS)
    assert ended.status == status
    ids = [*(f"q{at}" for at in range(lines)), ""]
    output, errors = check_ended(gateway.client(), ended, ids)
    assert len(output) + len(errors) == lines + 1
    return len(output)


def test_mid_upload(hub: tuple[LoadedModel, list[int]], tmp_path: Path) -> None:
    data = tmp_path / "data"
    with started(data) as gateway:
        place = urlsplit(gateway.origin)
        head = (
            "POST /api/openai/v1/files HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {gateway.key}\r\nContent-Length: 9000000\r\n"
            "Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\n"
            'Content-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
        )
        with socket.create_connection((place.hostname, place.port)) as connection:
            connection.sendall(head.encode() + b"x" * 4_000_000)
            deadline = time.monotonic() + 30
            while not any(path.stat().st_size for path in (data / "incoming").iterdir()):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            gateway.kill()
    with started(data) as again:
        assert list(again.client().files.list()) == []
        assert list((data / "incoming").iterdir()) == []


def test_validating(hub: tuple[LoadedModel, list[int]], tmp_path: Path) -> None:
    with started(tmp_path / "data") as gateway:
        batch = order(gateway, 40)
        assert batch.status == "validating"
        gateway.kill()
    with started(tmp_path / "data") as again:
        assert again.client().batches.retrieve(batch.id).status == "validating"
        with nodes(again, tmp_path, hub):
            assert check_end(again, batch, "completed", 40) == 40


@pytest.mark.parametrize("cancelled", [False, True], ids=["in_progress", "cancelling"])
def test_at_work(cancelled: bool, hub: tuple[LoadedModel, list[int]], tmp_path: Path) -> None:
    judged: list[str] = []
    with started(tmp_path / "data") as gateway:
        batch = order(gateway, 80)
        with nodes(gateway, tmp_path, hub) as running:

            def stalling(lease: AuditLease) -> list[SampleVerdict]:
                running.stop.wait(60 if len(judged) >= 2 else 0)
                judged.append(lease.lease_id)
                return all_verified(lease)

            running.judge = stalling
            wait(gateway.client(), batch.id, lambda one: bool(_completed(one)))
        if cancelled:
            assert gateway.client().batches.cancel(batch.id).status == "cancelling"
        gateway.kill()
    with started(tmp_path / "data") as again, nodes(again, tmp_path, hub):
        if cancelled:
            assert 0 < check_end(again, batch, "cancelled", 80) < 80
        else:
            assert check_end(again, batch, "completed", 80) == 80


def test_finalizing(hub: tuple[LoadedModel, list[int]], tmp_path: Path) -> None:
    """Killed while it writes a delivery: whoever takes it over delivers the same bytes."""
    data, twin, lines, n = tmp_path / "data", tmp_path / "twin", 60, 16
    judged: list[int] = []
    with started(data) as gateway:
        batch = order(gateway, lines, n=n)
        with nodes(gateway, tmp_path, hub) as running:

            def counting(lease: AuditLease) -> list[SampleVerdict]:
                judged.append(len(lease.work.samples))
                if sum(judged) >= lines * n:
                    running.stop.set()
                return all_verified(lease)

            running.judge = counting
            assert running.stop.wait(END_SECONDS)
        deadline = time.monotonic() + START_SECONDS
        while not _writes_delivery(data):
            assert time.monotonic() < deadline
        gateway.kill()
    shutil.copytree(data, twin)
    with started(data) as again:
        assert again.client().batches.retrieve(batch.id).status == "finalizing"
        with started(twin) as other:
            assert check_end(again, batch, "completed", lines) == lines
            assert check_end(other, batch, "completed", lines) == lines
            assert _delivered(again, batch.id) == _delivered(other, batch.id)


def _writes_delivery(data: Path) -> bool:
    with suppress(FileNotFoundError):
        return any(path.stat().st_size for path in (data / "incoming").glob("export-*/receipts*"))
    return False


def _delivered(gateway: Killable, batch_id: str) -> list[bytes]:
    """Return the output, the errors and the receipts of a batch."""
    client = gateway.client()
    batch = client.batches.retrieve(batch_id)
    files = [batch.output_file_id, batch.error_file_id]
    receipts = httpx.get(
        f"{gateway.origin}/api/v1/dataset-orders/{batch_id.removeprefix('batch_')}/receipts",
        headers={"Authorization": f"Bearer {gateway.key}"},
    )
    assert receipts.status_code == 200
    contents = [client.files.content(file).content for file in files if file is not None]
    return [*contents, receipts.content]


def _completed(batch: Batch) -> int:
    return batch.request_counts.completed if batch.request_counts is not None else 0
