"""Waiting until what was started answers."""

import time
from collections.abc import Callable
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from scripts.up.layout import NetworkError

POLL_SECONDS = 0.1
ANSWER_SECONDS = 5.0


def status_of(url: str, api_key: str | None = None) -> int | None:
    """Return the HTTP status of ``GET url``, None where nothing answers."""
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    try:
        with urlopen(Request(url, headers=headers), timeout=ANSWER_SECONDS) as answer:
            return answer.status
    except HTTPError as error:
        return error.code
    except (URLError, HTTPException, OSError):
        return None


def wait_until(
    ready: Callable[[], bool], failed: Callable[[], str | None], what: str, seconds: float
) -> None:
    """Wait until ``ready``.

    Args:
        ready: asked again and again.
        failed: returns why waiting is in vain, or None.
        what: names what is awaited.
        seconds: how long to wait.

    Raises:
        NetworkError: it failed, or the time is over.
    """
    deadline = time.monotonic() + seconds
    while not ready():
        if (reason := failed()) is not None:
            raise NetworkError(reason)
        if time.monotonic() > deadline:
            raise NetworkError(f"{what} was not ready after {seconds:.0f} s")
        time.sleep(POLL_SECONDS)
