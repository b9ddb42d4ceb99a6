"""The form of model names and commits in a customer's request."""

import re

from gateway.errors import GatewayError

_PART = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}"
_MODEL = re.compile(rf"{_PART}/{_PART}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHOWN = 60


def check_model_name(name: str | None, *, param: str) -> str:
    """The name of the model of a batch.

    Args:
        name: from ``metadata.model`` or the file's first line; None where neither has one.
        param: the field at fault, for the error.

    Raises:
        GatewayError: 400 ``invalid_model``.
    """
    if name is None:
        raise GatewayError(
            400,
            "invalid_model",
            "No model: set body.model on the first line of the file, or metadata.model, to a "
            "Hugging Face repository in org/name form. A file has one whole JSON object a line.",
            param,
        )
    if not _MODEL.fullmatch(name):
        raise GatewayError(
            400,
            "invalid_model",
            "The model must be a Hugging Face repository in org/name form; "
            f"found {name[:_SHOWN]!r}.",
            param,
        )
    return name


def check_commit(revision: str, *, param: str) -> str:
    """A pinned revision in its full form.

    Raises:
        GatewayError: 400 ``invalid_revision``.
    """
    if not _COMMIT.fullmatch(revision):
        raise GatewayError(
            400,
            "invalid_revision",
            "The revision must be a full commit of 40 characters 0-9 and a-f; "
            f"found {revision[:_SHOWN]!r}.",
            param,
        )
    return revision
