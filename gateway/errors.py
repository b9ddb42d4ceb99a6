"""Errors that a customer or a node may see, raised where they are known.

``api/errors.py`` turns them into OpenAI's error object, once. Anything else that escapes is a
``server_error`` without details.
"""

from pydantic import ValidationError


class GatewayError(Exception):
    """A refusal with an HTTP status, a machine code and a message that says what to do.

    Args:
        status: the HTTP status, 400 to 503.
        code: the contract's machine code.
        message: what was wrong and what is allowed, for a person.
        param: the request field at fault, or None.
        retry_after: seconds after which a retry may pass, at most 60; None where not offered.
        final: an official client must not retry although the status invites it.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        param: str | None = None,
        *,
        retry_after: int | None = None,
        final: bool = False,
    ) -> None:
        # All of these make the error again where another process raised it.
        super().__init__(status, code, message, param)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.retry_after = retry_after
        self.final = final

    def __str__(self) -> str:
        return self.message


def invalid_message(kind: str, error: ValidationError) -> GatewayError:
    """Return the refusal of a node's message of ``kind``, with the path of the member at fault."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    where = f"{kind}.{place}" if place else kind
    return GatewayError(400, "invalid_message", f"{where}: {first['msg']}", place or None)
