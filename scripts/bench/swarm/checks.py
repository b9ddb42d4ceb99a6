"""What the gateway's rows must say when a swarm has done its work."""

import sqlite3
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Rows:
    """What was counted in the gateway's database.

    Attributes:
        units: that were cut.
        leases: by kind and state.
        double: pairs of leases of one kind that were live on one unit at once, second opinions and
            deliberate second attempts left out.
        second: deliberate second attempts at units of slow miners.
        lost: lines of the orders that no unit holds although they were cut, or that several do.
        uncut: usable lines that were not cut into units.
        unverified: samples that are not verified.
    """

    units: int
    leases: dict[str, int]
    double: int
    second: int
    lost: int
    uncut: int
    unverified: int


def read_rows(database: Path) -> Rows:
    """Count what a finished swarm has left in the database of its gateway."""
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        leases = connection.execute(
            "SELECT kind, state, count(*) FROM leases GROUP BY kind, state ORDER BY kind, state"
        ).fetchall()
        units = connection.execute(
            "SELECT order_id, first_line, end_line FROM units WHERE parent_id IS NULL"
        ).fetchall()
        orders = connection.execute(
            "SELECT id, lines_usable, cursor_line, samples_total - samples_verified FROM orders"
        ).fetchall()
        held = connection.execute(
            "SELECT unit_id, kind, granted_at_ms, coalesce(ended_at_ms, 9e15) FROM leases"
            " WHERE review_id IS NULL ORDER BY unit_id, kind, granted_at_ms"
        ).fetchall()
    finally:
        connection.close()
    at_once, third = _overlaps(held)
    return Rows(
        units=len(units),
        leases={f"{kind}, {state}": count for kind, state, count in leases},
        double=third,
        second=at_once,
        lost=sum(_lost(order_id, lines, cut, units) for order_id, lines, cut, _ in orders),
        uncut=sum(lines - cut for _, lines, cut, _ in orders),
        unverified=sum(rest for *_, rest in orders),
    )


def _overlaps(held: list[tuple[str, str, int, float]]) -> tuple[int, int]:
    """Return how many leases began beside one other on their unit, and how many wrongly.

    Wrong is a third one, a second audit, and a second attempt in the first half minute.
    """
    by_unit: defaultdict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for unit_id, kind, granted, ended in held:
        by_unit[unit_id, kind].append((granted, ended))
    second = wrong = 0
    for (_, kind), spans in by_unit.items():
        for place, (granted, _) in enumerate(spans):
            beside = [other for other in spans[:place] if other[1] > granted]
            if not beside:
                continue
            early = granted - beside[0][0] < 30_000
            if len(beside) > 1 or kind == "audit" or early:
                wrong += 1
            else:
                second += 1
    return second, wrong


def _lost(order_id: str, lines: int, cut: int, units: list[tuple[str, int, int]]) -> int:
    """Count the lines that not as many units hold as should: one before ``cut``, none from it."""
    held = [0] * lines
    for owner, first, end in units:
        if owner == order_id:
            for line in range(first, end):
                held[line] += 1
    return sum(count != (line < cut) for line, count in enumerate(held))
