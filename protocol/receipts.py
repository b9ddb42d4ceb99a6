"""Receipts: what shows one delivered sample to its customer, and can be checked without the model.

A receipt holds the draw's inputs, the token ids, and three signed statements with the sample's
place under each root: the gateway's lease, the miner's result and the validator's verdict.
"""

from collections.abc import Sequence
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
from protocol.keys import verify_statement
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
    profile: Hex32 | None
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


def fault(receipt: SampleReceipt) -> str | None:
    """Return the first thing in a receipt that does not hold; None where all of it does.

    Checked are the draw key, the three signatures, the paths to their roots, that the lease was for
    this miner, unit and attempt, and that miner and validator signed for this lease. Not checked is
    whether the ids follow from the model.
    """
    lease = receipt.lease.statement
    if lease.get("type") != LEASE_TYPE:
        return "the gateway's statement is not a lease"
    named = (lease.get("miner"), lease.get("unit_id"), lease.get("attempt"))
    if named != (receipt.miner, receipt.unit_id, receipt.attempt):
        return "the lease is for another miner, unit or attempt"
    if receipt.verdict.sample.outcome != "verified":
        return "the verdict is not 'verified'"
    return _draw_fault(receipt) or _signature_fault(receipt) or _path_fault(receipt)


def _draw_fault(receipt: SampleReceipt) -> str | None:
    lease = receipt.lease.statement
    try:
        prompt = prompt_digest(receipt.prompt_ids)
        key = draw_key(lease["revision"], lease["seed"], prompt, receipt.sample_index)
    except (AttributeError, KeyError, TypeError, ValueError):
        return "the lease names no usable revision and seed"
    return None if key.hex() == receipt.draw_key else "the draw key does not follow from its inputs"


def _signature_fault(receipt: SampleReceipt) -> str | None:
    unit_id, attempt = receipt.unit_id, receipt.attempt
    result, verdict, lease = receipt.result, receipt.verdict, receipt.lease
    try:
        lease_digest = digest(lease.statement).hex()
    except (TypeError, ValueError):
        # Without a canonical form, as with a float in it, nobody can have signed it.
        return f"the signature of the lease is not {lease.gateway}'s"
    signed = (
        ("lease", lease.gateway, lease.statement, lease.signature),
        (
            "result",
            receipt.miner,
            result_statement(unit_id, attempt, lease_digest, result.stack, result.root),
            result.signature,
        ),
        (
            "verdict",
            verdict.validator,
            verdict_statement(
                unit_id,
                attempt,
                lease_digest,
                verdict.rule,
                verdict.profile,
                verdict.stack,
                result.root,
                verdict.root,
            ),
            verdict.signature,
        ),
    )
    for name, hotkey, statement, signature in signed:
        if not verify_statement(hotkey, statement, signature):
            return f"the signature of the {name} is not {hotkey}'s"
    return None


def _path_fault(receipt: SampleReceipt) -> str | None:
    key = bytes.fromhex(receipt.draw_key)
    result, verdict, lease = receipt.result, receipt.verdict, receipt.lease
    places = (
        ("lease", key, lease.path, lease.statement.get("keys_root")),
        ("result", sample_leaf(key, receipt.token_ids), result.path, result.root),
        ("verdict", verdict_leaf(key, verdict.sample), verdict.path, verdict.root),
    )
    for name, leaf, path, root in places:
        if _root(leaf, result, path) != root:
            return f"the sample is not under the root of the {name}"
    return None


def _root(leaf: bytes, result: ResultPart, path: Sequence[str]) -> str | None:
    siblings = [bytes.fromhex(node) for node in path]
    try:
        return merkle.root_from_path(leaf, result.leaf_index, result.leaf_count, siblings).hex()
    except ValueError:
        return None
