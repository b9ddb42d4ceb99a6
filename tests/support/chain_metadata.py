"""The metadata of a Bittensor runtime (V15), taken from bittensor's source distribution.

It is not in the wheel that is installed, so it is fetched from the package index by its name and
hash at the first test that needs it, and kept beside the virtual environment's packages.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urljoin

import pytest
from bittensor._transport.codec import RuntimeCodec, strip_option_opaque_metadata

ARCHIVE = "bittensor-11.3.0.tar.gz"
ARCHIVE_SHA256 = "8ce05029a712866048c6cf3e3d5df1592ac896175f5b4227f63044b7e7b7edb3"
MEMBER = "bittensor-11.3.0/tests/fixtures/golden.json"
SECONDS = 60
KEPT = Path(sys.prefix) / "share" / "reliquary-tests" / f"runtime-{ARCHIVE_SHA256[:16]}.bin"
SPEC_VERSION = 461
TRANSACTION_VERSION = 1


@dataclass(frozen=True)
class Metadata:
    """A runtime's metadata as the node answers it, and the codec made of it."""

    blob: bytes
    codec: RuntimeCodec

    def without(self, *items: str) -> "Metadata":
        """The same runtime, where storage items of these names are called otherwise."""
        blob = self.blob
        for item in items:
            changed = blob.replace(item.encode(), ("Z" + item[1:]).encode())
            assert changed != blob, item
            blob = changed
        return Metadata(blob, _codec(blob))


@cache
def runtime_metadata() -> Metadata:
    """Return the metadata; skips the test, saying why, where it cannot be fetched."""
    if not KEPT.exists():
        try:
            _keep(_metadata(_archive()))
        except (URLError, TimeoutError) as error:
            pytest.skip(f"{ARCHIVE} cannot be fetched from the package index: {error}")
    blob = KEPT.read_bytes()
    return Metadata(blob, _codec(blob))


def _codec(blob: bytes) -> RuntimeCodec:
    return RuntimeCodec(
        blob,
        spec_version=SPEC_VERSION,
        transaction_version=TRANSACTION_VERSION,
        spec_name="node-subtensor",
    )


def _archive() -> bytes:
    index = _index_url().rstrip("/") + "/bittensor/"
    request = urllib.request.Request(
        index, headers={"Accept": "application/vnd.pypi.simple.v1+json"}
    )
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        files = json.load(answer)["files"]
    url = next(file["url"] for file in files if file["filename"] == ARCHIVE)
    with urllib.request.urlopen(urljoin(index, url), timeout=SECONDS) as answer:
        archive = answer.read()
    assert sha256(archive).hexdigest() == ARCHIVE_SHA256, f"{ARCHIVE} is another file"
    return archive


def _index_url() -> str:
    pip = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    asked = subprocess.run(pip, capture_output=True, text=True)
    return os.environ.get("PIP_INDEX_URL") or asked.stdout.strip() or "https://pypi.org/simple"


def _metadata(archive: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        member = files.extractfile(MEMBER)
        assert member is not None
        recorded = json.load(member)
    assert recorded["network"]["spec_version"] == SPEC_VERSION
    blob = strip_option_opaque_metadata(bytes.fromhex(recorded["metadata"]["v15_hex"][2:]))
    assert blob is not None
    return blob


def _keep(blob: bytes) -> None:
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=KEPT.parent, delete=False) as file:
        file.write(blob)
    Path(file.name).replace(KEPT)
