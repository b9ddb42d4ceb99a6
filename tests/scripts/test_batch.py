"""``reliquary batch`` as a process, against a live gateway with nodes that fake a model."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from fake_nodes import FakeNodes, Judge, all_verified, fake_nodes
from live_gateway import LiveGateway, live_gateway
from small_model import MODEL, small_model_hub
from tokenizers import Tokenizer

from protocol.messages import AuditLease, LoadedModel, SampleVerdict
from scripts.cli import main

CHAT = "/v1/chat/completions"
SECONDS = 120


def line(number: int, **members: Any) -> dict[str, Any]:
    message = {"role": "user", "content": f"hello {number}"}
    body = {"model": MODEL, "messages": [message], "max_tokens": 16, "n": 2}
    return {"custom_id": f"q{number}", "method": "POST", "url": CHAT, "body": body, **members}


def write(path: Path, *rows: dict[str, Any] | str) -> Path:
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    )
    return path


class Clock:
    """The gateway's clock, which a test sets forward."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@dataclass
class Customer:
    """Who runs the command, in an environment that knows the gateway."""

    gateway: LiveGateway
    folder: Path
    commit: str
    environment: dict[str, str]
    clock: Clock

    def start(self, *words: str | Path, **changes: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-P", "-m", "scripts.cli", "batch", *map(str, words)]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment | changes,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str | Path, status: int = 0, **changes: str) -> tuple[str, str]:
        """Run a command to its end; return what it printed and what it said."""
        with self.start(*words, **changes) as process:
            printed, said = process.communicate(timeout=SECONDS)
        assert process.returncode == status, printed + said
        assert "Traceback" not in said
        return printed, said

    def here(self, *words: str | Path, status: int = 0, **changes: str) -> tuple[str, str]:
        """Run a command as ``run`` does, but in this process, which is faster."""
        printed, said = StringIO(), StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            redirect_stdout(printed),
            redirect_stderr(said),
            pytest.raises(SystemExit) as left,
        ):
            for name, value in (self.environment | changes).items():
                patch.setenv(name, value)
            patch.chdir(self.folder)
            patch.setattr(sys, "argv", ["reliquary", "batch", *map(str, words)])
            main()
        assert (left.value.code or 0) == status, printed.getvalue() + said.getvalue()
        return printed.getvalue(), said.getvalue()

    @contextmanager
    def nodes(self, judge: Judge = all_verified) -> Iterator[FakeNodes]:
        """Nodes that answer everything with ``hello world``."""
        tokenizer = Tokenizer.from_file(str(self.folder / "files" / "tokenizer.json"))
        answer = [*tokenizer.encode("hello world").ids, tokenizer.token_to_id("<|im_end|>")]
        loaded = LoadedModel(model=MODEL, revision=self.commit)
        with fake_nodes(self.gateway, self.folder, loaded, answer, judge) as nodes:
            yield nodes

    def batches(self) -> list[str]:
        with self.gateway.client() as client:
            return [batch.id for batch in client.batches.list(limit=100)]


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Let the commands be interrupted, even where the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def customer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Customer]:
    folder, clock = tmp_path_factory.mktemp("batch"), Clock()
    with (
        small_model_hub(folder) as commit,
        live_gateway(folder / "gateway", clock, unit_samples=4) as gateway,
    ):
        environment = os.environ | {
            "RELIQUARY_BASE_URL": gateway.base_url,
            "RELIQUARY_API_KEY": gateway.key,
            "HF_HUB_CACHE": str(folder / "cache"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        yield Customer(gateway, folder, commit, environment, clock)


def test_from_a_file_to_a_verified_evaluation(customer: Customer, tmp_path: Path) -> None:
    file = write(
        tmp_path / "in.jsonl",
        line(0, reference="hello world"),
        "no json",
        line(1, reference="something else"),
        line(2, reference=" hello world "),
    )
    with customer.nodes():
        printed, said = customer.run("run", file, "--grader", "exact_match_v1", "--yes")
    assert "3 usable, 1 refused" in said and "line 2: invalid_json" in said
    assert re.search(r"price +at most [0-9.]+ USD; [0-9.]+ USD where half", said)
    assert re.search(r"charged [0-9.]+ USD of [0-9.]+ USD reserved", printed)
    assert "ALL HOLDS." in printed
    assert f"is delivered: {tmp_path / 'in-delivery'}" in printed
    assert "exact_match_v1: pass@1 0.666667 over 3 lines" in printed
    assert "refused 1 of 4 lines" in printed
    # To order them again changes nothing.
    assert "batch retry" not in printed
    rows = [
        json.loads(row)
        for path in sorted((tmp_path / "in-delivery").glob("output*.jsonl"))
        for row in path.read_text().splitlines()
    ]
    assert [row["custom_id"] for row in rows] == ["q0", "q1", "q2"]
    # What was refused would be refused again.
    printed, _ = customer.here("retry", tmp_path / "in-delivery", "--input", file)
    assert "refused: line 2 (no custom_id): invalid_json" in printed
    assert "nothing to order again" in printed
    assert not (tmp_path / "in-retry.jsonl").exists()


def test_stopped_by_ctrl_c_the_same_command_goes_on(customer: Customer, tmp_path: Path) -> None:
    file, out = write(tmp_path / "in.jsonl", line(0), line(1)), tmp_path / "out"
    before = customer.batches()
    with customer.start("run", file, "--out", out, "--yes") as process:
        assert process.stderr is not None
        said = ""
        while "queued" not in said:
            said += process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert "The same command goes on" in rest and "Traceback" not in rest
    (ordered,) = set(customer.batches()) - set(before)
    assert ordered in customer.here("list")[0]
    with customer.nodes():
        printed, said = customer.here("run", file, "--out", out)
    assert f"{ordered} is delivered" in printed
    # Nothing was quoted, asked or ordered again.
    assert "usable" not in said
    assert set(customer.batches()) - set(before) == {ordered}
    printed, said = customer.here("run", file, "--out", out)
    assert "ALL HOLDS." in printed
    assert f"{ordered}: ordered before, and not again; another --out" in said
    shown = json.loads(customer.here("show", ordered)[0])
    assert shown["state"] == "delivered"
    (listed,) = [row for row in customer.here("list")[0].splitlines() if ordered in row]
    assert {"delivered", "2/2", shown["charged_usd"]} <= set(listed.split())
    other = write(tmp_path / "other.jsonl", line(5))
    assert "another file" in customer.here("run", other, "--out", out, "--yes", status=1)[1]


def test_nothing_is_ordered_unasked(customer: Customer, tmp_path: Path) -> None:
    file = write(tmp_path / "in.jsonl", line(0))
    before = customer.batches()
    _, said = customer.run("run", file, "--out", tmp_path / "out", status=1)
    assert "reliquary: nobody can be asked here; accept the price with --yes or --max-price" in said
    assert customer.batches() == before
    # The quote is kept for the next try.
    record = json.loads((tmp_path / "out" / ".run.json").read_text())
    assert record["quote_id"] is not None and record["ordered"] is False


def test_on_a_terminal_the_price_is_asked(customer: Customer, tmp_path: Path) -> None:
    file = write(tmp_path / "in.jsonl", line(0))

    def answered(answer: bytes, status: int) -> str:
        """Run the command on a terminal of its own, and answer what it asks."""
        master, slave = os.openpty()
        command = [sys.executable, "-P", "-m", "scripts.cli", "batch", "run", str(file)]
        with subprocess.Popen(
            command,
            cwd=customer.folder,
            env=customer.environment | {"TERM": "xterm", "COLUMNS": "120"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        ) as process:
            os.close(slave)
            shown = b""
            with suppress(OSError):  # The terminal is gone with its last user.
                while piece := os.read(master, 65_536):
                    shown += piece
                    if b"Order it? [y/N]" in shown and answer:
                        os.write(master, answer)
                        answer = b""
        os.close(master)
        assert process.returncode == status, shown
        return shown.decode()

    before = customer.batches()
    assert "nothing was ordered" in answered(b"n\n", 1)
    assert customer.batches() == before
    with customer.nodes():
        shown = answered(b"y\n", 0)
    assert "at most" in shown and "charged" in shown
    # The bars of what was generated and fetched.
    assert "samples" in shown and "2/2" in shown and "receipts" in shown


def test_a_batch_that_never_began_is_ordered_again(customer: Customer, tmp_path: Path) -> None:
    file = write(tmp_path / "in.jsonl", line(0, reference="hello world"))
    out, kind = tmp_path / "out", ("--grader", "exact_match_v1", "--parquet")
    with customer.start("run", file, "--out", out, "--yes", *kind) as process:
        record = out / ".run.json"
        deadline = time.monotonic() + SECONDS
        while not (record.exists() and json.loads(record.read_text())["ordered"]):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        ordered = json.loads(record.read_text())["quote_id"]
        assert "is cancel" in customer.here("cancel", f"batch_{ordered}")[0]
        printed, said = process.communicate(timeout=SECONDS)
    assert (process.returncode, "is cancelled" in printed) == (0, True), said
    for source in (f"batch_{ordered}", out):
        again = tmp_path / f"again-{len(str(source))}.jsonl"
        printed, _ = customer.here("retry", source, "--input", file, "--out", again)
        assert again.read_bytes() == file.read_bytes()
        # What it says to do orders the same again.
        assert printed.endswith(f"reliquary batch run {again} {' '.join(kind)}\n")


def test_mistakes_are_told_in_a_line(customer: Customer, tmp_path: Path) -> None:
    file = write(tmp_path / "in.jsonl", line(0))
    nameless = write(tmp_path / "nameless.jsonl", {"custom_id": "q"})
    hopeless = write(tmp_path / "hopeless.jsonl", line(0, method="GET"))
    (tmp_path / "empty.jsonl").touch()
    unknown = "batch_01a22870-0000-7000-8000-000000000000"
    for words, changes, said in (
        (("run", tmp_path / "none.jsonl"), {}, "No such file"),
        (("run", tmp_path), {}, "is no file"),
        (("run", tmp_path / "empty.jsonl"), {}, "is empty"),
        (("run", nameless), {}, "--model"),
        (("run", file, "--model", "org/none"), {}, "--revision is needed"),
        (("run", hopeless, "--yes"), {}, "no_usable_line"),
        (("run", file, "--max-price", "0.001"), {}, "above --max-price"),
        (("run", file, "--grader", "best"), {}, "grader"),
        # What was not ordered may be asked for anew.
        (("run", file, "--grader", "exact_match_v1", "--yes"), {}, "no_usable_line"),
        (("run", file), {"RELIQUARY_API_KEY": "rlq_wrong"}, "has ended"),
        (("run", file), {"RELIQUARY_API_KEY": ""}, "--api-key is needed"),
        (("run", file), {"RELIQUARY_BASE_URL": "gateway"}, "no base URL"),
        (("run", file, "--env", tmp_path / "none.env"), {}, "no file"),
        (("show", unknown), {}, "There is no such order"),
        (("cancel", "batch_x"), {}, "no batch id"),
        (("retry", tmp_path, "--input", file), {}, "no whole delivery"),
        (("list",), {"RELIQUARY_BASE_URL": "http://127.0.0.1:9/v1"}, "could not be reached"),
    ):
        printed, complaints = customer.here(*words, status=1, **changes)
        assert printed == ""
        *_, last = complaints.splitlines()
        assert last.startswith("reliquary: ") and said in last, (words, last)
        assert "Errno" not in last
    _, told = customer.here("run", file, "--max-price", "cheap", status=2)
    assert "2.50" in told


def test_access_from_the_networks_own_file(customer: Customer, tmp_path: Path) -> None:
    env = tmp_path / "reliquary.env"
    access = {
        "RELIQUARY_BASE_URL": customer.gateway.base_url,
        "RELIQUARY_API_KEY": customer.gateway.key,
    }
    env.write_text("".join(f"{name}={value}\n" for name, value in access.items()))
    printed, _ = customer.here("list", "--env", env, **dict.fromkeys(access, ""))
    assert printed.startswith("BATCH")


def test_what_fell_short_is_ordered_again(customer: Customer, tmp_path: Path) -> None:
    file = write(tmp_path / "in.jsonl", "no json", *map(line, range(5)))

    def judge_once(lease: AuditLease) -> list[SampleVerdict]:
        nodes.stop.set()
        return all_verified(lease)

    with customer.start("run", file, "--yes") as process:
        with customer.nodes(judge_once) as nodes:
            nodes.stop.wait(SECONDS)
        # Its window is over before the rest is generated.
        customer.clock.ahead += 25 * 3_600
        printed, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, printed + said
    assert " is expired: " in printed and "ALL HOLDS." in printed
    assert f"reliquary batch retry {tmp_path / 'in-delivery'} --input {file}" in printed
    expired = printed

    printed, _ = customer.here("retry", tmp_path / "in-delivery", "--input", file)
    assert "refused: line 1 (no custom_id): invalid_json" in printed
    rest = tmp_path / "in-retry.jsonl"
    assert f"{rest}: 3 lines" in printed
    assert rest.read_text().splitlines() == [json.dumps(line(number)) for number in (2, 3, 4)]
    # The gateway says the same; no file is written over.
    (batch_id,) = re.findall(r"(batch_[0-9a-f-]{36}) is expired", expired)
    again = tmp_path / "again.jsonl"
    customer.here("retry", batch_id, "--input", file, "--out", again)
    assert again.read_bytes() == rest.read_bytes()
    assert "another --out" in customer.here("retry", batch_id, "--input", file, status=1)[1]
    with customer.nodes():
        printed, _ = customer.here("run", rest, "--yes")
    assert "is delivered" in printed
