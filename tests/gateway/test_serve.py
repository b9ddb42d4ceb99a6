"""The gateway as a process: its settings, its log lines, and its end."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError

from gateway.lock import sole_user
from gateway.serve import listen
from gateway.settings import GatewaySettings

MAIN = """
import sys
from pathlib import Path
if __name__ == "__main__":
    from gateway.serve import ServeError, serve
    from gateway.settings import GatewaySettings
    from scripts.cli.logs import configure_logs
    configure_logs()
    try:
        serve(GatewaySettings(data=Path(sys.argv[1]), port=int(sys.argv[2])))
    except ServeError as error:
        sys.exit(f"error: {error}")
"""


@contextmanager
def started(data: Path, port: int = 0) -> Iterator[subprocess.Popen[str]]:
    script = data.parent / "serve_gateway.py"
    script.write_text(MAIN)
    process = subprocess.Popen(
        [sys.executable, str(script), str(data), str(port)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def origin(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        row = json.loads(line)
        if row["event"] == "gateway ready":
            return row["url"]
    raise AssertionError("the gateway did not start")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path / "data") as process:
        url = origin(process)
        with httpx.Client(base_url=url) as client:
            assert client.get("/nodes/v1/gateway").status_code == 200
            secret = "rlq_" + "a" * 48
            headers = {"Authorization": f"Bearer {secret}"}
            assert client.get("/api/openai/v1/files?x=y", headers=headers).status_code == 401
            # The connection is still open: it must not keep the gateway.
            process.send_signal(number)
            out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out == ""
    rows = [json.loads(line) for line in err.splitlines()]
    assert rows[-1]["event"] == "gateway stopped"
    (refused,) = (row for row in rows if row.get("status") == 401)
    assert refused["path"] == "/api/openai/v1/files"
    assert refused["request_id"].startswith("req_")
    assert secret not in err


def test_a_taken_port_is_told_in_a_line(tmp_path: Path) -> None:
    with (
        listen("127.0.0.1", 0) as taken,
        started(tmp_path / "data", taken.getsockname()[1]) as process,
    ):
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "(Address already in use); choose others with" in err.splitlines()[-1]
    assert "Traceback" not in err


def test_a_folder_has_one_gateway(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with sole_user(data), started(data) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "another gateway uses the data folder" in err.splitlines()[-1]
    assert "Traceback" not in err


def test_a_hotkey_that_others_can_read_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "hotkey.json").write_text("{}")
    (data / "hotkey.json").chmod(0o644)
    with started(data) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "chmod 600" in err
    assert "Traceback" not in err


def test_settings_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELIQUARY_GATEWAY_DATA", str(tmp_path))
    monkeypatch.setenv("RELIQUARY_GATEWAY_UNIT_SAMPLES", "8")
    monkeypatch.setenv("RELIQUARY_GATEWAY_DATABASE_URL", "postgresql://u:secret@host/name")
    settings = GatewaySettings()  # pyright: ignore[reportCallIssue]
    assert settings.policy.unit_samples == 8
    assert "secret" not in repr(settings)
    assert settings.objects_url == f"file://{tmp_path}/objects"
    assert str(settings.chain) == f"local:{tmp_path}/chain.sqlite"


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": 70_000},
        {"unit_samples": 0},
        {"lease_seconds": 10, "heartbeat_seconds": 10},
        {"surprise": 1},
        {"audit_backlog": 0},
    ],
)
def test_settings_that_are_none(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        GatewaySettings(data=tmp_path, **wrong)  # pyright: ignore[reportArgumentType]


def test_killed_and_started_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with started(data) as process:
        hotkey = httpx.get(f"{origin(process)}/nodes/v1/gateway").json()["hotkey"]
        (data / "incoming" / "half.part").write_bytes(b"x")
        process.kill()
    with started(data) as process:
        again = httpx.get(f"{origin(process)}/nodes/v1/gateway").json()["hotkey"]
        assert list((data / "incoming").iterdir()) == []
    assert again == hotkey
