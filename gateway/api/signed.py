"""Signed requests of nodes: who sends, proven over the raw body before anything is parsed."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from gateway.api.rates import Reservation
from gateway.api.state import State, StateOf
from gateway.errors import GatewayError, invalid_message
from gateway.neurons import may_serve
from protocol.chain.base import ChainError, Neuron
from protocol.http_auth import (
    AuthError,
    BadSignature,
    ReplayedRequest,
    StaleRequest,
    WrongReceiver,
    verify_request,
)
from protocol.messages import Message, Role

# Longer bodies are hashed and parsed in a thread, so that other requests go on meanwhile.
THREAD_BYTES = 256 * 1024
# A signature is worth nothing later, so nobody need wait longer for the body that it is over.
SIGNATURE_SECONDS = 12.0

_HOTKEY_HEADER = "x-bittensor-hotkey"
_AUTH_PREFIX = "x-bittensor-"
_AUTH_CODES: tuple[tuple[type[AuthError], str], ...] = (
    (WrongReceiver, "wrong_receiver"),
    (StaleRequest, "clock_skew"),
    (ReplayedRequest, "replayed_request"),
    (BadSignature, "bad_signature"),
)

M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class Call:
    """A request whose sender is proven and registered; ``body`` is what was signed."""

    neuron: Neuron
    body: bytes

    @property
    def hotkey(self) -> str:
        """The sender's hotkey."""
        return self.neuron.hotkey

    async def read(self, kind: type[M]) -> M:
        """Return the body as a message of ``kind``.

        Raises:
            GatewayError: 400 ``invalid_message`` with the path of the member at fault.
        """
        try:
            if len(self.body) <= THREAD_BYTES:
                return kind.model_validate_json(self.body)
            return await asyncio.to_thread(kind.model_validate_json, self.body)
        except ValidationError as error:
            raise invalid_message(kind.__name__, error) from error

    def require(self, role: Role) -> None:
        """Refuse a sender that may not take up ``role``.

        Raises:
            GatewayError: 403 ``no_validator_permit``.
        """
        if not may_serve(self.neuron, role):
            raise GatewayError(
                403, "no_validator_permit", "This hotkey has no validator permit on the subnet."
            )


async def signed_call(request: Request, state: StateOf) -> AsyncIterator[Call]:
    """Prove the sender of a request, and hold its share of memory until it is answered.

    Checks, in order: the hotkey that the headers name is registered; the signature over method,
    target and body is its own, fresh, for this gateway and new; its rate limit, which therefore
    nobody else can use up.

    Raises:
        GatewayError: 401, 403, 411, 413, 429 or 503.
    """
    headers = _headers(request)
    neuron = await _registered(headers, state)
    length = headers.get("content-length", "0" if request.method == "GET" else "")
    if not length.isdecimal():
        raise GatewayError(411, "length_required", "Send Content-Length with a signed request.")
    with state.body_budget.open() as held:
        body = await _body(request, held)
        await _verify(request, headers, state, body)
        state.node_rates.take(neuron.hotkey)
        yield Call(neuron, body)


def _headers(request: Request) -> dict[str, str]:
    """Return the request's headers by name in lower case.

    A header of the signature stands once: of two senders, one could be looked up and the other's
    signature checked.
    """
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        if name in headers and name.startswith(_AUTH_PREFIX):
            raise GatewayError(401, "malformed_auth", f"The header {name} stands more than once.")
        headers[name] = value
    return headers


async def _body(request: Request, held: Reservation) -> bytes:
    """Read a body; it takes room as it arrives, so that a length that is only declared takes none.

    Raises:
        GatewayError: as ``Reservation.take``; 400 where the sender leaves before the end, or takes
            longer than its signature lives.
    """
    pieces = []
    try:
        async with asyncio.timeout(SIGNATURE_SECONDS):
            async for piece in request.stream():
                held.take(len(piece))
                pieces.append(piece)
    except TimeoutError as error:
        message = f"The body took longer than the {SIGNATURE_SECONDS:.0f} s its signature lives."
        raise GatewayError(400, "body_too_slow", message) from error
    except ClientDisconnect as error:
        raise GatewayError(400, "invalid_request", "The request body ended early.") from error
    return b"".join(pieces)


async def _registered(headers: Mapping[str, str], state: State) -> Neuron:
    claimed = headers.get(_HOTKEY_HEADER)
    if claimed is None:
        raise GatewayError(
            401, "unsigned_request", "This route takes requests signed with btauth/1 alone."
        )
    try:
        neuron = await state.neurons.find(claimed)
    except ChainError as error:
        raise GatewayError(
            503, "chain_unavailable", "The chain cannot be read at the moment."
        ) from error
    if neuron is None:
        raise GatewayError(403, "not_registered", "This hotkey is not registered on the subnet.")
    return neuron


async def _verify(request: Request, headers: Mapping[str, str], state: State, body: bytes) -> None:
    target = request.scope["raw_path"].decode("ascii")
    if request.scope["query_string"]:
        target += "?" + request.scope["query_string"].decode("ascii")

    def verify() -> None:
        verify_request(
            headers,
            body,
            method=request.method,
            path=target,
            receiver=state.keypair.ss58_address,
            nonces=state.nonces,
        )

    try:
        if len(body) <= THREAD_BYTES:
            verify()
        else:
            await asyncio.to_thread(verify)
    except AuthError as error:
        raise _unproven(error, state.clock()) from error


def _unproven(error: AuthError, now: float) -> GatewayError:
    code = next((code for kind, code in _AUTH_CODES if isinstance(error, kind)), "malformed_auth")
    message = str(error)
    if code == "clock_skew":
        message += f"; the gateway's clock reads {now:.3f}: check this node's clock"
    return GatewayError(401, code, message)


Signed = Annotated[Call, Depends(signed_call)]
