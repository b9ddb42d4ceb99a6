"""Making a result: the one form in which a unit's tokens are handed in."""

from bittensor_core import Keypair

from protocol.documents import digest, lease_statement, result_root, result_statement, work_keys
from protocol.keys import sign_statement
from protocol.messages import Lease, Result, Stack, Work


def make_result(
    keypair: Keypair,
    work: Work,
    attempt: int,
    lease_digest: str,
    stack: Stack,
    samples: list[list[int]],
) -> Result:
    """Return the result of a unit, with its root over all samples and the miner's signature.

    Args:
        lease_digest: hex, of the statement that the unit was leased by.
        samples: the ids of each, in the unit's order.
    """
    root = result_root(work_keys(work), samples)
    statement = result_statement(work.unit_id, attempt, lease_digest, stack, root)
    return Result(
        unit_id=work.unit_id,
        attempt=attempt,
        lease_digest=lease_digest,
        stack=stack,
        samples=samples,
        root=root,
        signature=sign_statement(keypair, statement),
    )


def signed_result(keypair: Keypair, lease: Lease, stack: Stack, samples: list[list[int]]) -> Result:
    """Return ``make_result`` of what a miner was leased."""
    work = lease.work
    terms = lease_statement(
        lease.lease_id, lease.attempt, keypair.ss58_address, lease.issued_at, work
    )
    return make_result(keypair, work, lease.attempt, digest(terms).hex(), stack, samples)
