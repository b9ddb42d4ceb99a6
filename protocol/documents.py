"""Signed documents: statements of gateway, miner and validator that third parties can check.

A document is signed over ``SHA-256(canonical_json(statement))``, where the statement's ``type``
names its kind and version, so a signature over one kind never passes for another. What a root
covers is a Merkle tree (``merkle.py``) over one leaf a sample, in the unit's order.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from protocol import merkle
from protocol.canonical import canonical_json
from protocol.draw.key import draw_key, prompt_digest
from protocol.messages import AuditLease, Result, SampleVerdict, Stack, Verdicts, Work

LEASE_TYPE = "reliquary-lease/1"


def digest(statement: dict[str, Any]) -> bytes:
    """Return the 32 bytes that are signed for ``statement``."""
    return sha256(canonical_json(statement)).digest()


def work_keys(work: Work) -> list[bytes]:
    """Return the 32-byte draw key of every sample of ``work``, in order."""
    digests = [prompt_digest(prompt) for prompt in work.prompts]
    return [
        draw_key(work.revision, work.seed, digests[sample.prompt], sample.sample_index)
        for sample in work.samples
    ]


def sample_leaf(key: bytes, ids: Sequence[int]) -> bytes:
    """Return the leaf content of a sample: its draw key, then its ids as u32 little-endian.

    The key binds prompt, seed, revision and sample index, so tokens cannot be moved elsewhere.
    """
    return key + np.asarray(ids, dtype="<u4").tobytes()


def result_root(keys: Sequence[bytes], samples: Sequence[Sequence[int]]) -> str:
    """Return the root (hex) over all samples of a result.

    Raises:
        ValueError: keys and samples differ in number.
    """
    leaves = [sample_leaf(key, ids) for key, ids in zip(keys, samples, strict=True)]
    return merkle.root(leaves).hex()


def verdict_leaf(key: bytes, verdict: SampleVerdict) -> bytes:
    """Return the leaf content of a sample's verdict: its draw key, then the verdict's JSON."""
    return key + canonical_json(verdict.model_dump(mode="json"))


def verdict_root(keys: Sequence[bytes], verdicts: Sequence[SampleVerdict]) -> str:
    """Return the root (hex) over all verdicts of a unit."""
    leaves = [verdict_leaf(key, verdict) for key, verdict in zip(keys, verdicts, strict=True)]
    return merkle.root(leaves).hex()


def lease_statement(
    lease_id: str, attempt: int, hotkey: str, issued_at: int, work: Work
) -> dict[str, Any]:
    """Return what the gateway commits to before generation: seed, prompts, sampling and miner.

    The sampling's numbers are strings in their shortest decimal form.
    """
    sampling = {name: repr(value) for name, value in work.sampling.model_dump().items()}
    return {
        "type": LEASE_TYPE,
        "lease_id": lease_id,
        "unit_id": work.unit_id,
        "attempt": attempt,
        "miner": hotkey,
        "issued_at": issued_at,
        "model": work.model,
        "revision": work.revision,
        "seed": work.seed,
        "sampling": sampling,
        "vocabulary_size": work.vocabulary_size,
        "end_ids": list(work.end_ids),
        "keys_root": merkle.root(work_keys(work)).hex(),
    }


def audited_statement(lease: AuditLease) -> dict[str, Any]:
    """Return the lease statement that ``lease.record.signature`` must be over."""
    record = lease.record
    return lease_statement(
        record.lease_id, lease.attempt, lease.miner, record.issued_at, lease.work
    )


def result_statement(
    unit_id: str, attempt: int, lease_digest: str, stack: Stack, root: str
) -> dict[str, Any]:
    """Return what a miner signs for a unit's result.

    Args:
        lease_digest: of the lease statement, in hex.
    """
    return {
        "type": "reliquary-result/2",
        "unit_id": unit_id,
        "attempt": attempt,
        "lease_digest": lease_digest,
        "stack": stack.model_dump(),
        "root": root,
    }


def verdict_statement(
    unit_id: str,
    attempt: int,
    lease_digest: str,
    rule: str,
    profile: str,
    stack: Stack,
    result_root: str,
    root: str,
) -> dict[str, Any]:
    """Return what a validator signs for a unit's verdicts.

    Args:
        lease_digest: of the lease statement, in hex.
        profile: digest of the calibration profile, in hex.
    """
    return {
        "type": "reliquary-verdict/2",
        "unit_id": unit_id,
        "attempt": attempt,
        "lease_digest": lease_digest,
        "rule": rule,
        "profile": profile,
        "stack": stack.model_dump(),
        "result_root": result_root,
        "root": root,
    }


def statement_of_result(result: Result) -> dict[str, Any]:
    """Return the statement that ``result.signature`` must be over."""
    return result_statement(
        result.unit_id, result.attempt, result.lease_digest, result.stack, result.root
    )


def statement_of_verdicts(verdicts: Verdicts) -> dict[str, Any]:
    """Return the statement that ``verdicts.signature`` must be over."""
    return verdict_statement(
        verdicts.unit_id,
        verdicts.attempt,
        verdicts.lease_digest,
        verdicts.rule,
        verdicts.profile,
        verdicts.stack,
        verdicts.result_root,
        verdicts.root,
    )
