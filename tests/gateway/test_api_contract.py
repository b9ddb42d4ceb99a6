"""The routes' own OpenAPI against the published contract, part by part.

The contract stands beside the repository where the project is developed; elsewhere the project's
own models state it.
"""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.app import create_app
from gateway.settings import GatewaySettings
from protocol.chain.local import LocalChain

CONTRACT = Path(__file__).parents[3] / "shared" / "contract"
MOUNT = "/api/openai/v1"
# Words for people, and what only repeats what the other members say.
PROSE = {"title", "description", "examples", "example", "default", "format"}

pytestmark = pytest.mark.skipif(
    not CONTRACT.is_dir(), reason="the contract does not stand beside this repository"
)


@pytest.fixture(scope="module")
def contract() -> dict[str, Any]:
    return json.loads((CONTRACT / "reliquary-batch.openapi.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    data = tmp_path_factory.mktemp("data")
    app = create_app(GatewaySettings(data=data), chain=LocalChain(data / "chain.sqlite", time.time))
    return app.openapi()


def operations(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (path, method): operation
        for path, item in document["paths"].items()
        if path.startswith(MOUNT)
        for method, operation in item.items()
    }


def normal(schema: Any, document: dict[str, Any]) -> Any:
    """A schema with references resolved, prose dropped, and one spelling for the same meaning."""
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return normal(document["components"]["schemas"][name], document)
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            result[key] = {name: normal(member, document) for name, member in value.items()}
        elif key == "required":
            result[key] = sorted(value)
        elif key == "const":
            result["enum"] = [value]
        elif key in ("anyOf", "oneOf"):
            result["anyOf"] = [normal(option, document) for option in value]
        elif key not in PROSE:
            result[key] = normal(value, document)
    return _one_spelling(result)


def _one_spelling(schema: dict[str, Any]) -> dict[str, Any]:
    options = schema.pop("anyOf", None)
    if options is not None:
        kinds = [option for option in options if option != {"type": "null"}]
        assert len(kinds) == 1, "only a choice between something and null is known here"
        schema = {**kinds[0], **schema}
        schema["null"] = len(options) == 2 or schema.get("null", False)
    kind = schema.get("type")
    if isinstance(kind, list):
        schema["null"] = "null" in kind
        schema["type"] = next(one for one in kind if one != "null")
    if "enum" in schema:
        values = schema["enum"]
        schema.pop("type", None)
        if None in values:
            schema["null"] = True
        schema["enum"] = sorted(str(value) for value in values if value is not None)
    if schema.get("null") is False:
        del schema["null"]
    return schema


def test_same_operations(contract: dict[str, Any], ours: dict[str, Any]) -> None:
    def named(document: dict[str, Any]) -> dict[tuple[str, str], tuple[Any, ...]]:
        return {
            place: (
                operation["operationId"],
                operation["summary"],
                operation["tags"],
                operation["security"],
                operation["x-required-api-key-scope"],
            )
            for place, operation in operations(document).items()
        }

    assert named(ours) == named(contract)


def test_same_security(contract: dict[str, Any], ours: dict[str, Any]) -> None:
    scheme = ours["components"]["securitySchemes"]["workspaceKey"]
    wanted = contract["components"]["securitySchemes"]["workspaceKey"]
    assert {key: scheme[key] for key in ("type", "scheme", "bearerFormat")} == {
        key: wanted[key] for key in ("type", "scheme", "bearerFormat")
    }


def test_same_parameters(contract: dict[str, Any], ours: dict[str, Any]) -> None:
    def listed(document: dict[str, Any]) -> dict[tuple[str, str], Any]:
        return {
            place: sorted(
                (
                    parameter["in"],
                    parameter["name"],
                    parameter["required"],
                    json.dumps(normal(parameter["schema"], document), sort_keys=True),
                )
                for parameter in operation.get("parameters", [])
            )
            for place, operation in operations(document).items()
        }

    assert listed(ours) == listed(contract)


def test_same_request_bodies(contract: dict[str, Any], ours: dict[str, Any]) -> None:
    def bodies(document: dict[str, Any]) -> dict[tuple[str, str], Any]:
        return {
            place: {
                kind: normal(content["schema"], document)
                for kind, content in operation["requestBody"]["content"].items()
            }
            for place, operation in operations(document).items()
            if "requestBody" in operation
        }

    assert bodies(ours) == bodies(contract)


def test_same_answers(contract: dict[str, Any], ours: dict[str, Any]) -> None:
    def answers(document: dict[str, Any]) -> dict[tuple[str, str, str], Any]:
        return {
            (*place, status): {
                "headers": sorted(response.get("headers", {})),
                "content": {
                    kind: normal(content["schema"], document)
                    for kind, content in response["content"].items()
                },
            }
            for place, operation in operations(document).items()
            for status, response in operation["responses"].items()
        }

    mine, wanted = answers(ours), answers(contract)
    assert mine.keys() == wanted.keys()
    for place, answer in wanted.items():
        assert mine[place] == answer, place
