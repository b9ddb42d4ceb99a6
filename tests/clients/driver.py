"""An official openai-python client, of whatever version is importable, driven by lines of JSON.

Each line of the standard input is a call, ``{"op": NAME, ...}``; each answer is a line with what
the client returned (``value``) or raised (``error``). The first line configures the client.
"""

import json
import sys
from typing import Any

import openai


def call(client: openai.OpenAI, op: str, arguments: dict[str, Any]) -> Any:
    """Make one call of a customer's script; lists are read through the client's own pager."""
    files, batches = client.files, client.batches
    match op:
        case "version":
            return openai.__version__
        case "upload":
            with open(arguments["path"], "rb") as file:  # noqa: PTH123 - as customers do it
                return files.create(file=file, purpose=arguments["purpose"]).to_dict()
        case "file":
            return files.retrieve(arguments["id"]).to_dict()
        case "files":
            return [file.to_dict() for file in files.list()]
        case "content":
            return files.content(arguments["id"]).text
        case "create":
            headers = arguments.pop("headers", None)
            return batches.create(**arguments, extra_headers=headers).to_dict()
        case "batch":
            return batches.retrieve(arguments["id"]).to_dict()
        case "batches":
            return [batch.to_dict() for batch in batches.list(**arguments)]
        case "cancel":
            return batches.cancel(arguments["id"]).to_dict()
    raise ValueError(op)


def told(error: openai.APIStatusError) -> dict[str, Any]:
    """Return what the client tells of an error."""
    return {
        "class": type(error).__name__,
        "status": error.status_code,
        "code": error.code,
        "param": error.param,
        "type": error.type,
        "request_id": error.request_id,
    }


def main() -> None:
    """Answer calls until the input ends."""
    options = json.loads(sys.stdin.readline())
    client = openai.OpenAI(**options)
    for line in sys.stdin:
        arguments = json.loads(line)
        try:
            key = arguments.pop("api_key", None)
            asking = client if key is None else client.with_options(api_key=key)
            answer = {"value": call(asking, arguments.pop("op"), arguments)}
        except openai.APIStatusError as error:
            answer = {"error": told(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


main()
