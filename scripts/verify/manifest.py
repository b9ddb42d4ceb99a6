"""The manifest of a delivery: read strictly, its signature checked."""

import re
from pathlib import Path

from pydantic import ValidationError

from protocol.manifest import MANIFEST, MAX_MANIFEST_BYTES, Manifest, Statement
from scripts.verify.discrepancy import Discrepancy, difference, validation_fault
from scripts.verify.files import read_whole

_TYPE = re.compile(r'\."reliquary-manifest/[0-9]+"')


def read_manifest(folder: Path, gateway: str | None) -> Manifest:
    """Return the manifest of a delivery, signed by the gateway.

    Args:
        folder: the delivery.
        gateway: the hotkey that must have signed; None takes the one that the manifest names.

    Raises:
        Discrepancy: it is missing or no manifest, or another key signed it.
        Uncheckable: it cannot be read.
    """
    content = read_whole(folder, MANIFEST, MAX_MANIFEST_BYTES)
    try:
        manifest = Manifest.model_validate_json(content)
    except ValidationError as error:
        message, field = validation_fault(error)
        # Which of the types it was read as is no member.
        field = field and _TYPE.sub("", field)
        raise Discrepancy(MANIFEST, message, field=field) from None
    if gateway is not None and manifest.gateway != gateway:
        message = f"is {manifest.gateway}, expected was {gateway}"
        raise Discrepancy(MANIFEST, message, field="gateway")
    if not manifest.is_signed():
        message = f"is not {manifest.gateway}'s over the statement"
        raise Discrepancy(MANIFEST, message, field="signature")
    if manifest.encoded() != content:
        raise Discrepancy(MANIFEST, "is not in its canonical form")
    return manifest


def check_model(statement: Statement, ordered: str | None) -> None:
    """Check that the model is the one that was ordered, before any file of it is fetched.

    Args:
        statement: of the manifest.
        ordered: NAME or NAME@COMMIT; None takes any.

    Raises:
        Discrepancy: it is another model, or another commit.
    """
    name, _, revision = (ordered or statement.model).partition("@")
    due = {"model": name, "revision": revision or statement.revision}
    stated = {"model": statement.model, "revision": statement.revision}
    if (found := difference(due, stated)) is not None:
        raise Discrepancy(MANIFEST, found[1], field=f"statement.{found[0]}")
