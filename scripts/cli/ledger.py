"""``reliquary ledger``: the books of a gateway."""

from typing import TYPE_CHECKING

import typer

from scripts.cli.failure import Failure
from scripts.cli.stored import Data, with_store

if TYPE_CHECKING:
    from gateway.ledger.check import Report

ledger = typer.Typer(help="The customers' money.", no_args_is_help=True)


@ledger.callback()
def _group() -> None:
    """Keep ``check`` a command of its own, though it is the only one."""


@ledger.command("check")
def check(data: Data = None) -> None:
    """Compute all sums and charges again from transfers and verdicts; name what is off.

    The exit status is 0 where the books are right. The gateway may be serving meanwhile.
    """
    from gateway.ledger import check as books
    from gateway.ledger.money import usd_of

    report: Report = with_store(data, books.check)
    for fault in report.faults:
        typer.echo(fault)
    if report.faults:
        raise Failure(f"the ledger is off in {len(report.faults)} places")
    typer.echo(
        f"OK: {report.accounts} accounts, {report.transfers} transfers, {report.orders} orders; "
        f"credited {usd_of(report.credited)} USD, charged {usd_of(report.charged)} USD, "
        f"reserved {usd_of(report.reserved)} USD"
    )
