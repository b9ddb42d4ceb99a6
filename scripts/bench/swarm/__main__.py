"""200 miners and 20 validators against one gateway on SQLite (``nodes.py`` says what they fake).

Measured is what a node sees of a request for work that is answered at once: its signature, the way
to the gateway and back, and all that the gateway does. What a node waits because there is no work
is not in it. Gateway and nodes share the machine.
"""

import asyncio
import random
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from bittensor_core import Keypair

from gateway.memory import keep_what_is_there
from protocol.chain.local import LocalChain
from protocol.messages import LoadedModel
from scripts.bench.intake.files import MODEL, write_file
from scripts.bench.intake.gateway import running_gateway
from scripts.bench.intake.model import write_model
from scripts.bench.swarm import account
from scripts.bench.swarm.checks import read_rows
from scripts.bench.swarm.nodes import Measured, SwarmNode
from scripts.bench.swarm.report import Assumed, Used, print_report
from scripts.hub import HubServer, publish

LINE_BYTES = 700
SEED = 7
TIMED = "scripts.bench.swarm.timed"


def main() -> None:
    """Read the command line and measure."""

    def command(
        miners: Annotated[int, typer.Option(help="Miners.")] = 200,
        validators: Annotated[int, typer.Option(help="Validators.")] = 20,
        lines: Annotated[int, typer.Option(help="Lines of each of the two orders.")] = 10_000,
        unit_seconds: Annotated[float, typer.Option(help="What a unit takes a miner.")] = 20.0,
        at_most: Annotated[float, typer.Option(help="Seconds after which it ends.")] = 900.0,
    ) -> None:
        run(miners, validators, lines, unit_seconds, at_most)

    typer.run(command)


def run(miners: int, validators: int, lines: int, unit_seconds: float, at_most: float) -> None:
    """Order twice, let the swarm do it, and print what was measured and counted."""
    measured = Measured()
    # Validators together are twice as fast as miners are.
    assumed = Assumed(miners, validators, unit_seconds, unit_seconds * validators / miners / 2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder / "model")
        revision = publish(folder / "hub", MODEL, folder / "model")
        write_file(folder / "lines.jsonl", lines, lines * LINE_BYTES)
        loaded = LoadedModel(model=MODEL, revision=revision)
        written = folder / "account.json"
        keeps_account = {account.VARIABLE: str(written)}
        with (
            HubServer(folder / "hub") as hub,
            running_gateway(folder, hub.url, TIMED, keeps_account) as gateway,
        ):
            keys = _register(folder / "gateway" / "chain.sqlite", miners, validators)
            for _ in range(2):
                gateway.order(gateway.upload(folder / "lines.jsonl"))
            chance = random.Random(SEED)
            nodes = [
                SwarmNode(
                    gateway.url,
                    key,
                    "miner" if place < miners else "validator",
                    loaded,
                    assumed.miner_seconds if place < miners else assumed.validator_seconds,
                    measured,
                    random.Random(chance.random()),
                )
                for place, key in enumerate(keys)
            ]
            database = folder / "gateway" / "gateway.sqlite"
            # The nodes' own collections of garbage are not to be measured.
            keep_what_is_there()
            account.begin(gateway.process_id)
            before = gateway.used(), time.process_time(), time.monotonic()
            asyncio.run(_until_done(nodes, database, at_most))
            used = Used(
                wall=time.monotonic() - before[2],
                gateway=gateway.used() - before[0],
                nodes=time.process_time() - before[1],
                peak_bytes=gateway.peak(),
            )
            ended = account.end(gateway.process_id, written)
            print_report(assumed, measured, read_rows(database), ended, used)


def _register(chain: Path, miners: int, validators: int) -> list[Keypair]:
    """Register that many hotkeys, each of an owner of its own."""
    subnet = LocalChain(chain, time.time)
    keys = []
    for place in range(miners + validators):
        key = Keypair.create_from_mnemonic(Keypair.generate_mnemonic())
        subnet.register(key.ss58_address, f"owner {place}", validator_permit=place >= miners)
        keys.append(key)
    return keys


async def _until_done(nodes: list[SwarmNode], database: Path, at_most: float) -> None:
    """Run all nodes until every sample is verified.

    Raises:
        ExceptionGroup: a node met what it must not meet.
    """
    async with asyncio.TaskGroup() as tasks:
        working = [tasks.create_task(node.run()) for node in nodes]
        for _ in range(round(at_most)):
            if not await asyncio.to_thread(_is_unfinished, database):
                break
            await asyncio.sleep(1)
        for task in working:
            task.cancel()


def _is_unfinished(database: Path) -> bool:
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        sums = "SELECT sum(samples_total - samples_verified - samples_missing) FROM orders"
        return connection.execute(sums).fetchone()[0] > 0
    finally:
        connection.close()


if __name__ == "__main__":
    main()
