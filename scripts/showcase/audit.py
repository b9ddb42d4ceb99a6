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

from protocol.messages import SampleReference, Work
from protocol.receipts import SampleReceipt, fault
from protocol.repository import download
from protocol.sampling import Sampling
from scripts.showcase.tables import Sample
from validator.offline import audit
from validator.transformers_forward import load

SAMPLES_AT_ONCE = 256


def main() -> None:
    """Audit the files named on the command line and print samples and failures."""
    receipts_path, output_path = map(Path, sys.argv[1:3])
    lines = receipts_path.read_bytes().splitlines()
    receipts = [SampleReceipt.model_validate_json(line) for line in lines]
    output = [json.loads(line) for line in output_path.read_bytes().splitlines()]
    failures: list[str] = []
    if receipts:
        statement = receipts[0].lease.statement
        folder = download(statement["model"], statement["revision"], weights=True)
        failures = failures_of(receipts, output, folder)
    samples = [
        Sample(receipt.custom_id, receipt.choice, receipt.miner, len(receipt.token_ids))
        for receipt in receipts
    ]
    print(json.dumps({"samples": [asdict(sample) for sample in samples], "failures": failures}))


def failures_of(
    receipts: Sequence[SampleReceipt], output: Sequence[Mapping[str, Any]], folder: Path
) -> list[str]:
    """Return everything that does not hold of a delivery, a line each; empty where all does.

    Args:
        receipts: of all delivered samples, of one order.
        output: the rows of the output file.
        folder: the files of the model at the order's commit.
    """
    failures = [
        f"{_name(receipt)}: {reason}"
        for receipt in receipts
        if (reason := fault(receipt)) is not None
    ]
    forward = load(folder)
    for start in range(0, len(receipts), SAMPLES_AT_ONCE):
        part = receipts[start : start + SAMPLES_AT_ONCE]
        verdicts = audit(work_of(part), [receipt.token_ids for receipt in part], forward)
        failures += [
            f"{_name(receipt)}: {verdict.outcome}: {verdict.reason}"
            for receipt, verdict in zip(part, verdicts, strict=True)
            if verdict.outcome != "verified"
        ]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return failures + _text_failures(receipts, output, tokenizer)


def work_of(receipts: Sequence[SampleReceipt]) -> Work:
    """Return the work that receipts of one order, at most 4,096, are the answer to.

    Raises:
        ValueError: the receipts are of different orders.
    """
    statement = receipts[0].lease.statement
    shared = ("model", "revision", "seed", "sampling", "vocabulary_size", "end_ids")
    for receipt in receipts:
        if any(receipt.lease.statement[name] != statement[name] for name in shared):
            raise ValueError(f"{_name(receipt)} is of another order")
    sampling = {name: json.loads(value) for name, value in statement["sampling"].items()}
    return Work(
        unit_id=receipts[0].unit_id,
        model=statement["model"],
        revision=statement["revision"],
        seed=statement["seed"],
        sampling=Sampling(**sampling),
        vocabulary_size=statement["vocabulary_size"],
        end_ids=statement["end_ids"],
        prompts=[receipt.prompt_ids for receipt in receipts],
        samples=[
            SampleReference(prompt=place, sample_index=receipt.sample_index)
            for place, receipt in enumerate(receipts)
        ],
    )


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


def _name(receipt: SampleReceipt) -> str:
    return f"{receipt.custom_id} #{receipt.choice}"


if __name__ == "__main__":
    main()
