"""What a swarm's run comes to, as tables and sentences."""

from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from scripts.bench.swarm.account import OUTSIDE, Account
from scripts.bench.swarm.checks import Rows
from scripts.bench.swarm.nodes import ANNOUNCE_SECONDS, Measured


@dataclass(frozen=True)
class Assumed:
    """What is assumed of the nodes, not measured: mean seconds that a unit takes each."""

    miners: int
    validators: int
    miner_seconds: float
    validator_seconds: float

    def sentence(self) -> str:
        """Return it in words."""
        return (
            f"assumed: a unit takes a miner {self.miner_seconds:g} s and a validator "
            f"{self.validator_seconds:g} s, each half as long to half as long again; one "
            f"announcement in {ANNOUNCE_SECONDS:.0f} s; {self.miners} miners at work all the time "
            f"ask for {4 * self.miners / self.miner_seconds:.1f} leases, results and verdicts a "
            "second, besides heartbeats"
        )


@dataclass(frozen=True)
class Used:
    """What a run took: seconds of the clock, processor seconds, and bytes of memory.

    ``gateway`` is of the gateway and its workers, ``nodes`` of all nodes together.
    """

    wall: float
    gateway: float
    nodes: float
    peak_bytes: int


def print_report(
    assumed: Assumed, measured: Measured, rows: Rows, account: Account, used: Used
) -> None:
    """Print all of it."""
    requests = sum(map(len, measured.seconds.values()))
    console = Console(width=100)
    console.print(assumed.sentence())
    console.print(_latencies(measured, used.wall))
    console.print(_processor(account, used))
    console.print(
        f"{used.wall:.0f} s; {requests / used.wall:.1f} requests and "
        f"{measured.tokens / used.wall:,.0f} tokens a second; the gateway used {used.gateway:.1f} "
        f"s of processor time, {1000 * used.gateway / requests:.1f} ms a request, and "
        f"{used.peak_bytes / 1e6:.0f} MB at its peak; the nodes used {used.nodes:.1f} s"
    )
    console.print(
        f"{rows.units} units; leases: {rows.leases}; {measured.waited} of them were waited for\n"
        f"double leases: {rows.double}; second attempts at slow miners' units: {rows.second}; "
        f"lost lines: {rows.lost}; lines not cut into units yet: {rows.uncut}; samples not "
        f"verified yet: {rows.unverified}"
    )


def _latencies(measured: Measured, wall: float) -> Table:
    table = Table(title="requests as nodes saw them")
    for heading in ("request", "number", "a second", "p50 ms", "p99 ms", "longest ms"):
        table.add_column(heading, justify="right" if heading != "request" else "left")
    for kind, seconds in sorted(measured.seconds.items()):
        p50, p99 = np.quantile(seconds, (0.5, 0.99))
        figures = (f"{1000 * value:.0f}" for value in (p50, p99, max(seconds)))
        table.add_row(kind, str(len(seconds)), f"{len(seconds) / wall:.1f}", *figures)
    return table


def _processor(account: Account, used: Used) -> Table:
    """Return where the gateway's processor time went; a lease that waits is one request."""
    table = Table(title="processor time of the gateway")
    for heading in ("route", "requests", "SQL each", "loop ms each", "s in all"):
        table.add_column(heading, justify="right" if heading != "route" else "left")
    for route, seconds in sorted(account.seconds.items(), key=lambda item: -item[1]):
        if route == OUTSIDE:
            continue
        requests, statements = account.requests.get(route), account.statements.get(route, 0)
        if requests is None:
            table.add_row(route, "", f"{statements} in all", "", f"{seconds:.1f}")
            continue
        each = f"{1000 * seconds / requests:.1f}"
        table.add_row(route, str(requests), f"{statements / requests:.1f}", each, f"{seconds:.1f}")
    counted = sum(account.seconds.values())
    for name, seconds in (
        ("sockets, and what is of none of these", account.seconds.get(OUTSIDE, 0.0)),
        ("the event loop itself", account.loop - counted),
        ("threads: SQLite and objects", account.threads),
        ("worker processes", used.gateway - account.loop - account.threads),
    ):
        table.add_row(name, "", "", "", f"{seconds:.1f}")
    return table
