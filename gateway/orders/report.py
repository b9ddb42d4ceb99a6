"""``report.json`` of a native delivery: what an order came to, in tokens, money and audits. Pure.

All of it but the number of void samples follows from the manifest, the receipts and the price.
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from gateway.catalog.price import Price
from gateway.ledger.money import usd_of
from gateway.orders.delivery_lines import Line, Sample
from protocol.manifest import Counts

TYPE = "reliquary-report/1"


class Audited(Sample, Protocol):
    """The part of a delivered sample, or of its receipt, that is counted."""

    @property
    def miner(self) -> str:
        """Who generated it."""
        ...

    @property
    def verdict(self) -> Any:
        """The verdict with its ``validator``, ``rule`` and ``sample``."""
        ...


class AuditTally:
    """Adds up who made and who judged the delivered samples."""

    def __init__(self) -> None:
        self._samples = Counter[str]()
        self._tokens = Counter[str]()
        self._validators = Counter[str]()
        self._rules = Counter[str]()
        self._mismatches = 0

    def add(self, line: Line[Audited]) -> None:
        """Count the delivered samples of a line."""
        for sample in line.samples.values():
            self._samples[sample.miner] += 1
            self._tokens[sample.miner] += len(sample.token_ids)
            self._validators[sample.verdict.validator] += 1
            self._rules[sample.verdict.rule] += 1
            self._mismatches += sample.verdict.sample.mismatches

    def figures(self, samples_void: int) -> dict[str, Any]:
        """Return the report's ``audit``.

        Args:
            samples_void: samples that the audit refused, and that were generated again.
        """
        return {
            "samples_void": samples_void,
            "mismatches": self._mismatches,
            "miners": {
                miner: {"samples": samples, "tokens": self._tokens[miner]}
                for miner, samples in self._samples.items()
            },
            "validators": dict(self._validators),
            "rules": dict(self._rules),
        }


def report(
    *,
    order_id: str,
    status: str,
    model: str,
    revision: str,
    counts: Counts,
    price: Price | None,
    audit: Mapping[str, Any],
    evaluation: Mapping[str, Any] | None,
) -> bytes:
    """Return ``report.json``.

    Args:
        price: what the order was quoted; None where it costs nothing.
        audit: ``AuditTally.figures``.
        evaluation: what its grading came to; None where it has no grader.
    """
    value = {
        "type": TYPE,
        "order_id": order_id,
        "status": status,
        "model": model,
        "revision": revision,
        "counts": counts.model_dump(),
        "money": None if price is None else money(price, counts.completion_tokens),
        "audit": audit,
        "evaluation": evaluation,
    }
    text = json.dumps(value, ensure_ascii=True, indent=2, sort_keys=True)
    return text.encode("ascii") + b"\n"


def money(price: Price, completion_tokens: int) -> dict[str, Any]:
    """Return the report's ``money``: what was quoted, reserved, charged and given back."""
    charged = price.charge(completion_tokens)
    return {
        "price": price.model_dump(),
        "reserved_usd": usd_of(price.reserved),
        "charged_usd": usd_of(charged),
        "refunded_usd": usd_of(price.reserved - charged),
    }
