"""The native routes of a gateway, as a customer's command line calls them."""

import json
from collections.abc import Mapping
from typing import Any, Self

import httpx2
import stamina

from scripts.fetch import FetchError, gateway_root, unreached

TIMEOUT_S = 60.0
# Reading a large file takes minutes.
LONG_TIMEOUT_S = 900.0
TRIES = 6
MAX_ANSWER_BYTES = 64 * 1024 * 1024


class BatchError(Exception):
    """A batch cannot go on; the message says why and what to do.

    Attributes:
        code: the gateway's own; None where it did not answer.
    """

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class Unanswered(BatchError):
    """The gateway could not be reached, or answered nothing of use."""


class _Passing(Exception):
    """An answer after which another try may pass."""


class Gateway:
    """Calls routes under ``/api/v1``; a context manager.

    Args:
        base_url: as the ``openai`` client takes it.
        api_key: of the customer.

    Raises:
        BatchError: the base URL is none.
    """

    def __init__(self, base_url: str, api_key: str) -> None:
        try:
            self.origin = gateway_root(base_url)
        except FetchError as error:
            raise BatchError(str(error)) from error
        headers = {"Authorization": f"Bearer {api_key}"}
        self._client = httpx2.Client(headers=headers, timeout=TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str) -> dict[str, Any]:
        """Return what a route answers with (see ``call``)."""
        return self.call("GET", path)

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> dict[str, Any]:
        """Send a request, again where that may help, and return the JSON object of its answer.

        All requests may be repeated: those that make something carry a key, or make what is
        harmless.

        Args:
            path: under ``/api/v1``.
            body: is sent as JSON.
            content: is sent as it is.
            timeout_s: how long an answer is waited for.

        Raises:
            Unanswered: the gateway could not be reached.
            BatchError: it refused; the message is its own.
        """
        url = f"{self.origin}/api/v1{path}"
        return _object(
            self._send(method, url, json=body, content=content, headers=headers, timeout=timeout_s)
        )

    def content(self, path: str) -> bytes:
        """Return the bytes of a file by its path on the server.

        Raises:
            BatchError: as ``call``.
        """
        return self._send("GET", f"{self.origin}{path}").content

    def _send(self, method: str, url: str, **options: Any) -> httpx2.Response:
        try:
            for attempt in stamina.retry_context(
                on=(_Passing, httpx2.TransportError), attempts=TRIES
            ):
                with attempt:
                    answer = self._client.request(method, url, **options)
                    final = answer.headers.get("x-should-retry") == "false"
                    if not final and (answer.status_code == 429 or answer.status_code >= 500):
                        raise _Passing(str(_told(answer)))
                    if answer.status_code >= 300:
                        raise _told(answer)
                    return answer
        except _Passing as error:
            raise Unanswered(str(error)) from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Unanswered(f"{self.origin} could not be reached: {unreached(error)}") from error
        raise AssertionError("a try either returns or raises")


def _told(answer: httpx2.Response) -> BatchError:
    """Return the error that the gateway tells of."""
    if answer.status_code == 401:
        return BatchError(
            "the gateway does not know this API key, or it has ended; "
            "set RELIQUARY_API_KEY or --api-key",
            "invalid_api_key",
        )
    try:
        error = answer.json()["error"]
        message, code = str(error["message"]), error.get("code")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return BatchError(
            f"{answer.url} answered with HTTP {answer.status_code}; is it a gateway's base URL?"
        )
    place = f" ({error['param']})" if error.get("param") else ""
    return BatchError(f"{' '.join(message.split())[:1_000]} [{code}]{place}", code)


def _object(answer: httpx2.Response) -> dict[str, Any]:
    try:
        value = json.loads(answer.content[:MAX_ANSWER_BYTES])
    except (ValueError, RecursionError) as error:
        raise Unanswered(f"{answer.url} did not answer with JSON; is it a gateway?") from error
    if not isinstance(value, dict):
        raise Unanswered(f"{answer.url} did not answer with an object; is it a gateway?")
    return value
