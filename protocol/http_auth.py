"""Signed requests of nodes: btauth/1 as bittensor's ``http_auth`` defines it.

A request proves "sent by this hotkey, to that hotkey, with exactly this body, just now". The
window is 10 s back and 2 s ahead of the receiver's clock.
"""

from collections.abc import Mapping
from typing import Protocol

from bittensor import http_auth
from bittensor.http_auth import (
    AuthError,
    BadSignature,
    InMemoryNonceStore,
    MalformedAuth,
    ReplayedRequest,
    StaleRequest,
    WrongReceiver,
)
from bittensor_core import Keypair

__all__ = [
    "AuthError",
    "BadSignature",
    "InMemoryNonceStore",
    "MalformedAuth",
    "NonceStore",
    "ReplayedRequest",
    "StaleRequest",
    "WrongReceiver",
    "sign_request",
    "verify_request",
]


class NonceStore(Protocol):
    """Remembers accepted (hotkey, nonce) pairs for at least the window of 12 s."""

    def check_and_store(self, hotkey_ss58: str, nonce_ns: int) -> bool:
        """Record the pair and return True, or return False if it was seen before."""
        ...


def sign_request(
    keypair: Keypair, *, method: str, path: str, body: bytes, receiver: str
) -> dict[str, str]:
    """Return the headers that sign one request.

    Args:
        path: the request target exactly as it is sent, query string included.
        receiver: the gateway's hotkey; the signature is worth nothing elsewhere.
    """
    return http_auth.sign(keypair, method=method, path=path, body=body, receiver_ss58=receiver)


def verify_request(
    headers: Mapping[str, str],
    body: bytes,
    *,
    method: str,
    path: str,
    receiver: str,
    nonces: NonceStore,
) -> str:
    """Return the hotkey that signed the request; checked before the body is parsed.

    Raises:
        AuthError: one of its subclasses says why; messages are safe to return to the caller.
    """
    caller = http_auth.verify(
        headers,
        body,
        method=method,
        path=path,
        self_hotkey_ss58=receiver,
        nonce_store=nonces,
    )
    return caller.hotkey_ss58
