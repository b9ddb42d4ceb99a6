"""``reliquary scores``: what every miner's weight is, computed from the public record alone."""

from pathlib import Path
from typing import Annotated

import typer

from scripts.cli.failure import Failure, reported


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
    ] = Path("reliquary-epochs"),
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

    import aiohttp

    from protocol.epochs import RecordFault
    from protocol.messages import GatewayIdentity
    from protocol.records import Records, RecordsUnavailable
    from scoring.epochs import scores_at
    from scoring.pay import PayRule
    from scripts.scores import account_lines, score_table

    async def known() -> list:
        hotkey = gateway_hotkey
        if hotkey is None:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{gateway.rstrip('/')}/nodes/v1/gateway") as answer,
            ):
                hotkey = GatewayIdentity.model_validate_json(await answer.read()).hotkey
        return await Records(gateway, hotkey, records / hotkey).update()

    with reported(RecordFault, RecordsUnavailable, aiohttp.ClientError, ValueError, OSError):
        found = asyncio.run(known())
        at = 2**53 if block is None else block
        scored = scores_at(found, at, PayRule())
    if scored is None:
        raise Failure("there is no record of an epoch yet")
    if explain is None:
        score_table(scored)
    elif explain not in scored.accounts:
        raise Failure(f"{explain} did nothing that is on record")
    else:
        for line in account_lines(scored, scored.accounts[explain], PayRule()):
            typer.echo(line)
