"""Making verdicts: the one form in which a validator hands in what it found."""

from bittensor_core import Keypair

from protocol.documents import (
    audited_statement,
    digest,
    verdict_root,
    verdict_statement,
    work_keys,
)
from protocol.keys import sign_statement
from protocol.messages import AuditLease, SampleVerdict, Stack, Verdicts


def signed_verdicts(
    keypair: Keypair,
    lease: AuditLease,
    rule: str,
    profile: str,
    stack: Stack,
    samples: list[SampleVerdict],
) -> Verdicts:
    """Return verdicts on a unit, with their root and the validator's signature.

    Args:
        rule: by which samples were judged.
        profile: digest of the calibration profile, in hex.
        stack: the validator's.
        samples: a verdict on each, in the unit's order.
    """
    lease_digest = digest(audited_statement(lease)).hex()
    root = verdict_root(work_keys(lease.work), samples)
    unit_id, attempt, result_root = lease.work.unit_id, lease.attempt, lease.result.root
    statement = verdict_statement(
        unit_id, attempt, lease_digest, rule, profile, stack, result_root, root
    )
    return Verdicts(
        unit_id=unit_id,
        attempt=attempt,
        lease_digest=lease_digest,
        result_root=result_root,
        rule=rule,
        profile=profile,
        stack=stack,
        samples=samples,
        root=root,
        signature=sign_statement(keypair, statement),
    )
