"""A native order from its quote to its verified delivery, with nodes that fake the model."""

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from fake_nodes import all_verified, fake_nodes, voided
from live_gateway import LiveGateway
from native_customer import NativeCustomer
from small_model import MODEL
from tokenizers import Tokenizer

from protocol.manifest import MANIFEST, Manifest, signed_manifest
from protocol.messages import AuditLease, LoadedModel, SampleVerdict
from scripts.fetch import fetch
from scripts.verify.check import verify
from scripts.verify.report import Report


class Journey:
    """A delivered order, fetched into a folder; tests copy and change it.

    Args:
        hub: the commit of the small model, and the folder of its files.
        folder: for input, nodes and delivery.
        lines: of the input.
        asked: further members of the quote's body.
    """

    def __init__(
        self,
        gateway: LiveGateway,
        hub: tuple[str, Path],
        folder: Path,
        lines: Sequence[dict[str, Any]],
        **asked: Any,
    ) -> None:
        self.gateway, self.model = gateway, hub[1]
        self.customer = NativeCustomer(gateway, "journey", hub[0])
        self.input = folder / "in.jsonl"
        self.input.write_bytes(b"\n".join(json.dumps(line).encode() for line in lines))
        content = self.input.read_bytes()
        files = gateway.client(self.customer.key).files
        file_id = files.create(file=("in.jsonl", content), purpose="batch").id
        self.quote = self.customer.quote(input_file_id=file_id, **asked)
        placed = self.customer.place(self.quote["id"])
        assert placed.status_code == 200, placed.text
        self.order: dict[str, Any] = placed.json()
        tokenizer = Tokenizer.from_file(str(self.model / "tokenizer.json"))
        self.answer = [
            *tokenizer.encode("hello world").ids,
            tokenizer.token_to_id("<|im_end|>"),
        ]
        self.early: list[dict[str, Any]] = []
        loaded = LoadedModel(model=MODEL, revision=hub[0])
        with fake_nodes(gateway, folder, loaded, self.answer, self.judge):
            self.order = self.customer.wait(self.order["id"])
        self.delivery = folder / "delivery"
        fetch(gateway.base_url, self.customer.key, self.order["batch_id"], self.delivery)

    def judge(self, lease: AuditLease) -> list[SampleVerdict]:
        """Void the first sample of all; look at the lines that are there before each verdict."""
        self.early.append(self.lines())
        verdicts = all_verified(lease)
        if len(self.early) == 1:
            verdicts[0] = voided(verdicts[0])
        return verdicts

    def lines(self, query: str = "") -> dict[str, Any]:
        return self.customer.get(f"/dataset-orders/{self.order['id']}/lines{query}")

    def verify(self, delivery: Path | None = None) -> Report:
        return verify(delivery or self.delivery, self.input, own_model=self.model)

    def changed(self, folder: Path, **changes: bytes | None) -> Path:
        """Return a copy with files changed or left out, which the gateway signs all the same."""
        folder.mkdir()
        manifest = Manifest.model_validate_json((self.delivery / MANIFEST).read_bytes())
        statement = manifest.statement.model_dump()
        for path in self.delivery.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        for name, content in changes.items():
            (folder / name).unlink(missing_ok=True)
            statement["files"].pop(name, None)
            if content is not None:
                (folder / name).write_bytes(content)
                record = {"bytes": len(content), "sha256": sha256(content).hexdigest()}
                statement["files"][name] = record
        lied = Manifest.model_validate(manifest.model_dump() | {"statement": statement}).statement
        signed = signed_manifest(self.gateway.state.keypair, lied)
        (folder / MANIFEST).write_bytes(signed.encoded())
        return folder
