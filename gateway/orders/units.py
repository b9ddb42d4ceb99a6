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
    )


def child_unit(order: Order, parent: Unit, places: list[int], miner: str, now_ms: int) -> Unit:
    """Return a unit of the samples at ``places`` of ``parent``, which were void as ``miner``'s."""
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
        failed_by=_with_failure(parent, miner),
        created_at_ms=now_ms,
    )


def failures(unit: Unit) -> list[str]:
    """Return the hotkeys of the miners that failed this unit or one it descends from."""
    return json.loads(unit.failed_by)


def reopen(order: Order, unit: Unit, now_ms: int) -> None:
    """Offer a unit again, where its order still generates; else close it."""
    if order.status == OrderStatus.IN_PROGRESS:
        unit.state = UnitState.OPEN
    else:
        close(unit, now_ms)


def fail_try(order: Order, unit: Unit, miner: str, now_ms: int) -> None:
    """Offer a unit again that ``miner`` did not deliver; after ``MAX_TRIES`` give it up."""
    unit.tries += 1
    unit.failed_by = _with_failure(unit, miner)
    if unit.tries >= MAX_TRIES:
        give_up(order, unit, now_ms)
    else:
        reopen(order, unit, now_ms)


def audit_again(order: Order, unit: Unit, now_ms: int) -> None:
    """Offer a unit's result for another audit; after ``MAX_AUDITS`` give up what is undecided."""
    unit.audits += 1
    if unit.audits >= MAX_AUDITS:
        give_up(order, unit, now_ms)
    else:
        unit.state = UnitState.SUBMITTED


def give_up(order: Order, unit: Unit, now_ms: int) -> None:
    """Close a unit and count its undecided samples as missing; nobody is blamed."""
    order.samples_missing += unit.outcomes.count(UNDECIDED)
    unit.outcomes = unit.outcomes.replace(UNDECIDED, MISSING)
    close(unit, now_ms)


def close(unit: Unit, now_ms: int) -> None:
    """End a unit."""
    unit.state = UnitState.CLOSED
    unit.closed_at_ms = now_ms


def _with_failure(unit: Unit, miner: str) -> str:
    return json.dumps(sorted({*failures(unit), miner}))
