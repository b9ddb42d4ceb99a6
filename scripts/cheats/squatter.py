"""A node that takes leases and never answers (``python -m scripts.cheats.squatter``).

It needs no engine: it says that it has loaded whatever is asked for, takes as many leases as it is
given, sends no heartbeats, and keeps the work from others until the leases lapse.
"""

import argparse
import asyncio
from importlib.metadata import version
from pathlib import Path

import structlog

from protocol.architectures import SUPPORTED_ARCHITECTURES
from protocol.client import GatewayRefused, GatewayUnavailable, NodeClient
from protocol.keys import load_or_create_hotkey
from protocol.messages import Announcement, LeaseRequest, LoadedModel, Stack
from scripts.cli.logs import configure_logs

PAUSE_SECONDS = 2.0

log = structlog.get_logger()


async def squat(client: NodeClient) -> None:
    """Announce, lease, forget; until cancelled."""
    loaded: LoadedModel | None = None
    await _announce(client, loaded)
    log.info("announced", loaded="nothing")
    while True:
        try:
            if loaded is None:
                board = (await client.demand()).demands
                if board:
                    loaded = LoadedModel(model=board[0].model, revision=board[0].revision)
                    await _announce(client, loaded)
            elif lease := await client.lease_generation(LeaseRequest(role="miner", loaded=loaded)):
                log.info("lease taken", unit=lease.work.unit_id)
                continue
        except GatewayRefused as error:
            log.warning("turned away", code=error.code)
        except GatewayUnavailable as error:
            log.warning("gateway away", reason=str(error))
        await asyncio.sleep(PAUSE_SECONDS)


async def _announce(client: NodeClient, loaded: LoadedModel | None) -> None:
    stack = Stack(
        engine="transformers",
        version=version("transformers"),
        dtype="bfloat16",
        head_dtype="float32",
        device="cpu",
    )
    await client.announce(
        Announcement(
            role="miner", stack=stack, architectures=list(SUPPORTED_ARCHITECTURES), loaded=loaded
        )
    )


async def _run(gateway: str, hotkey: Path) -> None:
    async with NodeClient(gateway, load_or_create_hotkey(hotkey)) as client:
        await squat(client)


def main() -> None:
    """Read the command line and squat until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gateway", required=True, help="origin of the gateway")
    parser.add_argument("--hotkey", required=True, type=Path, help="hotkey file")
    given = parser.parse_args()
    configure_logs()
    asyncio.run(_run(given.gateway, given.hotkey))


if __name__ == "__main__":
    main()
