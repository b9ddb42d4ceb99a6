"""Receipts: what shows one delivered sample to its customer, and can be checked without the model.

A receipt holds the draw's inputs, the token ids, and three signed statements with the sample's
place under each root: the gateway's lease, the miner's result and the validator's verdict.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field

from protocol import merkle
from protocol.documents import (
    LEASE_TYPE,
    digest,
    result_statement,
    sample_leaf,
    verdict_leaf,
    verdict_statement,
)
from protocol.draw.key import draw_key, prompt_digest
from protocol.keys import verify_digest
from protocol.messages import (
    Count,
    Hex32,
    Hotkey,
    Identifier,
    Message,
    SampleVerdict,
    ShortText,
    Signature,
    Stack,
    TokenId,
)

Path = Annotated[list[Hex32], Field(max_length=12)]


class ResultPart(Message):
    """The miner's statement; the sample is leaf ``leaf_index`` of ``leaf_count`` of every root."""

    stack: Stack
    root: Hex32
    signature: Signature
    leaf_index: Count
    leaf_count: Count
    path: Path


class VerdictPart(Message):
    """The validator's statement with its verdict on this sample."""

    validator: Hotkey
    sample: SampleVerdict
    rule: ShortText
    profile: Hex32
    stack: Stack
    root: Hex32
    signature: Signature
    path: Path


class LeasePart(Message):
    """The gateway's statement from before generation, with the draw key's path to its root."""

    statement: dict[str, Any]
    gateway: Hotkey
    signature: Signature
    path: Path


class SampleReceipt(Message):
    """One line of a delivery's receipts: one verified sample.

    ``prompt_index`` counts the usable lines from 0, ``choice`` the samples of the line.
    """

    custom_id: str
    prompt_index: Count
    choice: Count
    prompt_ids: list[TokenId]
    sample_index: Count
    draw_key: Hex32
    token_ids: list[TokenId]
    unit_id: Identifier
    attempt: Count
    miner: Hotkey
    result: ResultPart
    verdict: VerdictPart
    lease: LeasePart

    def encoded(self) -> bytes:
        """Return the receipt's line: its JSON without white space in ASCII, and a line feed.

        Raises:
            ValueError: the lease's statement holds what has no JSON.
        """
        return self.model_dump_json(ensure_ascii=True).encode("ascii") + b"\n"


@dataclass(frozen=True, slots=True)
class Fault:
    """What does not hold in a receipt: the member, with dots, and why."""

    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}"


def fault(receipt: SampleReceipt) -> Fault | None:
    """Return the first thing in a receipt that does not hold; None where all of it does.

    Checked are the draw key, the three signatures, the paths to their roots, that the lease was for
    this miner, unit and attempt, and that miner and validator signed for this lease. Not checked is
    whether the ids follow from the model.
    """
    lease = receipt.lease.statement
    if lease.get("type") != LEASE_TYPE:
        return Fault("lease.statement.type", f"is not {LEASE_TYPE}")
    for name in ("miner", "unit_id", "attempt"):
        if lease.get(name) != getattr(receipt, name):
            return Fault(name, "is not the one that the lease was for")
    if receipt.verdict.sample.outcome != "verified":
        return Fault("verdict.sample.outcome", "is not 'verified'")
    return _draw_fault(receipt) or _signature_fault(receipt) or _path_fault(receipt)


def _draw_fault(receipt: SampleReceipt) -> Fault | None:
    lease = receipt.lease.statement
    try:
        prompt = prompt_digest(receipt.prompt_ids)
        key = draw_key(lease["revision"], lease["seed"], prompt, receipt.sample_index)
    except (AttributeError, KeyError, TypeError, ValueError):
        return Fault("lease.statement", "names no usable revision and seed")
    if key.hex() != receipt.draw_key:
        return Fault("draw_key", "does not follow from prompt, seed, revision and sample index")
    return None


def _signature_fault(receipt: SampleReceipt) -> Fault | None:
    unit_id, attempt = receipt.unit_id, receipt.attempt
    result, verdict, lease = receipt.result, receipt.verdict, receipt.lease
    try:
        lease_digest = digest(lease.statement)
    except (TypeError, ValueError):
        return Fault("lease.statement", "has no canonical form, so nobody can have signed it")
    result_digest = digest(
        result_statement(unit_id, attempt, lease_digest.hex(), result.stack, result.root)
    )
    verdict_digest = digest(
        verdict_statement(
            unit_id,
            attempt,
            lease_digest.hex(),
            verdict.rule,
            verdict.profile,
            verdict.stack,
            result.root,
            verdict.root,
        )
    )
    signed = (
        ("lease", lease.gateway, lease_digest, lease.signature),
        ("result", receipt.miner, result_digest, result.signature),
        ("verdict", verdict.validator, verdict_digest, verdict.signature),
    )
    for name, hotkey, signed_digest, signature in signed:
        if not _is_signed(hotkey, signed_digest, signature):
            return Fault(f"{name}.signature", f"is not {hotkey}'s over the statement")
    return None


@lru_cache(maxsize=1024)
def _is_signed(hotkey: str, signed_digest: bytes, signature: str) -> bool:
    """Check a signature once for all samples of a unit, which share it."""
    return verify_digest(hotkey, signed_digest, signature)


def _path_fault(receipt: SampleReceipt) -> Fault | None:
    key = bytes.fromhex(receipt.draw_key)
    result, verdict, lease = receipt.result, receipt.verdict, receipt.lease
    places = (
        ("lease", key, lease.path, lease.statement.get("keys_root")),
        ("result", sample_leaf(key, receipt.token_ids), result.path, result.root),
        ("verdict", verdict_leaf(key, verdict.sample), verdict.path, verdict.root),
    )
    for name, leaf, path, root in places:
        if _root(leaf, result, path) != root:
            return Fault(f"{name}.path", f"does not lead from the sample to the {name}'s root")
    return None


def _root(leaf: bytes, result: ResultPart, path: Sequence[str]) -> str | None:
    siblings = [bytes.fromhex(node) for node in path]
    try:
        return merkle.root_from_path(leaf, result.leaf_index, result.leaf_count, siblings).hex()
    except ValueError:
        return None
