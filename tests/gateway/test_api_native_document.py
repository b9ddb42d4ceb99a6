"""The native routes' own OpenAPI: walked from end to end, and held to what is answered."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_nodes import fake_nodes
from jsonschema import Draft202012Validator
from live_gateway import LiveGateway, live_gateway
from native_customer import NativeCustomer
from small_model import MODEL, small_model_hub
from tokenizers import Tokenizer

from protocol.messages import LoadedModel

DOC = Path(__file__).parents[2] / "docs" / "native.md"
PUBLIC = {"/api/v1/generation/catalog"}
Operation = tuple[str, str]


@pytest.fixture(scope="module")
def place(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[NativeCustomer, dict[str, str]]]:
    """A customer with one delivered order, and the values of path parameters that are there."""
    folder = tmp_path_factory.mktemp("hub")
    data = tmp_path_factory.mktemp("gateway")
    with small_model_hub(folder) as commit, live_gateway(data / "gateway") as gateway:
        tokenizer = Tokenizer.from_file(str(folder / "files" / "tokenizer.json"))
        answer = [*tokenizer.encode("hello").ids, tokenizer.token_to_id("<|im_end|>")]
        customer = NativeCustomer(gateway, "reader", commit)
        with fake_nodes(gateway, data, LoadedModel(model=MODEL, revision=commit), answer):
            order = customer.wait(customer.order()["id"])
        yield (
            customer,
            {
                "file_id": order["input_file_id"],
                "part_number": "1",
                "quote_id": order["id"],
                "order_id": order["id"],
                "delivery_id": f"dl-{order['id']}",
                "name": "report.json",
            },
        )


@pytest.fixture(scope="module")
def gateway(place: tuple[NativeCustomer, dict[str, str]]) -> LiveGateway:
    return place[0].gateway


@pytest.fixture(scope="module")
def document(gateway: LiveGateway) -> dict[str, Any]:
    answer = httpx.get(f"{gateway.origin}/api/v1/openapi.json")
    assert answer.status_code == 200
    return answer.json()


def operations(document: dict[str, Any]) -> dict[Operation, dict[str, Any]]:
    return {
        (method, path): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }


def fault(value: Any, schema: dict[str, Any], document: dict[str, Any]) -> str | None:
    """Return how a value departs from a schema of the document."""
    whole = schema | {"components": document["components"]}
    Draft202012Validator.check_schema(whole)
    return next((error.message for error in Draft202012Validator(whole).iter_errors(value)), None)


def json_of(content: dict[str, Any]) -> dict[str, Any] | None:
    return content.get("content", {}).get("application/json")


def test_every_operation_is_described(document: dict[str, Any]) -> None:
    found = operations(document)
    assert len(found) == 18
    names = [operation["operationId"] for operation in found.values()]
    assert len(set(names)) == len(names)
    for (method, path), operation in found.items():
        assert operation["summary"] and operation["description"], path
        assert len(operation["tags"]) == 1
        if path in PUBLIC:
            assert "security" not in operation
            continue
        assert operation["security"] == [{"workspaceKey": []}]
        assert operation["x-required-api-key-scope"] == "orders:write"
        assert {"200", "401", "403", "404", "500"} <= set(operation["responses"]), (method, path)
        placed = {one["name"] for one in operation.get("parameters", []) if one["in"] == "path"}
        assert placed == {part[1:-1] for part in path.split("/") if part.startswith("{")}


def test_every_example_fits_its_schema(document: dict[str, Any]) -> None:
    seen = 0
    for place, operation in operations(document).items():
        bodies = [(operation["requestBody"], True)] if "requestBody" in operation else []
        bodies += [(answer, False) for answer in operation["responses"].values()]
        for content, is_request in bodies:
            described = json_of(content)
            if described is None or "application/octet-stream" in content["content"]:
                continue
            lists = described["schema"].get("$ref", "").endswith("List")
            assert "example" in described or lists, (place, is_request)
            if "example" in described:
                assert fault(described["example"], described["schema"], document) is None, place
                seen += 1
    assert seen > 80


def test_every_operation_answers_as_described(
    place: tuple[NativeCustomer, dict[str, str]], document: dict[str, Any]
) -> None:
    customer, values = place
    for (method, path), operation in operations(document).items():
        url = path.format(**values)
        options: dict[str, Any] = {"headers": {}}
        described = json_of(operation.get("requestBody", {}))
        if described is not None:
            options["json"] = described["example"]
        elif "requestBody" in operation:
            options["content"] = b"x"
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "header" and parameter.get("required"):
                options["headers"][parameter["name"]] = parameter["example"]
        if method == "delete":
            # For the last; what is read here stays.
            options["headers"]["Authorization"] = "Bearer nobody"
        answer = customer.call(method.upper(), url, **options)
        check(answer, operation, document)
        unknown = customer.call(
            method.upper(), path.format(**dict.fromkeys(values, "x")), **options
        )
        check(unknown, operation, document)
        stranger = httpx.request(method, customer.gateway.origin + url)
        if path not in PUBLIC:
            assert stranger.status_code == 401
            check(stranger, operation, document)


def check(answer: httpx.Response, operation: dict[str, Any], document: dict[str, Any]) -> None:
    """Check that an answer is one of those that are described."""
    described = operation["responses"].get(str(answer.status_code))
    assert described is not None, (operation["operationId"], answer.status_code, answer.text)
    assert answer.headers["x-request-id"].startswith("req_")
    kind = answer.headers["content-type"]
    shape = json_of(described)
    if kind == "application/json" and shape is not None and len(described["content"]) == 1:
        schema = shape["schema"]
        assert fault(answer.json(), schema, document) is None, answer.text
        return
    assert answer.status_code < 400 and kind in described["content"]


def test_the_other_dialects_have_a_document_of_their_own(gateway: LiveGateway) -> None:
    assert httpx.get(f"{gateway.origin}/openapi.json").status_code == 404


def test_the_page_names_every_route_and_state(document: dict[str, Any]) -> None:
    page = DOC.read_text(encoding="utf-8")
    for method, path in operations(document):
        assert f"`{method.upper()} {path.removeprefix('/api/v1')}`" in page, (method, path)
    states = document["components"]["schemas"]["DatasetOrder"]["properties"]["state"]["enum"]
    assert all(f"`{state}`" in page for state in states)
    assert "`/api/v1/openapi.json`" in page
    columns = json.dumps(page)
    from gateway.orders.parquet import SCHEMA

    assert all(f"`{name}`" in columns for name in SCHEMA.names)
