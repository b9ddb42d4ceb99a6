"""A gateway of its own for a measurement: started on a new folder, ordered from, and ended."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from scripts.bench.intake.processes import family, peak_bytes, processor_seconds
from scripts.up.layout import HOST, free_port
from scripts.up.plans import COMMAND_LINE
from scripts.up.process import Plan, Process
from scripts.up.ready import status_of, wait_until

START_SECONDS = 120.0
ORDER_SECONDS = 900.0
CHAT = "/v1/chat/completions"


@dataclass(frozen=True)
class Gateway:
    """A running gateway and a key for it."""

    url: str
    key: str
    process_id: int

    def client(self) -> httpx.Client:
        """Return a client of the ``/v1`` dialect, which takes the largest files."""
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.Client(base_url=f"{self.url}/v1", headers=headers, timeout=ORDER_SECONDS)

    def upload(self, path: Path) -> str:
        """Upload an input file and return its id."""
        with self.client() as client, path.open("rb") as file:
            answer = client.post("/files", data={"purpose": "batch"}, files={"file": file})
        return answer.raise_for_status().json()["id"]

    def order(self, file_id: str) -> str:
        """Create a batch on an uploaded file and return its id."""
        body = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}
        with self.client() as client:
            answer = client.post("/batches", json=body)
        if answer.is_error:
            raise RuntimeError(f"no batch was created: {answer.text}")
        return answer.json()["id"]

    def used(self) -> float:
        """Return the processor seconds of the gateway and its workers so far."""
        return processor_seconds(family(self.process_id))

    def peak(self) -> int:
        """Return the sum of the peaks (in bytes) of the gateway and each of its workers."""
        return sum(peak_bytes(one) for one in family(self.process_id))


@contextmanager
def running_gateway(
    folder: Path,
    hub_url: str,
    module: str = COMMAND_LINE,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Gateway]:
    """Run a gateway with one intake worker, whose models come from ``hub_url``.

    Args:
        module: serves it as the command line does.
        variables: what its environment has besides.
    """
    data, port = folder / "gateway", free_port(0)
    key, _ = (
        subprocess.run(
            [sys.executable, "-m", COMMAND_LINE, *words, "--data", str(data)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for words in (("keys", "create"), ("accounts", "credit", "default", "1000000"))
    )
    arguments = ("gateway", "--data", str(data), "--host", HOST, "--port", str(port))
    # Given here, so that no node need announce it.
    arguments += ("--architecture", "Qwen3ForCausalLM")
    environment = {"HF_ENDPOINT": hub_url, "HF_HUB_CACHE": str(folder / "cache")}
    environment |= variables or {}
    process = Process(Plan("gateway", module, arguments, environment), folder / "gateway.log")
    url = f"http://{HOST}:{port}"

    def died() -> str | None:
        return None if process.exit_status() is None else process.log.read_text()

    process.start()
    try:
        ready = f"{url}/nodes/v1/gateway"
        wait_until(lambda: status_of(ready) == 200, died, "the gateway", START_SECONDS)
        yield Gateway(url, key, process.pid)
    finally:
        process.ask_to_stop()
        process.end()
