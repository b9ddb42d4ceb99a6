"""Schemathesis runs over the published contract, chained and with a key, against a live gateway.

No answer is a server error, has an undocumented and undecided status, another content type or
another schema than the contract says, or comes without the key. That all input is accepted which
the schemas allow does not hold: "999h" fits the schema of a window and is refused.
"""

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ended_batch import wait
from fake_nodes import fake_nodes
from live_gateway import LiveGateway, live_gateway
from small_model import MODEL, small_model_hub
from tokenizers import Tokenizer

from protocol.messages import LoadedModel

CONTRACT = Path(__file__).parents[3] / "shared" / "contract" / "reliquary-batch.openapi.json"
CHAT = "/v1/chat/completions"
# Answered beyond what the contract lists for a route, always in its error shape.
DECIDED = ("400", "405", "411", "413", "415", "416", "429")
# That all input is refused which fits no schema is not asked either: unknown members are ignored,
# and a form's file of the bytes "1" is as good as any.
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_headers_conformance,response_schema_conformance,"
    "unsupported_method,allow_header_conformance,ignored_auth"
)
LINE = {"custom_id": "q1", "method": "POST", "url": CHAT, "body": {
    "model": MODEL, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 16,
}}  # fmt: skip

pytestmark = pytest.mark.skipif(
    not CONTRACT.is_file(), reason="the contract does not stand beside this repository"
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    """A gateway with nodes at work, one file and one batch that has ended."""
    hub, data = tmp_path_factory.mktemp("hub"), tmp_path_factory.mktemp("gateway")
    limits = {"open_orders": 100_000, "quotes_per_day": 1_000_000}
    with small_model_hub(hub) as commit, live_gateway(data, **limits) as running:
        tokenizer = Tokenizer.from_file(str(hub / "files" / "tokenizer.json"))
        answer = [*tokenizer.encode("hello").ids, tokenizer.token_to_id("<|im_end|>")]
        with fake_nodes(running, data, LoadedModel(model=MODEL, revision=commit), answer):
            client = running.client()
            content = json.dumps(LINE).encode()
            file = client.files.create(file=("in.jsonl", content), purpose="batch")
            batch = client.batches.create(
                input_file_id=file.id, endpoint=CHAT, completion_window="24h"
            )
            assert wait(client, batch.id).status == "completed"
            yield running


def link(operation: str, body: dict[str, Any] | None = None, **parameters: str) -> dict[str, Any]:
    made: dict[str, Any] = {"operationId": operation}
    if parameters:
        made["parameters"] = parameters
    return made if body is None else made | {"requestBody": body}


def order_of(file_id: str) -> dict[str, Any]:
    return {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}


# Which answers give the ids that other operations take.
FIRST, MADE = "$response.body#/data/0/id", "$response.body#/id"
LINKS: dict[str, dict[str, Any]] = {
    "openaiUploadFile": {
        "read": link("openaiGetFile", file_id=MADE),
        "download": link("openaiFileContent", file_id=MADE),
        "order": link("openaiCreateBatch", order_of(MADE)),
    },
    "openaiListFiles": {
        "read": link("openaiGetFile", file_id=FIRST),
        "download": link("openaiFileContent", file_id=FIRST),
        "order": link("openaiCreateBatch", order_of(FIRST)),
    },
    "openaiListBatches": {
        "page": link("openaiListBatches", after=FIRST),
        "read": link("openaiGetBatch", batch_id=FIRST),
        "cancel": link("openaiCancelBatch", batch_id=FIRST),
    },
    "openaiCreateBatch": {
        "read": link("openaiGetBatch", batch_id=MADE),
        "cancel": link("openaiCancelBatch", batch_id=MADE),
    },
    "openaiGetBatch": {
        "download": link("openaiFileContent", file_id="$response.body#/output_file_id"),
    },
}


def decided(contract: dict[str, Any]) -> dict[str, Any]:
    """The contract with what was decided beside it: further refusals, and what leads where."""
    document = copy.deepcopy(contract)
    error = {
        "description": "Refused.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    for path in document["paths"].values():
        for operation in path.values():
            for status in DECIDED:
                operation["responses"].setdefault(status, error)
            links = LINKS.get(operation["operationId"], {})
            operation["responses"]["200"].setdefault("links", {}).update(links)
    return document


def fuzz(gateway: LiveGateway, folder: Path, *options: str) -> None:
    """Run Schemathesis; its own report says what it found."""
    document = folder / "contract.json"
    document.write_text(json.dumps(decided(json.loads(CONTRACT.read_text(encoding="utf-8")))))
    command = [
        sys.executable, "-m", "schemathesis.cli", "--no-color", "run", str(document),
        "--url", gateway.origin, "--header", f"Authorization: {gateway.auth['Authorization']}",
        "--checks", CHECKS, "--warnings", "off", "--generation-database", "none", *options,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]


def test_bounded(gateway: LiveGateway, tmp_path: Path) -> None:
    fuzz(gateway, tmp_path, "--max-examples", "4", "--seed", "7")


@pytest.mark.slow
def test_at_length(gateway: LiveGateway, tmp_path: Path) -> None:
    fuzz(gateway, tmp_path, "--max-examples", "300")
