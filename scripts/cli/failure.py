"""What a user sees of an error: one line on standard error, and an exit status."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

WRONG_USE = 2

S = TypeVar("S", bound=BaseModel)


class Failure(Exception):
    """A command failed for a reason that the user can act on.

    Args:
        message: what was wrong and what to do, in one line.
        status: the exit status: 1, or 2 where the command was used wrongly.
    """

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


@contextmanager
def reported(*errors: type[Exception]) -> Iterator[None]:
    """Turn the expected ``errors`` of a command into a ``Failure`` with their message."""
    try:
        yield
    except errors as error:
        raise Failure(_told(error)) from error


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def settings_from(kind: type[S], options: Mapping[str, Any]) -> S:
    """Make settings of ``kind`` from the options that were given; the environment has the rest.

    Args:
        kind: a settings class whose fields are named as the options.
        options: values by field; None and empty lists stand for an option that was not given.

    Raises:
        Failure: an option is missing or out of its range; the message names each.
    """
    given = {name: value for name, value in options.items() if value is not None and value != []}
    try:
        return kind(**given)
    except ValidationError as error:
        raise Failure("; ".join(_complaints(error)), WRONG_USE) from error


def _complaints(error: ValidationError) -> Iterator[str]:
    for detail in error.errors(include_url=False, include_input=False):
        option = ".".join(str(part) for part in detail["loc"]).replace("_", "-")
        message = detail["msg"].removeprefix("Value error, ")
        if detail["type"] == "missing":
            message = "is needed"
        yield f"--{option}: {message}" if option else message
