"""``/nodes/v1``: what miners and validators call (``docs/wire.md``)."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import Response, StreamingResponse

from gateway.api.signed import Signed
from gateway.api.state import State, StateOf
from gateway.orders import dispatch, results, verdicts
from gateway.orders.auditing import AuditGrant
from protocol.messages import (
    Announcement,
    GatewayIdentity,
    Heartbeat,
    LeaseRequest,
    Message,
    Verdicts,
)

router = APIRouter(prefix="/nodes/v1", include_in_schema=False)

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
async def demand(call: Signed, state: StateOf) -> Response:
    """Show what work waits, most urgent first."""
    return _answer(await dispatch.demand(state.store, state.now_ms()))


@router.post("/leases")
async def lease(call: Signed, state: StateOf) -> Response:
    """Lease a unit to generate or to audit, by the role asked for; 204 when none waits."""
    request = await call.read(LeaseRequest)
    call.require(request.role)
    whose = (state.store, state.keypair, call.hotkey, request, state.settings.policy)
    if request.role == "validator":
        granted = await dispatch.lease_audit(*whose, state.now_ms())
        return Response(status_code=204) if granted is None else await _audit(granted, state)
    lease = await dispatch.lease_generation(*whose, state.now_ms())
    if lease is None:
        return Response(status_code=204)
    return _json(await asyncio.to_thread(lease.model_dump_json))


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
    # Reading a long body costs far more than asking first whether it can be an answer at all.
    await results.check_length(state.store, call.hotkey, lease_id, len(call.body))
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
