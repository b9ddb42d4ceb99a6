"""An order as the gateway's native routes show it: its miners' figures and its money."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.request import Request, urlopen

from openai.types import Batch

ANSWER_SECONDS = 30.0


@dataclass(frozen=True)
class Bill:
    """What an order was priced at, in USD as the gateway writes it.

    Attributes:
        price: reserved when it was placed.
        charged: for what was verified.
        refunded: given back; None while the order is open.
    """

    price: str
    charged: str
    refunded: str | None

    @classmethod
    def of(cls, order: Mapping[str, Any]) -> Self:
        """Return the bill of an order."""
        return cls(order["price_usd"], order["charged_usd"], order["refunded_usd"])

    def __str__(self) -> str:
        back = "" if self.refunded is None else f", {self.refunded} USD given back"
        return f"{self.price} USD reserved, {self.charged} USD charged{back}"


def native_order(origin: str, api_key: str, batch: Batch) -> dict[str, Any]:
    """Return the order of a batch.

    Args:
        origin: the gateway's origin.
        api_key: of the order's account.

    Raises:
        OSError: the gateway does not answer.
    """
    url = f"{origin}/api/v1/dataset-orders/{batch.id.removeprefix('batch_')}"
    request = Request(url, headers={"Authorization": f"Bearer {api_key}"})
    with urlopen(request, timeout=ANSWER_SECONDS) as answer:
        return json.load(answer)
