"""Watching a cheat: how its work was judged, and whether the gateway gives it any more."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from protocol.client import GatewayRefused, NodeClient
from protocol.keys import load_hotkey
from protocol.messages import LeaseRequest, LoadedModel

ANSWER_SECONDS = 30.0
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
    """The audit figures of one order, read again and again while it runs.

    Args:
        origin: the gateway's origin.
        api_key: of the order's account.
        order_id: the batch's id without ``batch_``.
        cheat: the hotkey to watch.
    """

    def __init__(self, origin: str, api_key: str, order_id: str, cheat: str) -> None:
        self._url = f"{origin}/api/v1/dataset-orders/{order_id}"
        self._headers = {"Authorization": f"Bearer {api_key}"}
        self._cheat = cheat
        self.cheat = Figures()
        self.others = Figures()

    def look(self) -> None:
        """Read the figures once."""
        request = Request(self._url, headers=self._headers)
        with urlopen(request, timeout=ANSWER_SECONDS) as answer:
            rows = json.load(answer)["miners"]
        self.cheat = _sum(row for row in rows if row["hotkey"] == self._cheat)
        self.others = _sum(row for row in rows if row["hotkey"] != self._cheat)


def is_suspended(origin: str, hotkey: Path, model: str, revision: str) -> bool:
    """Ask for a lease in the name of a miner; say whether the gateway refuses it all work.

    Args:
        origin: the gateway's origin.
        hotkey: the miner's hotkey file.
        model, revision: what it would generate with.
    """
    return asyncio.run(_is_suspended(origin, hotkey, model, revision))


async def _is_suspended(origin: str, hotkey: Path, model: str, revision: str) -> bool:
    loaded = LoadedModel(model=model, revision=revision)
    async with NodeClient(origin, load_hotkey(hotkey)) as client:
        try:
            lease = await client.lease_generation(LeaseRequest(role="miner", loaded=loaded))
        except GatewayRefused as refusal:
            return refusal.code in REFUSED_FOR_GOOD
        if lease is not None:
            await client.release(lease.lease_id)
        return False


def _sum(rows: Iterable[Mapping[str, Any]]) -> Figures:
    rows = list(rows)
    return Figures(sum(row["verified"] for row in rows), sum(row["void"] for row in rows))
