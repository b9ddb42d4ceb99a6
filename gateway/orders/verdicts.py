"""Taking a validator's verdicts: what is verified counts, what is void is generated again."""

import asyncio
import json
from hashlib import sha256
from itertools import pairwise

from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.errors import GatewayError
from gateway.orders import life, units
from gateway.orders.content import object_key, unit_work
from gateway.orders.leases import Held, find_own, hold_own, statement_of
from gateway.orders.policy import MAX_TRIES
from gateway.orders.results import Posted, answered_before, put_once
from gateway.orders.rows import lock_node
from gateway.orders.samples import (
    MISSING,
    UNDECIDED,
    VERIFIED,
    VOID,
    complete_lines,
    ordinals,
    pack_bits,
    read_bits,
)
from gateway.store.engine import Store
from gateway.store.tables import (
    Lease,
    LeaseKind,
    LeaseState,
    OrderStatus,
    Unit,
    Verdict,
)
from protocol.documents import digest, statement_of_verdicts, verdict_root, work_keys
from protocol.keys import verify_statement
from protocol.messages import Receipt, Result, SampleVerdict, Verdicts, Work
from scoring import reputation

LETTERS = {"verified": VERIFIED, "void": VOID, "inconclusive": UNDECIDED}


async def accept_verdicts(
    store: Store, hotkey: str, lease_id: str, verdicts: Verdicts, now_ms: int
) -> Receipt:
    """Take the verdicts of an audit lease; the same bytes again get the same answer.

    Raises:
        GatewayError: 404 for a lease this node does not hold; 409 ``lease_over`` for a late post,
            which changes nothing; 400 ``invalid_verdicts`` where unit, attempt, roots, counts or
            signature are not those of the audited result (the lease goes on).
    """
    content = verdicts.model_dump_json().encode()
    posted = Posted(content, sha256(content).hexdigest())
    async with store.read() as session:
        held = await find_own(session, hotkey, lease_id, LeaseKind.AUDIT)
        audited = await _audited(session, held.lease)
    if not held.live:
        return answered_before(held.lease, posted)
    work = await unit_work(store.objects, held.order, held.unit)
    document = await store.objects.get(audited.object_key or "")
    lengths = await asyncio.to_thread(_examine, held.lease, audited, work, document, verdicts)
    key = object_key(held.order.id, f"verdicts/{lease_id}-{posted.digest[:16]}.json")
    await put_once(store.objects, key, posted.content)
    async with store.write() as session:
        held = await hold_own(session, hotkey, lease_id, LeaseKind.AUDIT)
        if not held.live:
            return answered_before(held.lease, posted)
        held.end(LeaseState.ANSWERED, now_ms)
        held.lease.answer_sha256 = posted.digest
        held.lease.stack_json = verdicts.stack.model_dump_json()
        held.lease.object_key = key
        held.lease.root = verdicts.root
        await _apply(session, held, audited, verdicts, lengths, now_ms)
        held.save(session)
        await life.settle(session, held.order, now_ms)
    store.announce_news()
    return answered_before(held.lease, posted)


def _examine(
    lease: Lease, audited: Lease, work: Work, document: bytes, verdicts: Verdicts
) -> list[int]:
    """Check verdicts against the result they judge; return the length in ids of each sample."""
    if (verdicts.unit_id, verdicts.attempt) != (audited.unit_id, audited.attempt):
        raise _invalid(f"the lease is for attempt {audited.attempt} of unit {audited.unit_id}")
    if verdicts.lease_digest != digest(statement_of(audited, work)).hex():
        raise _invalid("lease_digest is not that of the statement that the result was leased by")
    if verdicts.result_root != audited.root:
        raise _invalid("result_root is not that of the audited result")
    lengths = [len(ids) for ids in Result.model_validate_json(document).samples]
    if len(verdicts.samples) != len(lengths):
        raise _invalid(f"the unit has {len(lengths)} samples, not {len(verdicts.samples)}")
    for place, (verdict, length) in enumerate(zip(verdicts.samples, lengths, strict=True)):
        if verdict.tokens != length:
            raise _invalid(f"samples[{place}].tokens must be {length}, not {verdict.tokens}")
        if (contradiction := _contradiction(verdict)) is not None:
            raise _invalid(f"samples[{place}] {contradiction}")
    root = verdict_root(work_keys(work), verdicts.samples)
    if root != verdicts.root:
        raise _invalid(f"root is not that of these verdicts, which is {root}")
    if not verify_statement(lease.hotkey, statement_of_verdicts(verdicts), verdicts.signature):
        raise _invalid("signature is not this hotkey's over the verdicts' statement")
    return lengths


def _contradiction(verdict: SampleVerdict) -> str | None:
    """Return how a verdict contradicts itself, None where it does not."""
    if verdict.mismatches > verdict.tokens:
        return f"has {verdict.mismatches} mismatches in {verdict.tokens} tokens"
    if verdict.position is not None and verdict.position > verdict.tokens:
        return f"has its position past its {verdict.tokens} tokens"
    places = [position for position, _, _ in verdict.marks]
    if any(here >= after for here, after in pairwise([*places, verdict.tokens])):
        return f"has marks whose positions do not rise below its {verdict.tokens} tokens"
    if len(places) > verdict.mismatches:
        return f"has {len(places)} marks for {verdict.mismatches} mismatches"
    if verdict.outcome == "verified" and (verdict.reason, verdict.position) != (None, None):
        return "is verified, so reason and position must be null"
    return None


def _invalid(detail: str) -> GatewayError:
    return GatewayError(400, "invalid_verdicts", f"The verdicts were not taken: {detail}.")


async def _audited(session: AsyncSession, lease: Lease) -> Lease:
    audited = await session.get(Lease, lease.audited_lease_id)
    if audited is None:
        raise LookupError(f"audit lease {lease.id} has no result")
    return audited


async def _apply(
    session: AsyncSession,
    held: Held,
    audited: Lease,
    verdicts: Verdicts,
    lengths: list[int],
    now_ms: int,
) -> None:
    """Decide the unit's undecided samples and count them, each once."""
    unit, order = held.unit, held.order
    given = [LETTERS[sample.outcome] for sample in verdicts.samples]
    newly = {
        letter: [
            place
            for place, (before, now) in enumerate(zip(unit.outcomes, given, strict=True))
            if before == UNDECIDED and now == letter
        ]
        for letter in (VERIFIED, VOID)
    }
    tokens = sum(lengths[place] for place in newly[VERIFIED])
    unit.outcomes = "".join(
        now if before == UNDECIDED else before
        for before, now in zip(unit.outcomes, given, strict=True)
    )
    await _mark_verified(session, held, newly[VERIFIED])
    order.samples_verified += len(newly[VERIFIED])
    order.samples_void += len(newly[VOID])
    order.tokens_verified += tokens
    _generate_again(session, held, newly[VOID], audited.coldkey, now_ms)
    if UNDECIDED in unit.outcomes:
        units.audit_again(order, unit, now_ms)
    else:
        units.close(unit, now_ms)
    await _remember(session, audited.hotkey, newly)
    counts = {outcome: given.count(letter) for outcome, letter in LETTERS.items()}
    held.lease.answer = json.dumps(counts)
    session.add(
        Verdict(
            id=held.lease.id,
            order_id=order.id,
            unit_id=unit.id,
            result_lease_id=audited.id,
            validator=held.lease.hotkey,
            miner=audited.hotkey,
            rule=verdicts.rule,
            newly_verified=len(newly[VERIFIED]),
            tokens=tokens,
            object_key=held.lease.object_key or "",
            created_at_ms=now_ms,
            **counts,
        )
    )


async def _mark_verified(session: AsyncSession, held: Held, places: list[int]) -> None:
    """Set the bits of newly verified samples on the root unit, and count complete lines."""
    unit, n = held.unit, held.order.n
    root = unit if unit.parent_id is None else await session.get(Unit, unit.root_id)
    if root is None or root.verified_bits is None:
        raise LookupError(f"unit {unit.id} has no root")
    bits = read_bits(root.verified_bits, root.samples)
    before = complete_lines(bits, n)
    bits[ordinals(unit, n)[places] - root.first_line * n] = True
    root.verified_bits = pack_bits(bits)
    held.order.lines_completed += complete_lines(bits, n) - before
    session.add(root)


def _generate_again(
    session: AsyncSession, held: Held, places: list[int], owner: str, now_ms: int
) -> None:
    """Put void samples into a child unit, or count them as missing where it was the last try."""
    unit, order = held.unit, held.order
    if not places:
        return
    if unit.tries + 1 >= MAX_TRIES:
        order.samples_missing += len(places)
        letters = [
            MISSING if place in places else letter for place, letter in enumerate(unit.outcomes)
        ]
        unit.outcomes = "".join(letters)
    elif order.status == OrderStatus.IN_PROGRESS:
        session.add(units.child_unit(order, unit, places, owner, now_ms))


async def _remember(session: AsyncSession, miner: str, newly: dict[str, list[int]]) -> None:
    """Extend the miner's record by the newly judged samples, in the unit's order."""
    node = await lock_node(session, miner)
    if node is None:
        return
    decided = {place: letter for letter, places in newly.items() for place in places}
    outcomes = "".join(decided[place] for place in sorted(decided))
    node.outcomes = reputation.extended(node.outcomes, outcomes)
    session.add(node)
