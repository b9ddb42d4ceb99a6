"""Taking a miner's result: checked, stored, and offered for audit."""

import asyncio
from dataclasses import dataclass
from hashlib import sha256

from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.errors import GatewayError
from gateway.orders import life, units
from gateway.orders.content import object_key, unit_work
from gateway.orders.leases import LEASE_OVER, Held, find_own, hold_own, statement_of
from gateway.orders.rows import lock_node
from gateway.orders.structure import fault
from gateway.store.engine import Store
from gateway.store.objects import ObjectExists, Objects
from gateway.store.tables import Lease, LeaseKind, LeaseState, UnitState
from protocol.documents import digest, result_root, statement_of_result, work_keys
from protocol.keys import verify_statement
from protocol.messages import Receipt, Result, Work
from scoring import reputation

# How much the latest lease moves a miner's speed.
SPEED_WEIGHT = 0.3
# Room in a result besides the digits of its ids: commas and white space, brackets, all the rest.
ID_BYTES = 8
SAMPLE_BYTES = 64
ENVELOPE_BYTES = 64 * 1024


@dataclass(frozen=True)
class Posted:
    """A document as a node posted it: its canonical bytes and their SHA-256 in hex."""

    content: bytes
    digest: str


async def check_length(store: Store, hotkey: str, lease_id: str, size: int) -> None:
    """Refuse a body that is longer than any result of its lease, before it is read.

    Raises:
        GatewayError: 404 for a lease this node does not hold; 413 ``request_too_large``.
    """
    async with store.read() as session:
        held = await find_own(session, hotkey, lease_id, LeaseKind.GENERATE)
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
    store: Store, hotkey: str, lease_id: str, result: Result, now_ms: int
) -> Receipt:
    """Take the result of a generation lease; the same bytes again get the same answer.

    Raises:
        GatewayError: 404 for a lease this node does not hold; 409 ``lease_over`` for a late post,
            which changes nothing; 400 ``invalid_result`` where unit, attempt, root or signature
            are not the lease's (the lease goes on); 422 ``malformed_result`` where a signed result
            breaks a structural rule, which ends the lease and voids the whole unit.
    """
    posted = await asyncio.to_thread(posted_document, result)
    async with store.read() as session:
        held = await find_own(session, hotkey, lease_id, LeaseKind.GENERATE)
    if not held.live:
        return answered_before(held.lease, posted)
    work = await unit_work(store.objects, held.order, held.unit)
    broken = await asyncio.to_thread(_examine, held.lease, work, result)
    key = object_key(held.order.id, f"results/{lease_id}-{posted.digest[:16]}.json")
    if broken is None:
        await put_once(store.objects, key, posted.content)
    async with store.write() as session:
        held = await hold_own(session, hotkey, lease_id, LeaseKind.GENERATE)
        if not held.live:
            return answered_before(held.lease, posted)
        held.lease.answer_sha256 = posted.digest
        held.lease.stack_json = result.stack.model_dump_json()
        if broken is None:
            await _submit(session, held, result, key, now_ms)
        else:
            await _refuse(session, held, broken, now_ms)
        held.save(session)
    store.announce_news()
    return answered_before(held.lease, posted)


def posted_document(document: Result) -> Posted:
    """Return a posted message as the bytes it is kept by."""
    content = document.model_dump_json().encode()
    return Posted(content, sha256(content).hexdigest())


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


def _examine(lease: Lease, work: Work, result: Result) -> str | None:
    """Check what can be checked without the model; return the broken structural rule, if any.

    The signature comes before any rule that is held against the miner.
    """
    if (result.unit_id, result.attempt) != (lease.unit_id, lease.attempt):
        raise _invalid(f"the lease is for attempt {lease.attempt} of unit {lease.unit_id}")
    if result.lease_digest != digest(statement_of(lease, work)).hex():
        raise _invalid("lease_digest is not that of the lease's statement")
    if len(result.samples) == len(work.samples):
        root = result_root(work_keys(work), result.samples)
        if root != result.root:
            raise _invalid(f"root is not that of these samples, which is {root}")
    if not verify_statement(lease.hotkey, statement_of_result(result), result.signature):
        raise _invalid("signature is not this hotkey's over the result's statement")
    return fault(work, result.samples)


def _invalid(detail: str) -> GatewayError:
    return GatewayError(400, "invalid_result", f"The result was not taken: {detail}.")


async def _submit(session: AsyncSession, held: Held, result: Result, key: str, now_ms: int) -> None:
    lease, unit = held.lease, held.unit
    tokens = sum(len(ids) for ids in result.samples)
    held.end(LeaseState.ANSWERED, now_ms)
    lease.tokens = tokens
    lease.object_key = key
    lease.root = result.root
    lease.answer = f"{len(result.samples)} samples of {tokens} tokens wait for audit"
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
    units.fail_try(held.order, held.unit, held.lease.coldkey, now_ms)
    node = await lock_node(session, held.lease.hotkey)
    if node is not None:
        voids = reputation.VOID * held.unit.samples
        node.outcomes = reputation.extended(node.outcomes, voids)
        session.add(node)
    await life.settle(session, held.order, now_ms)
