"""Taking a validator's verdicts: what is verified counts, what is void is generated again."""

import asyncio
import json
from dataclasses import replace
from itertools import pairwise

from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.errors import GatewayError
from gateway.orders import known_units, life, redress, reviews, units
from gateway.orders.aftermath import Aftermath, carry_out
from gateway.orders.content import object_key, unit_work
from gateway.orders.convicting import add_evidence
from gateway.orders.counting import generate_again, mark
from gateway.orders.judges import refuse_distrusted
from gateway.orders.leases import Held, find_own, hold_own, statement_of
from gateway.orders.opinions import Shown, seen, shown_before
from gateway.orders.policy import Policy
from gateway.orders.result_reading import Posted
from gateway.orders.results import answered_before, put_once
from gateway.orders.samples import UNDECIDED, VERIFIED, VOID
from gateway.orders.stored_results import sample_lengths
from gateway.store.engine import Store
from gateway.store.tables import Lease, LeaseKind, LeaseState, Verdict
from protocol.documents import digest, statement_of_verdicts, verdict_root, work_keys
from protocol.keys import verify_statement
from protocol.messages import Receipt, SampleVerdict, Stack, Verdicts, Work
from scoring.profile import Profile
from scoring.reputation import LONE_VOID
from scoring.weighing import judged_by, weighing_fault

LETTERS = {"verified": VERIFIED, "void": VOID, "inconclusive": UNDECIDED}


async def accept_verdicts(
    store: Store, hotkey: str, lease_id: str, verdicts: Verdicts, policy: Policy, now_ms: int
) -> Receipt:
    """Take the verdicts of an audit lease; the same bytes again get the same answer.

    Raises:
        GatewayError: 404 for a lease this node does not hold; 409 ``lease_over`` for a late post,
            which changes nothing; 403 for a validator that is not believed; 400
            ``invalid_verdicts`` where unit, attempt, lease digest, stack, roots, counts or
            signature are not those of the audited result (the lease goes on).
    """
    posted = Posted.of(verdicts.model_dump_json().encode())
    async with store.glance() as session:
        held = await find_own(session, hotkey, lease_id, LeaseKind.AUDIT)
        audited = await _audited(session, held.lease)
    if not held.live:
        return answered_before(held.lease, posted)
    work = await unit_work(store.objects, held.order, held.unit)
    document = await store.objects.get(audited.object_key or "")
    profile, lengths = await asyncio.to_thread(
        _examine, held.lease, audited, work, document, verdicts
    )
    shown = await shown_before(store, audited.id) | {lease_id: seen(verdicts.samples)}
    key = object_key(held.order.id, f"verdicts/{lease_id}-{posted.digest[:16]}.json")
    await put_once(store.objects, key, posted.content)
    async with store.write() as session:
        held = await hold_own(session, hotkey, lease_id, LeaseKind.AUDIT)
        if not held.live:
            return answered_before(held.lease, posted)
        await refuse_distrusted(session, held.lease.coldkey, now_ms)
        held.end(LeaseState.ANSWERED, now_ms)
        held.lease.answer_sha256 = posted.digest
        held.lease.object_key = key
        held.lease.root = verdicts.root
        letters = "".join(LETTERS[sample.outcome] for sample in verdicts.samples)
        held.lease.answer = json.dumps(_counts(letters))
        on = (session, held, audited)
        if held.unit.known is not None:
            wrong = await known_units.judged(session, held, letters, now_ms)
            await carry_out(*on, Aftermath(wrong=wrong), policy, now_ms)
            return answered_before(held.lease, posted)
        row = _record(held, audited, verdicts, letters, now_ms)
        session.add(row)
        if held.review is None:
            after = await _apply(*on, row, lengths, shown, policy, now_ms)
        elif held.review.delivered:
            after = await redress.weigh(*on, lengths, policy, now_ms)
        else:
            after = await reviews.weigh(*on, lengths, shown, policy, now_ms)
        await carry_out(*on, after, policy, now_ms)
        await add_evidence(*on, profile, verdicts.samples, policy, now_ms)
        await life.settle(session, held.order, now_ms)
    store.announce_news()
    return answered_before(held.lease, posted)


def _examine(
    lease: Lease, audited: Lease, work: Work, document: bytes, verdicts: Verdicts
) -> tuple[Profile, list[int]]:
    """Check verdicts against the result they judge.

    Returns:
        What they were judged by, and the length in ids of each sample.
    """
    if (verdicts.unit_id, verdicts.attempt) != (audited.unit_id, audited.attempt):
        raise _invalid(f"the lease is for attempt {audited.attempt} of unit {audited.unit_id}")
    if verdicts.lease_digest != digest(statement_of(audited, work)).hex():
        raise _invalid("lease_digest is not that of the statement that the result was leased by")
    if verdicts.result_root != audited.root:
        raise _invalid("result_root is not that of the audited result")
    if verdicts.stack != Stack.model_validate_json(lease.stack_json or ""):
        raise _invalid("stack is not the one that was announced when the lease was taken")
    stacks = (Stack.model_validate_json(audited.stack_json or ""), verdicts.stack)
    try:
        profile = judged_by(verdicts.rule, verdicts.profile, work.model, *stacks)
    except ValueError as error:
        raise _invalid(str(error)) from None
    lengths = sample_lengths(document)
    if len(verdicts.samples) != len(lengths):
        raise _invalid(f"the unit has {len(lengths)} samples, not {len(verdicts.samples)}")
    for place, (verdict, length) in enumerate(zip(verdicts.samples, lengths, strict=True)):
        if verdict.tokens != length:
            raise _invalid(f"samples[{place}].tokens must be {length}, not {verdict.tokens}")
        contradiction = _contradiction(verdict) or weighing_fault(verdict, profile)
        if contradiction is not None:
            raise _invalid(f"samples[{place}] {contradiction}")
    root = verdict_root(work_keys(work), verdicts.samples)
    if root != verdicts.root:
        raise _invalid(f"root is not that of these verdicts, which is {root}")
    if not verify_statement(lease.hotkey, statement_of_verdicts(verdicts), verdicts.signature):
        raise _invalid("signature is not this hotkey's over the verdicts' statement")
    return profile, lengths


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


def _counts(letters: str) -> dict[str, int]:
    return {outcome: letters.count(letter) for outcome, letter in LETTERS.items()}


def _record(held: Held, audited: Lease, verdicts: Verdicts, letters: str, now_ms: int) -> Verdict:
    """Return the row of a verdict document that has not verified anything yet."""
    return Verdict(
        id=held.lease.id,
        order_id=held.order.id,
        unit_id=held.unit.id,
        result_lease_id=audited.id,
        validator=held.lease.hotkey,
        miner=audited.hotkey,
        rule=verdicts.rule,
        outcomes=letters,
        newly_verified=0,
        tokens=0,
        object_key=held.lease.object_key or "",
        created_at_ms=now_ms,
        **_counts(letters),
    )


async def _apply(
    session: AsyncSession,
    held: Held,
    audited: Lease,
    row: Verdict,
    lengths: list[int],
    shown: Shown,
    policy: Policy,
    now_ms: int,
) -> Aftermath:
    """Decide the unit's undecided samples and count them, each once."""
    unit, order = held.unit, held.order
    pairs = list(zip(unit.outcomes, row.outcomes, strict=True))
    newly = {
        letter: [
            place
            for place, (before, now) in enumerate(pairs)
            if before == UNDECIDED and now == letter
        ]
        for letter in (VERIFIED, VOID)
    }
    unit.outcomes = "".join(now if before == UNDECIDED else before for before, now in pairs)
    await mark(session, order, unit, newly[VERIFIED], verified=True)
    row.newly_verified = len(newly[VERIFIED])
    row.tokens = sum(lengths[place] for place in newly[VERIFIED])
    order.samples_verified += row.newly_verified
    order.samples_void += len(newly[VOID])
    order.tokens_verified += row.tokens
    generate_again(session, order, unit, newly[VOID], audited.coldkey, now_ms)
    reviewed = policy.second_opinions > 0
    after = Aftermath()
    if UNDECIDED in unit.outcomes:
        units.audit_again(order, unit, now_ms)
    else:
        units.close(unit, now_ms)
        if reviewed:
            after = await reviews.begin(session, held, audited, lengths, shown, policy, now_ms)
    # A void counts once its unit's review is closed; where there are none, by this one's word.
    voids = after.letters if reviewed else LONE_VOID * len(newly[VOID])
    return replace(after, letters=VERIFIED * len(newly[VERIFIED]) + voids)
