"""The ``reliquary`` command and its parts."""

import sys

import typer

from scripts.cli import (
    accounts,
    batch,
    bench,
    calibrate,
    chain,
    doctor,
    fetch,
    gateway,
    hub,
    keys,
    ledger,
    miner,
    network,
    scores,
    validator,
    verify,
)
from scripts.cli.failure import Failure
from scripts.cli.forward import REST

app = typer.Typer(
    name="reliquary",
    help="Verified batch inference: every token audited against a public forced draw.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("up", epilog=network.KINDS_OF_CHEAT)(network.up)
app.command("gateway")(gateway.gateway)
app.command("fetch")(fetch.fetch)
app.command("verify")(verify.verify)
app.command("scores")(scores.scores)
app.command("hub")(hub.hub)
app.command("tiny-model", context_settings=REST)(hub.tiny_model)
app.command("calibrate", context_settings=REST)(calibrate.calibrate)
app.add_typer(miner.miner, name="miner")
app.add_typer(validator.validator, name="validator")
app.add_typer(batch.batch, name="batch")
app.add_typer(doctor.doctor, name="doctor")
app.add_typer(keys.keys, name="keys")
app.add_typer(accounts.accounts, name="accounts")
app.add_typer(ledger.ledger, name="ledger")
app.add_typer(chain.chain, name="chain")
app.add_typer(bench.bench, name="bench")


def main() -> None:
    """Run the command line; a user's mistake ends in one line and a status, no traceback."""
    try:
        app(prog_name="reliquary")
    except Failure as failure:
        print(f"reliquary: {failure}", file=sys.stderr)
        sys.exit(failure.status)
    except KeyboardInterrupt:
        sys.exit(130)
