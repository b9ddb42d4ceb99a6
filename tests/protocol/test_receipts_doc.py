"""``docs/receipts.md`` shows a real delivery: its documents parse, and together they verify."""

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from bittensor_core import Keypair

from protocol.manifest import FILES, MANIFEST, REPORT, Counts, Manifest, ManifestStatement
from protocol.receipts import SampleReceipt, fault
from scripts.tiny_model import WEIGHTS
from scripts.verify.check import verify

DOCUMENT = (Path(__file__).parents[2] / "docs" / "receipts.md").read_text(encoding="utf-8")
BLOCKS = {
    name: f"{content}\n".encode("ascii")
    for name, content in re.findall(r"^```jsonl? ([^\n]+)\n(.*?)\n```$", DOCUMENT, re.M | re.S)
}
RECEIPT = SampleReceipt.model_validate_json(BLOCKS["receipts.jsonl"])
MADE = Manifest.model_validate_json(BLOCKS[MANIFEST])


def named_in(section: str) -> set[str]:
    """Return the members in the first column of a section's table."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", DOCUMENT, re.M | re.S)
    rows = re.findall(r"^\| (`[^|]*`) \|", text, re.M)
    return {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}


def test_the_documents_are_in_their_canonical_form() -> None:
    assert set(BLOCKS) == {"input", MANIFEST, REPORT, *FILES}
    assert RECEIPT.encoded() == BLOCKS["receipts.jsonl"]
    assert MADE.encoded() == BLOCKS[MANIFEST]


def test_the_tables_name_every_member() -> None:
    assert named_in("4. Receipts") == set(SampleReceipt.model_fields)
    assert named_in("5. The manifest") == set(ManifestStatement.model_fields)
    assert all(f"`{name}`" in DOCUMENT for name in Counts.model_fields)


def test_the_signatures_are_of_the_development_keys() -> None:
    gateway, miner, validator = (
        Keypair.create_from_uri(f"//{name}").ss58_address
        for name in ("gateway", "miner", "validator")
    )
    assert (MADE.gateway, RECEIPT.lease.gateway) == (gateway, gateway)
    assert (RECEIPT.miner, RECEIPT.verdict.validator) == (miner, validator)
    assert MADE.is_signed()
    assert fault(RECEIPT) is None


@pytest.mark.parametrize(
    ("name", "kind", "number", "member"),
    [
        ("output.jsonl", "line", 0, ("id",)),
        ("output.jsonl", "request", 0, ("response", "request_id")),
        ("output.jsonl", "completion", 0, ("response", "body", "id")),
        ("errors.jsonl", "refused", 2, ("id",)),
    ],
)
def test_ids_are_made_as_described(
    name: str, kind: str, number: int, member: tuple[str, ...]
) -> None:
    value: Any = json.loads(BLOCKS[name].splitlines()[0])
    for step in member:
        value = value[step]
    digest = sha256(f"{MADE.statement.order_id}/{kind}/{number}".encode()).hexdigest()
    assert re.split("[_-]", value)[-1] == digest[:32]


def test_the_example_verifies(tmp_path: Path) -> None:
    for name in (MANIFEST, REPORT, *FILES):
        (tmp_path / name).write_bytes(BLOCKS[name])
    (tmp_path / "in.jsonl").write_bytes(BLOCKS["input"])
    report = verify(tmp_path, tmp_path / "in.jsonl", own_model=WEIGHTS)
    assert (report.samples, report.short, report.same_input) == (1, [("tale", 1)], True)
