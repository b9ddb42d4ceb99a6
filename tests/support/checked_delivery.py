"""A delivery that was made whole, for tests to copy, change and check."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from small_model import MODEL, write_small_model

from gateway.intake.outcome import Intake
from protocol.documents import work_keys
from protocol.manifest import MANIFEST, Manifest, signed_manifest
from protocol.messages import Work
from scripts.bench.made_delivery import Model, make_delivery
from scripts.bench.made_receipts import Signers
from scripts.verify.check import check_files, verify
from scripts.verify.manifest import read_manifest
from scripts.verify.prompts import rendered
from scripts.verify.receipts import Expected
from scripts.verify.report import Report

REVISION = "ab" * 20
SIGNERS = Signers()
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
# One sample of line 1 is missing, and all of line 3.
MISSING = frozenset({(1, 0), (3, 0), (3, 1)})


def row(custom_id: str, text: str, **body: Any) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 16, "n": 2} | body
    return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body}


ROWS = [
    row("q0", "hello"),
    row("q1", "hello"),
    {"custom_id": "bad\u2028", "method": "GET"},
    row("q2", "world \U0001f600"),
    row("q3", "user"),
    row("q4", "hello"),
]


def drawn(work: Work) -> list[list[int]]:
    """Return legal ids made from the draw keys: some end by themselves, some at the limit."""
    limit, samples = work.sampling.max_tokens, []
    for key in work_keys(work):
        length = 1 + key[0] % (limit + 8)
        ids = [byte for byte in (key * 4)[1 : 1 + min(length, limit)]]
        samples.append(ids if length >= limit else [*ids, work.end_ids[0]])
    return samples


class Case:
    """A model, an input file and its delivery, which tests copy and change."""

    def __init__(self, folder: Path, rows: list[dict[str, Any]], generate: Any = drawn) -> None:
        self.folder = folder
        self.model = Model(MODEL, REVISION, folder / "model")
        write_small_model(self.model.folder)
        self.input = folder / "in.jsonl"
        self.input.write_text("".join(json.dumps(one) + "\n" for one in rows))
        self.delivery = folder / "delivery"
        self.deliver(self.input, self.delivery, generate)

    def deliver(self, ordered: Path, into: Path, generate: Any = drawn) -> Path:
        into.mkdir()
        make_delivery(into, ordered, self.model, generate, SIGNERS, unit_lines=2, missing=MISSING)
        return into

    def render(self, work: Path) -> Intake:
        statement = read_manifest(self.delivery, None).statement
        work.mkdir()
        return rendered(statement, self.input, self.model.folder, work)

    def verify(self, delivery: Path | None = None, **options: Any) -> Report:
        return verify(delivery or self.delivery, self.input, own_model=self.model.folder, **options)


def check(case: Case, intake: Intake, delivery: Path) -> Report:
    """Check a delivery of the case's input without rendering that anew."""
    manifest = read_manifest(delivery, None)
    expected = Expected(manifest.statement, manifest.gateway, None)
    return check_files(delivery, expected, intake, case.model.folder)


def signed_anew(delivery: Path, **changes: Any) -> None:
    """Sign the manifest over the files as they are, as a gateway that lies would."""
    manifest = json.loads((delivery / MANIFEST).read_bytes())
    statement = manifest["statement"] | changes
    for name in statement["files"]:
        content = (delivery / name).read_bytes()
        record = {"bytes": len(content), "sha256": sha256(content).hexdigest()}
        statement["files"][name] = record
    manifest["statement"] = statement
    whole = Manifest.model_validate(manifest)
    (delivery / MANIFEST).write_bytes(signed_manifest(SIGNERS.gateway, whole.statement).encoded())
