"""Whether a result is the miner's own: its signature, and the root over what is to be audited."""

from protocol.documents import (
    audited_statement,
    digest,
    result_root,
    statement_of_result,
    work_keys,
)
from protocol.keys import verify_statement
from protocol.messages import AuditLease

# The gateway takes no result that is not the miner's own, so this is never held against a miner.
SIGNATURE = "the miner did not sign this result for this lease"


def unproven(lease: AuditLease) -> bool:
    """Tell whether the lease's samples cannot be laid to its miner.

    The miner must have signed this unit and attempt, the very lease that the work was checked
    against, and a root that these very ids lead to.
    """
    result = lease.result
    if (result.unit_id, result.attempt) != (lease.work.unit_id, lease.attempt):
        return True
    if result.lease_digest != digest(audited_statement(lease)).hex():
        return True
    if not verify_statement(lease.miner, statement_of_result(result), result.signature):
        return True
    if len(result.samples) != len(lease.work.samples):
        # No root covers another number of samples; the structure's rules name this case.
        return False
    return result_root(work_keys(lease.work), result.samples) != result.root
