"""The second audit, in a process of its own: ``python -m scripts.showcase.audit RECEIPTS OUTPUT``.

Knows nothing of the gateway: it checks every receipt, draws every token again from the pinned
model, and holds the text of the output file to the audited ids. Prints one JSON object.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from protocol.receipts import SampleReceipt
from protocol.repository import download
from scripts.showcase.tables import Sample
from validator.receipts import audit_receipts
from validator.transformers_forward import load


def main() -> None:
    """Audit the files named on the command line and print samples and failures."""
    receipts_path, output_path = map(Path, sys.argv[1:3])
    receipts = read_receipts(receipts_path)
    output = [json.loads(line) for line in output_path.read_bytes().splitlines()]
    failures: list[str] = []
    if receipts:
        statement = receipts[0].lease.statement
        folder = download(statement["model"], statement["revision"], weights=True)
        failures = failures_of(receipts_path, output, folder)
    samples = [
        Sample(receipt.custom_id, receipt.choice, receipt.miner, len(receipt.token_ids))
        for receipt in receipts
    ]
    print(json.dumps({"samples": [asdict(sample) for sample in samples], "failures": failures}))


def read_receipts(path: Path) -> list[SampleReceipt]:
    """Return the receipts in a JSONL file, all of which must be well-formed."""
    return [SampleReceipt.model_validate_json(line) for line in path.read_bytes().splitlines()]


def failures_of(path: Path, output: Sequence[Mapping[str, Any]], folder: Path) -> list[str]:
    """Return everything that does not hold of a delivery, a line each; empty where all does.

    Args:
        path: the receipts of all delivered samples of one order.
        output: the rows of the output file.
        folder: the files of the model at the order's commit.
    """
    found = audit_receipts(path, load(folder)).findings
    failures = [f"{finding.sample}: {finding.reason}" for finding in found]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return failures + _text_failures(read_receipts(path), output, tokenizer)


def _text_failures(
    receipts: Sequence[SampleReceipt], output: Sequence[Mapping[str, Any]], tokenizer: Tokenizer
) -> list[str]:
    """Return the choices of the output that are not exactly the text of an audited sample."""
    texts = {
        (receipt.custom_id, receipt.choice): tokenizer.decode(receipt.token_ids)
        for receipt in receipts
    }
    delivered = {
        (line["custom_id"], choice["index"]): _text(choice)
        for line in output
        for choice in line["response"]["body"]["choices"]
    }
    return [
        f"{custom_id} #{choice}: the output is not the audited sample's text"
        for custom_id, choice in sorted(texts.keys() | delivered.keys())
        if texts.get((custom_id, choice)) != delivered.get((custom_id, choice))
    ]


def _text(choice: Mapping[str, Any]) -> str:
    return choice["message"]["content"] if "message" in choice else choice["text"]


if __name__ == "__main__":
    main()
