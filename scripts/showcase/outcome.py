"""What came of the demo: the second audit, the tables, and whether all conditions hold."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from scripts.showcase.customer import Delivery, rows_of
from scripts.showcase.tables import Sample, answers_table, show_refused
from scripts.up.follow import last_lines
from scripts.up.network import Network

AUDIT_MODULE = "scripts.showcase.audit"
MISSING = "missing_samples"
SHOWN_FAILURES = 5


@dataclass(frozen=True)
class Audit:
    """What the second audit found, as ``audit.py`` prints it."""

    samples: list[Sample]
    failures: list[str]


def audit_again(delivery: Delivery, receipts: bytes, network: Network, out: Path) -> Audit:
    """Audit a delivery in a process of its own and return what it found.

    Args:
        delivery: the ended batch.
        receipts: of all its samples, JSONL; kept in ``out``.
        network: whose hub has the model.
        out: the folder of the delivery.
    """
    if delivery.output is None:
        return Audit([], ["there is no output file"])
    path = out / "receipts.jsonl"
    path.write_bytes(receipts)
    environment = {**os.environ, **network.environment}
    log = network.layout.logs / "audit.log"
    with log.open("wb") as errors:
        done = subprocess.run(
            [sys.executable, "-P", "-m", AUDIT_MODULE, str(path), str(delivery.output)],
            stdout=subprocess.PIPE,
            stderr=errors,
            env={name: value for name, value in environment.items() if value is not None},
        )
    if done.returncode:
        last = " ".join(last_lines(log, 1))
        return Audit([], [f"the audit ended with status {done.returncode}: {last}"])
    found = json.loads(done.stdout)
    return Audit([Sample(**sample) for sample in found["samples"]], found["failures"])


def show_delivery(
    console: Console, delivery: Delivery, audit: Audit, names: Mapping[str, str]
) -> None:
    """Print the answers with their makers, and what was not delivered.

    Args:
        names: the miners' names by hotkey.
    """
    console.print(answers_table(rows_of(delivery.output), audit.samples, names))
    errors = rows_of(delivery.errors)
    if errors:
        console.print(f"Not delivered ({len(errors)} lines):")
        show_refused(console, errors)


def judge(console: Console, delivery: Delivery, audit: Audit, cheat: tuple[str, bool]) -> bool:
    """Print each condition with its outcome and say whether all hold.

    Args:
        cheat: the condition on the cheat, in words, and whether it holds.
    """
    missing = [
        row["custom_id"] for row in rows_of(delivery.errors) if row["error"]["code"] == MISSING
    ]
    tokens = sum(sample.tokens for sample in audit.samples)
    conditions = (
        (
            f"every good line was delivered (the batch is {delivery.batch.status})",
            delivery.batch.status == "completed" and not missing,
            ", ".join(missing),
        ),
        (
            f"all {len(audit.samples)} delivered samples, {tokens} tokens, pass a fresh audit",
            bool(audit.samples) and not audit.failures,
            "; ".join(audit.failures[:SHOWN_FAILURES]),
        ),
        (*cheat, ""),
    )
    for condition, holds, detail in conditions:
        mark = "[green]yes[/]" if holds else "[red]NO[/]"
        console.print(f"{mark}  {escape(condition)} {escape(detail)}".rstrip())
    return all(holds for _, holds, _ in conditions)
