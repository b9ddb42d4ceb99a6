"""The audit of a delivery on the customer's own copy of the model; needs torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.manifest import RECEIPTS, NativeStatement, Statement
from protocol.repository import RepositoryError, download
from scripts.verify.discrepancy import Discrepancy, Uncheckable, shown_text

if TYPE_CHECKING:
    from validator.receipts import Finding

# How the reason of a sample begins that could not be judged here, which blames nobody.
OWN_FAILURE = "inconclusive"


def audit_again(delivery: Path, statement: Statement, own_model: Path | None) -> int:
    """Draw every delivered token again and return their number.

    Args:
        delivery: a delivery whose receipts hold.
        statement: of its manifest.
        own_model: the customer's own copy of the model; None fetches the pinned commit.

    Raises:
        Discrepancy: a sample does not pass the audit.
        Uncheckable: the model cannot be had or loaded, or torch is not installed.
    """
    try:
        from validator.forward import ForwardFailed, UnsupportedModel
        from validator.receipts import audit_receipts
        from validator.transformers_forward import load
    except ModuleNotFoundError as error:
        raise Uncheckable(
            f"--audit needs {error.name}, which is not installed; "
            "install the validator's part: pip install '.[validator]'"
        ) from error
    try:
        folder = own_model or download(statement.model, statement.revision, weights=True)
        forward = load(folder)
    except (RepositoryError, ForwardFailed, UnsupportedModel, OSError) as error:
        message = f"{statement.model} at {statement.revision}: {shown_text(str(error))}"
        raise Uncheckable(message) from error
    tokens = 0
    for name in receipts_of(statement):
        found = audit_receipts(delivery / name, forward)
        _check(name, found.findings)
        tokens += found.tokens
    return tokens


def receipts_of(statement: Statement) -> list[str]:
    """Return the names of a delivery's files of receipts, in order."""
    if isinstance(statement, NativeStatement):
        return [name for name in sorted(statement.files) if name.startswith("receipts-")]
    return [RECEIPTS]


def _check(name: str, findings: "Sequence[Finding]") -> None:
    against = [one for one in findings if not one.reason.startswith(OWN_FAILURE)]
    if against:
        first = min(against, key=lambda finding: finding.line)
        more = f" (and {len(against) - 1} further samples)" if len(against) > 1 else ""
        message = f"{shown_text(first.reason)}{more}"
        custom_id, _, _ = first.sample.rpartition(" #")
        raise Discrepancy(name, message, line=first.line, custom_id=custom_id, field="token_ids")
    if findings:
        raise Uncheckable(f"the audit failed on this machine: {findings[0].reason}")
