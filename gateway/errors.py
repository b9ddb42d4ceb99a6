"""Errors that a customer or a node may see, raised where they are known.

``api/errors.py`` turns them into OpenAI's error object, once. Anything else that escapes is a
``server_error`` without details.
"""


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
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.retry_after = retry_after
        self.final = final
