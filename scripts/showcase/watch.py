"""Watching a cheat: how its work was judged, and whether the gateway gives it any more."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from openai.types import Batch

from protocol.client import GatewayRefused, NodeClient
from protocol.keys import load_hotkey
from protocol.messages import LeaseRequest, LoadedModel
from scripts.showcase.native import Bill, native_order

# No more leases after too many void samples, or after a conviction by the evidence.
REFUSED_FOR_GOOD = ("miner_suspended", "miner_convicted")


@dataclass(frozen=True)
class Figures:
    """The samples of one or more miners in an order that were judged, by outcome."""

    verified: int = 0
    void: int = 0

    def __str__(self) -> str:
        return f"{self.void} samples void, {self.verified} verified"


class Watch:
    """The audit figures and the bill of one order, read again and again while it runs.

    Args:
        origin: the gateway's origin.
        api_key: of the order's account.
        batch: the order's.
        cheat: the hotkey to watch.
    """

    def __init__(self, origin: str, api_key: str, batch: Batch, cheat: str) -> None:
        self._read = partial(native_order, origin, api_key, batch)
        self._cheat = cheat
        self.cheat = Figures()
        self.others = Figures()
        self.bill: Bill | None = None

    def look(self) -> None:
        """Read the order once."""
        order = self._read()
        rows = order["miners"]
        self.cheat = _sum(row for row in rows if row["hotkey"] == self._cheat)
        self.others = _sum(row for row in rows if row["hotkey"] != self._cheat)
        self.bill = Bill.of(order)


def is_suspended(origin: str, hotkey: Path, model: str, revision: str) -> bool:
    """Ask for a lease in the name of a miner; say whether the gateway refuses it all work.

    Args:
        origin: the gateway's origin.
        hotkey: the miner's hotkey file.
        model, revision: what it would generate with.
    """
    return refusal(origin, hotkey, model, revision) in REFUSED_FOR_GOOD


def refusal(origin: str, hotkey: Path, model: str, revision: str) -> str | None:
    """Ask for a lease in the name of a miner; return the code of the refusal, None without one.

    Args:
        origin, hotkey, model, revision: as of ``is_suspended``.
    """
    return asyncio.run(_refusal(origin, hotkey, model, revision))


async def _refusal(origin: str, hotkey: Path, model: str, revision: str) -> str | None:
    loaded = LoadedModel(model=model, revision=revision)
    async with NodeClient(origin, load_hotkey(hotkey)) as client:
        try:
            lease = await client.lease_generation(LeaseRequest(role="miner", loaded=loaded))
        except GatewayRefused as refused:
            return refused.code
        if lease is not None:
            await client.release(lease.lease_id)
        return None


def _sum(rows: Iterable[Mapping[str, Any]]) -> Figures:
    rows = list(rows)
    return Figures(sum(row["verified"] for row in rows), sum(row["void"] for row in rows))
