"""``/nodes/v1``: what miners and validators call (``docs/wire.md``)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response, StreamingResponse

from gateway.api.signed import Signed
from gateway.api.state import State, StateOf
from gateway.orders import dispatch, results, verdicts
from gateway.orders.auditing import AuditGrant
from gateway.orders.content import is_small
from gateway.orders.waiting import Place, Want
from protocol.messages import (
    MAX_WAIT_SECONDS,
    Announcement,
    GatewayIdentity,
    Heartbeat,
    Lease,
    LeaseRequest,
    Message,
    Verdicts,
)

router = APIRouter(prefix="/nodes/v1", include_in_schema=False)

T = TypeVar("T", Lease, AuditGrant)

# What a node waits for that holds no model: no look at the rows finds any of it.
ANY_WORK = Want("any", "", "")

LeaseId = Annotated[str, Path(pattern="^[0-9a-f-]{36}$")]


@router.get("/gateway")
async def identity(state: StateOf) -> Response:
    """Tell whom to sign for; the one route that needs no signature."""
    return _answer(GatewayIdentity(hotkey=state.keypair.ss58_address, time=state.clock()))


@router.post("/announce")
async def announce(call: Signed, state: StateOf) -> Response:
    """Note what a node is and can serve."""
    message = await call.read(Announcement)
    call.require(message.role)
    await dispatch.announce(state.store, call.hotkey, call.neuron.coldkey, message, state.now_ms())
    return Response(status_code=204)


@router.get("/demand")
async def demand(
    request: Request,
    call: Signed,
    state: StateOf,
    wait_seconds: Annotated[float, Query(ge=0, le=MAX_WAIT_SECONDS)] = 0,
) -> Response:
    """Show what work waits, most urgent first; where none does, once some does."""
    board = await state.board.read()
    if wait_seconds and not board.demands:
        async with _waiting(request, call, state, ANY_WORK) as place:
            if place is not None:
                with request.state.aside():
                    board = await state.board.filled(wait_seconds, lambda: place.left)
    return _answer(board)


@router.post("/leases")
async def lease(request: Request, call: Signed, state: StateOf) -> Response:
    """Lease a unit to generate or to audit, by the role asked for; 204 when none waits."""
    asked = await call.read(LeaseRequest)
    call.require(asked.role)
    whose = (state.store, state.keypair, call.hotkey, asked, state.settings.policy)
    nothing = Response(status_code=204)

    async def audit() -> AuditGrant | None:
        return await dispatch.lease_audit(*whose, state.now_ms())

    async def generation() -> Lease | None:
        return await dispatch.lease_generation(*whose, state.now_ms())

    if asked.role == "validator":
        granted = await _patiently(request, call, state, asked, audit)
        return nothing if granted is None else await _audit(granted, state)
    lease = await _patiently(request, call, state, asked, generation)
    if lease is None:
        return nothing
    small = is_small(lease.work)
    return _answer(lease) if small else _json(await asyncio.to_thread(lease.model_dump_json))


async def _patiently(
    request: Request,
    call: Signed,
    state: State,
    asked: LeaseRequest,
    attempt: Callable[[], Awaitable[T | None]],
) -> T | None:
    """Return what ``attempt`` does, as soon as it is something within the time that was asked for.

    A lease that was granted while its node went away is taken back.
    """
    if not asked.wait_seconds:
        return await attempt()
    want = Want(asked.role, asked.loaded.model, asked.loaded.revision)
    async with _waiting(request, call, state, want) as place:
        # Its place came first: what appears meanwhile wakes it.
        granted = await attempt()
        if place is None:
            return granted
        if granted is None:
            with request.state.aside():
                granted = await state.waiting.served(place, asked.wait_seconds, attempt)
    if granted is not None and place.gone:
        await dispatch.stop(state.store, _lease_id(granted), state.now_ms())
        return None
    return granted


@asynccontextmanager
async def _waiting(
    request: Request, call: Signed, state: State, want: Want
) -> AsyncIterator[Place | None]:
    """Give a request a place to wait at until its client goes; None where all are taken."""
    with state.waiting.place(want, call.hotkey) as place:
        if place is None:
            yield None
            return
        leaving = asyncio.create_task(_leave_with(request, place))
        try:
            yield place
        finally:
            leaving.cancel()


async def _leave_with(request: Request, place: Place) -> None:
    """End the wait of a request whose client goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    place.leave(gone=True)


def _lease_id(granted: Lease | AuditGrant) -> str:
    return granted.terms.lease_id if isinstance(granted, AuditGrant) else granted.lease_id


@router.post("/leases/{lease_id}/heartbeat")
async def heartbeat(lease_id: LeaseId, call: Signed, state: StateOf) -> Response:
    """Renew a lease and note its progress."""
    message = await call.read(Heartbeat)
    answer = await dispatch.heartbeat(
        state.store, call.hotkey, lease_id, message, state.settings.policy, state.now_ms()
    )
    return _answer(answer)


@router.post("/leases/{lease_id}/result")
async def result(lease_id: LeaseId, call: Signed, state: StateOf) -> Response:
    """Take the tokens of a unit."""
    receipt = await results.accept_result(
        state.store, state.readers, call.hotkey, lease_id, call.body, state.now_ms()
    )
    return _answer(receipt)


@router.post("/leases/{lease_id}/verdicts")
async def verdict(lease_id: LeaseId, call: Signed, state: StateOf) -> Response:
    """Take the verdicts on a unit."""
    call.require("validator")
    message = await call.read(Verdicts)
    receipt = await verdicts.accept_verdicts(
        state.store, call.hotkey, lease_id, message, state.settings.policy, state.now_ms()
    )
    return _answer(receipt)


@router.post("/leases/{lease_id}/release")
async def release(lease_id: LeaseId, call: Signed, state: StateOf) -> Response:
    """Take a lease back unfinished."""
    await dispatch.release(state.store, call.hotkey, lease_id, state.now_ms())
    return Response(status_code=204)


async def _audit(granted: AuditGrant, state: State) -> Response:
    size, pieces = await granted.encoded(state.store.objects)
    headers = {"Content-Length": str(size)}
    return StreamingResponse(pieces, headers=headers, media_type="application/json")


def _answer(message: Message) -> Response:
    # Messages are valid by construction; passing them through FastAPI would check them again.
    return _json(message.model_dump_json())


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")
