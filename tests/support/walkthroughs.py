"""The two walkthroughs of the customers' contract, read from the document that defines them.

The document has lost the indentation of its Python script; ``python_script`` restores it from
the blocks that the script is known to have.
"""

import io
import os
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

from customer import MODEL, Customer

CURL_START, CURL_END = "# Batch API walkthrough with curl", "The same with the OpenAI Python SDK"
PYTHON_START, PYTHON_END = '"""Batch API walkthrough with the official', "The native route"
DOCUMENTED_URL = "https://app.reliqua.ai/api/openai/v1"
DOCUMENTED_MODEL = "Qwen/Qwen3-8B"
DOCUMENTED_REVISION = "b968826d9c46dd6066d109eabc6255188de91218"
# Statements in a block, by how the line that opens it starts.
BLOCKS = {
    "def line(": 1,
    "with path.open": 1,
    "while batch.status": 3,
    "if batch.output_file_id": 2,
    "for row in map": 2,
    "if batch.error_file_id": 1,
    "except openai.APIStatusError": 2,
}
TRY_END = "except "
SECONDS = 120


def documents(shared: Path) -> str:
    """Return the text of the document that holds the walkthroughs."""
    return next((shared / "seeds").glob("000_*.txt")).read_text()


def curl_script(document: str) -> str:
    """Return the curl walkthrough as documented."""
    start = document.index(CURL_START)
    return document[start : document.index(CURL_END, start)] + "\n"


def python_script(document: str) -> str:
    """Return the SDK walkthrough as documented, indented again."""
    start = document.index(PYTHON_START)
    flat = document[start : document.index(PYTHON_END, start)]
    return "\n".join(_indented(list(_statements(flat + "\n"))))


def adapted(script: str, customer: Customer, pace: tuple[str, str]) -> str:
    """Return a script with the customer's address and model, and another pace of polling."""
    changes = {
        DOCUMENTED_URL: customer.network.base_url,
        DOCUMENTED_MODEL: MODEL,
        DOCUMENTED_REVISION: customer.network.revision,
        pace[0]: pace[1],
    }
    for documented, ours in changes.items():
        assert documented in script
        script = script.replace(documented, ours)
    return script


def run(command: list[str], customer: Customer, folder: Path) -> str:
    """Run a script as the customer, and return what it printed."""
    environment = os.environ | {"RELIQUARY_API_KEY": customer.network.api_key}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _statements(flat: str) -> Iterator[str]:
    """Yield the logical lines; what stands inside brackets needs no indentation."""
    lines, first = flat.splitlines(), 1
    for token in tokenize.generate_tokens(io.StringIO(flat).readline):
        if token.type == tokenize.NEWLINE:
            yield "\n".join(lines[first - 1 : token.end[0]])
            first = token.end[0] + 1


def _indented(statements: list[str]) -> Iterator[str]:
    open_blocks: list[int] = []
    for statement in statements:
        code = statement.lstrip("\n")
        code = "\n".join(row for row in code.splitlines() if not row.startswith("#"))
        while open_blocks and (open_blocks[-1] == 0 or code.startswith(TRY_END)):
            open_blocks.pop()
        first, *rest = code.splitlines()
        yield "\n".join(["    " * len(open_blocks) + first, *rest])
        if open_blocks:
            open_blocks[-1] -= 1
        if code == "try:":
            open_blocks.append(len(statements))
        opened = [size for start, size in BLOCKS.items() if code.startswith(start)]
        open_blocks.extend(opened)
