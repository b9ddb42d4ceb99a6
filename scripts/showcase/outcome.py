"""What came of the demo: the second audit, the tables, and whether all conditions hold."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from protocol.keys import load_hotkey
from protocol.manifest import ERRORS, OUTPUT, RECEIPTS
from scripts.showcase.customer import Delivery
from scripts.showcase.tables import Sample, answers_table, show_refused
from scripts.up.follow import last_lines
from scripts.up.network import Network

COMMAND_LINE = "scripts.cli"
VERDICT = "verify.txt"
MISSING = "missing_samples"


@dataclass(frozen=True)
class Audit:
    """What ``reliquary verify --audit`` said of a delivery: whether it holds, and its last line."""

    samples: list[Sample]
    holds: bool
    detail: str


def audit_again(delivery: Delivery, file: Path, network: Network) -> Audit:
    """Check a delivery as its customer would, in a process of its own that meets no gateway.

    What it prints is kept in the delivery's folder.

    Args:
        delivery: the ended batch.
        file: that was ordered.
        network: whose hub has the model, and whose hotkeys must have signed.
    """
    if delivery.folder is None:
        return Audit([], False, "nothing was delivered")
    environment = {**os.environ, **network.environment}
    gateway = load_hotkey(network.layout.gateway / "hotkey.json")
    _, validators = network.plan.node_names()
    options = ["--audit", "--gateway-hotkey", gateway.ss58_address]
    for name in validators:
        options += ["--validator-hotkeys", network.hotkey(name)]
    said = delivery.folder / VERDICT
    log = network.layout.logs / "audit.log"
    with said.open("wb") as output, log.open("wb") as errors:
        done = subprocess.run(
            [
                *(sys.executable, "-P", "-m", COMMAND_LINE),
                *("verify", str(delivery.folder), "--input", str(file), *options),
            ],
            stdout=output,
            stderr=errors,
            env={name: value for name, value in environment.items() if value is not None},
        )
    last = " ".join(last_lines(said if done.returncode == 1 else log, 1))
    return Audit(_samples(delivery), done.returncode == 0, last if done.returncode else "")


def _samples(delivery: Delivery) -> list[Sample]:
    return [
        Sample(row["custom_id"], row["choice"], row["miner"], len(row["token_ids"]))
        for row in delivery.rows(RECEIPTS)
    ]


def show_delivery(
    console: Console, delivery: Delivery, audit: Audit, names: Mapping[str, str]
) -> None:
    """Print the answers with their makers, and what was not delivered.

    Args:
        names: the miners' names by hotkey.
    """
    console.print(answers_table(delivery.rows(OUTPUT), audit.samples, names))
    errors = delivery.rows(ERRORS)
    if errors:
        console.print(f"Not delivered ({len(errors)} lines):")
        show_refused(console, errors)


def judge(console: Console, delivery: Delivery, audit: Audit, cheat: tuple[str, bool]) -> bool:
    """Print each condition with its outcome and say whether all hold.

    Args:
        cheat: the condition on the cheat, in words, and whether it holds.
    """
    missing = [row["custom_id"] for row in delivery.rows(ERRORS) if row["error"]["code"] == MISSING]
    tokens = sum(sample.tokens for sample in audit.samples)
    conditions = (
        (
            f"every good line was delivered (the batch is {delivery.batch.status})",
            delivery.batch.status == "completed" and not missing,
            ", ".join(missing),
        ),
        (
            f"all {len(audit.samples)} delivered samples, {tokens} tokens, pass a fresh audit",
            bool(audit.samples) and audit.holds,
            audit.detail,
        ),
        (*cheat, ""),
    )
    for condition, holds, detail in conditions:
        mark = "[green]yes[/]" if holds else "[red]NO[/]"
        console.print(f"{mark}  {escape(condition)} {escape(detail)}".rstrip())
    return all(holds for _, holds, _ in conditions)
