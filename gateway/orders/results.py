"""Taking a miner's result: checked, stored, and offered for audit."""

from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.errors import GatewayError
from gateway.orders import life, units
from gateway.orders.content import object_key, work_source
from gateway.orders.leases import (
    LEASE_OVER,
    Held,
    fail_try,
    find_own,
    hold_own,
    issued_at,
    others_at,
)
from gateway.orders.records import remember
from gateway.orders.result_reading import Posted, Reading, Terms, read_posted
from gateway.orders.rows import lock_node
from gateway.orders.samples import VOID
from gateway.store.engine import Store
from gateway.store.objects import ObjectExists, Objects
from gateway.store.tables import Lease, LeaseKind, LeaseState, UnitState
from gateway.workers import WorkerPool
from protocol.messages import Receipt

# How much the latest lease moves a miner's speed.
SPEED_WEIGHT = 0.3
# Room in a result besides the digits of its ids: commas and white space, brackets, all the rest.
ID_BYTES = 8
SAMPLE_BYTES = 64
ENVELOPE_BYTES = 64 * 1024


def _check_length(held: Held, size: int) -> None:
    """Refuse a body that is longer than any result of its lease, before it is read."""
    digits = len(str(held.order.vocabulary_size))
    a_sample = SAMPLE_BYTES + held.order.max_tokens * (digits + ID_BYTES)
    if size > ENVELOPE_BYTES + held.unit.samples * a_sample:
        raise GatewayError(
            413,
            "request_too_large",
            f"{held.unit.samples} samples of at most {held.order.max_tokens} ids are no "
            f"{size:,} bytes.",
        )


async def accept_result(
    store: Store, readers: WorkerPool, hotkey: str, lease_id: str, body: bytes, now_ms: int
) -> Receipt:
    """Take the result of a generation lease; the same result again gets the same answer.

    Args:
        readers: where a large one is read.

    Raises:
        GatewayError: 404 for a lease this node does not hold; 413 ``request_too_large`` for a body
            longer than any result of the lease; 400 ``invalid_message``; 409
            ``lease_over`` for a late post, which changes nothing; 400 ``invalid_result`` where
            unit, attempt, stack, root or signature are not the lease's (the lease goes on); 422
            ``malformed_result`` where a signed result breaks a structural rule, which ends the
            lease and voids the whole unit; 503 ``gateway_busy``.
    """
    async with store.glance() as session:
        held = await find_own(session, hotkey, lease_id, LeaseKind.GENERATE)
    # Reading a long body costs far more than asking first whether it can be an answer at all.
    _check_length(held, len(body))
    reading = await read_posted(readers, body, await _terms(store.objects, held))
    if not held.live:
        return answered_before(held.lease, reading.posted)
    key = object_key(held.order.id, f"results/{lease_id}-{reading.posted.digest[:16]}.json")
    if reading.broken is None:
        await put_once(store.objects, key, reading.posted.content)
    async with store.write() as session:
        held = await hold_own(session, hotkey, lease_id, LeaseKind.GENERATE)
        if not held.live:
            return answered_before(held.lease, reading.posted)
        held.lease.answer_sha256 = reading.posted.digest
        if reading.broken is None:
            await _submit(session, held, reading, key, now_ms)
        else:
            await _refuse(session, held, reading.broken, now_ms)
        held.save(session)
    store.announce_news()
    return answered_before(held.lease, reading.posted)


async def _terms(objects: Objects, held: Held) -> Terms | None:
    if not held.live:
        return None
    lease = held.lease
    source = await work_source(objects, held.order, held.unit)
    stack_json = lease.stack_json or ""
    return Terms(lease.id, lease.attempt, lease.hotkey, issued_at(lease), stack_json, source)


def answered_before(lease: Lease, posted: Posted) -> Receipt:
    """Answer a post on a lease that is over by what it was answered with.

    Raises:
        GatewayError: 422 where these bytes were refused, 409 where others were answered or none.
    """
    if lease.answer_sha256 != posted.digest or lease.answer is None:
        raise GatewayError(*LEASE_OVER)
    if lease.state == LeaseState.REFUSED:
        raise GatewayError(422, "malformed_result", lease.answer)
    return Receipt(lease_id=lease.id, accepted=True, detail=lease.answer)


async def put_once(objects: Objects, key: str, content: bytes) -> None:
    """Store an object whose key is made of its content; there already is as good."""
    try:
        await objects.put(key, content)
    except ObjectExists:
        return


async def _submit(
    session: AsyncSession, held: Held, reading: Reading, key: str, now_ms: int
) -> None:
    lease, unit = held.lease, held.unit
    tokens = reading.tokens
    held.end(LeaseState.ANSWERED, now_ms)
    for late in await others_at(session, held):
        late.state, late.ended_at_ms = LeaseState.STOPPED, now_ms
        session.add(late)
    lease.tokens = tokens
    lease.object_key = key
    lease.root = reading.root
    lease.answer = f"{reading.samples} samples of {tokens} tokens wait for audit"
    units.offer(unit, UnitState.SUBMITTED, now_ms)
    unit.submitted_at_ms = now_ms
    unit.result_lease_id = lease.id
    unit.audits = 0
    node = await lock_node(session, lease.hotkey)
    if node is not None and now_ms > lease.granted_at_ms:
        speed = 1000 * tokens / (now_ms - lease.granted_at_ms)
        known = node.tokens_per_second
        node.tokens_per_second = speed if known is None else known + SPEED_WEIGHT * (speed - known)
        session.add(node)


async def _refuse(session: AsyncSession, held: Held, broken: str, now_ms: int) -> None:
    held.end(LeaseState.REFUSED, now_ms)
    held.lease.answer = f"The whole unit is refused: {broken}."
    held.order.samples_void += held.unit.samples
    await fail_try(session, held, now_ms)
    await remember(session, held.order, held.lease, VOID * held.unit.samples, now_ms)
    await life.settle(session, held.order, now_ms)
