"""What becomes of a unit when a lease of it ends. The caller holds the order's lock."""

import json

import numpy as np

from gateway.orders.policy import MAX_AUDITS, MAX_TRIES
from gateway.orders.samples import MISSING, UNDECIDED, no_bits, ordinals, packed_ordinals
from gateway.store.tables import Order, OrderStatus, Unit, UnitState, new_id


def root_unit(order: Order, lines: int, now_ms: int) -> Unit:
    """Return a unit of the order's next ``lines`` lines, and move the order's cursor past them."""
    unit_id = new_id()
    first = order.cursor_line
    samples = lines * order.n
    order.cursor_line = first + lines
    return Unit(
        id=unit_id,
        order_id=order.id,
        root_id=unit_id,
        first_line=first,
        end_line=first + lines,
        samples=samples,
        outcomes=UNDECIDED * samples,
        verified_bits=no_bits(samples),
        created_at_ms=now_ms,
        offered_at_ms=now_ms,
    )


def child_unit(order: Order, parent: Unit, places: list[int], owner: str, now_ms: int) -> Unit:
    """Return a unit of the samples at ``places`` of ``parent``, void as a miner's of ``owner``."""
    held = ordinals(parent, order.n)[np.asarray(places)]
    return Unit(
        order_id=order.id,
        root_id=parent.root_id,
        parent_id=parent.id,
        first_line=int(held[0]) // order.n,
        end_line=int(held[-1]) // order.n + 1,
        ordinals=packed_ordinals(held),
        samples=len(places),
        outcomes=UNDECIDED * len(places),
        attempt=parent.attempt,
        tries=parent.tries + 1,
        failed_by=_with_failure(parent, owner),
        created_at_ms=now_ms,
        offered_at_ms=now_ms,
    )


def failures(unit: Unit) -> list[str]:
    """Return the coldkeys of the miners that failed this unit or one it descends from."""
    return json.loads(unit.failed_by)


def reopen(order: Order, unit: Unit, now_ms: int) -> None:
    """Offer a unit again, where its order still generates; else close it."""
    if order.status == OrderStatus.IN_PROGRESS:
        offer(unit, UnitState.OPEN, now_ms)
    else:
        close(unit, now_ms)


def fail_try(order: Order, unit: Unit, owner: str, now_ms: int) -> None:
    """Offer a unit again that a miner of ``owner`` did not deliver; after ``MAX_TRIES`` end it."""
    note_failure(unit, owner)
    if unit.tries >= MAX_TRIES:
        give_up(order, unit, now_ms)
    else:
        reopen(order, unit, now_ms)


def note_failure(unit: Unit, owner: str) -> None:
    """Count a failed try of a miner of ``owner``."""
    unit.tries += 1
    unit.failed_by = _with_failure(unit, owner)


def audit_again(order: Order, unit: Unit, now_ms: int) -> None:
    """Offer a unit's result for another audit; after ``MAX_AUDITS`` give up what is undecided."""
    unit.audits += 1
    if unit.audits >= MAX_AUDITS:
        give_up(order, unit, now_ms)
    else:
        offer(unit, UnitState.SUBMITTED, now_ms)


def judge_anew(unit: Unit, now_ms: int) -> None:
    """Offer the result of a closed unit for audit as if it had never been judged."""
    offer(unit, UnitState.SUBMITTED, now_ms)
    unit.audits = 0
    unit.closed_at_ms = None


def offer(unit: Unit, state: UnitState, now_ms: int) -> None:
    """Let a unit wait for a miner (``OPEN``) or for a validator (``SUBMITTED``)."""
    unit.state = state
    unit.offered_at_ms = now_ms


def give_up(order: Order, unit: Unit, now_ms: int) -> None:
    """Close a unit and count its undecided samples as missing; nobody is blamed."""
    order.samples_missing += unit.outcomes.count(UNDECIDED)
    unit.outcomes = unit.outcomes.replace(UNDECIDED, MISSING)
    close(unit, now_ms)


def close(unit: Unit, now_ms: int) -> None:
    """End a unit."""
    unit.state = UnitState.CLOSED
    unit.closed_at_ms = now_ms


def _with_failure(unit: Unit, owner: str) -> str:
    return json.dumps(sorted({*failures(unit), owner}))
