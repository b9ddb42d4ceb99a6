"""Watching a cheat: how much of its work was judged, and whether it got any more."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

# The gateway's rule: no further lease with so many void samples that are over so large a share.
VOID_SAMPLES = 3
VOID_SHARE = 0.2
ANSWER_SECONDS = 30.0


@dataclass(frozen=True)
class Figures:
    """The samples of one miner in an order that were judged, by outcome."""

    verified: int = 0
    void: int = 0

    @property
    def judged(self) -> int:
        """All of them."""
        return self.verified + self.void


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
        self._others_then = Figures()

    def look(self) -> None:
        """Read the figures once."""
        rows = json.loads(self._get(""))["miners"]
        cheat = _sum(row for row in rows if row["hotkey"] == self._cheat)
        self.others = _sum(row for row in rows if row["hotkey"] != self._cheat)
        if cheat != self.cheat:
            self.cheat, self._others_then = cheat, self.others

    def caught(self) -> bool:
        """Say whether the cheat has as many void samples as end its leases."""
        return self.cheat.void >= VOID_SAMPLES and self.cheat.void > VOID_SHARE * self.cheat.judged

    def refused(self) -> bool:
        """Say whether the cheat is caught and others have worked on while it got nothing."""
        return self.caught() and self.others.judged > self._others_then.judged

    def receipts(self) -> bytes:
        """Return the receipts of the ended order, JSONL."""
        return self._get("/receipts")

    def _get(self, path: str) -> bytes:
        request = Request(self._url + path, headers=self._headers)
        with urlopen(request, timeout=ANSWER_SECONDS) as answer:
            return answer.read()


def _sum(rows: Any) -> Figures:
    rows = list(rows)
    return Figures(sum(row["verified"] for row in rows), sum(row["void"] for row in rows))
