"""``reliquary scores``: what every miner's weight is, computed from the public record alone."""

from pathlib import Path
from typing import Annotated

import typer

from scripts.cli.failure import Failure, reported

RECORDS = Path(typer.get_app_dir("reliquary"), "epochs")


def scores(
    gateway: Annotated[
        str, typer.Option(envvar="RELIQUARY_GATEWAY_URL", help="Origin of the gateway.")
    ],
    gateway_hotkey: Annotated[
        str | None,
        typer.Option(help="Whose records they must be; by default whoever answers there."),
    ] = None,
    records: Annotated[
        Path, typer.Option(help="Folder that keeps the records, so that a change is noticed.")
    ] = RECORDS,
    block: Annotated[
        int | None, typer.Option(min=0, help="As of this block; by default all records count.")
    ] = None,
    explain: Annotated[
        str | None, typer.Option(metavar="HOTKEY", help="Show how this miner's score came about.")
    ] = None,
) -> None:
    """Show all miners' scores, or why one miner has its own, line by line.

    Verified is what an audit passed; paid is what weights on the chain make of the score.
    """
    import asyncio

    from bittensor_core import Keypair

    from protocol.client import GatewayRefused, GatewayUnavailable, NodeClient
    from protocol.epochs import EpochRecord, RecordFault
    from protocol.records import Records, RecordsUnavailable
    from scoring.epochs import scores_at
    from scoring.pay import PayRule
    from scripts.scores import account_lines, score_table

    async def known() -> list[EpochRecord]:
        hotkey = gateway_hotkey
        if hotkey is None:
            # Who the gateway is it tells everybody; the client wants a key all the same.
            nobody = Keypair.create_from_mnemonic(Keypair.generate_mnemonic())
            async with NodeClient(gateway, nobody, attempts=1) as client:
                hotkey = (await client.identity()).hotkey
        return await Records(gateway, hotkey, records / hotkey).update()

    with reported(RecordFault, RecordsUnavailable, GatewayRefused, GatewayUnavailable, OSError):
        found = asyncio.run(known())
    newest = found[-1].statement.block if found else 0
    scored = scores_at(found, newest if block is None else block, PayRule())
    if scored is None:
        raise Failure("there is no record of an epoch yet")
    if explain is None:
        score_table(scored)
    elif explain not in scored.accounts:
        raise Failure(f"{explain} did nothing that is on record")
    else:
        for line in account_lines(scored, scored.accounts[explain], PayRule()):
            typer.echo(line)
