"""The customer of the network of strangers: keeps orders waiting until it is told to stop."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import product
from pathlib import Path

from openai import OpenAI
from openai.types import Batch

from scripts.fetch import fetch
from scripts.showcase.customer import ENDED, place
from scripts.showcase.native import Bill, native_order
from scripts.strangers.cast import UNIT_SAMPLES
from scripts.up.network import Network
from scripts.up.plans import MODEL

ENDPOINT = "/v1/chat/completions"
LINES = 10
MAX_TOKENS = 48
OPEN_ORDERS = 2
HEROES = ("a fox", "a robot", "a sailor", "a ghost", "a wizard", "a queen", "a whale", "a baker")
THINGS = ("a lantern", "a compass", "a castle", "a storm", "a river", "a coin", "a bridge")


@dataclass
class Order:
    """One batch, its file, and how far it is."""

    number: int
    file: Path
    batch: Batch
    delivered: int = 0
    bill: Bill | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self.batch.status in ENDED


@dataclass
class Customer:
    """Places orders through the ``openai`` client and fetches what comes back.

    Args:
        network: that is up.
        out: folder for the files that are ordered and the deliveries.
    """

    network: Network
    out: Path
    orders: list[Order] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._client = OpenAI(base_url=self.network.base_url, api_key=self.network.api_key)
        (self.out / "orders").mkdir(parents=True, exist_ok=True)

    def order_more(self) -> None:
        """Place orders until enough are open.

        Raises:
            DemoError: the gateway refused one.
        """
        while sum(not order.ended for order in self.orders) < OPEN_ORDERS:
            number = len(self.orders) + 1
            file = self.out / "orders" / f"order-{number}.jsonl"
            file.write_text("".join(f"{json.dumps(row)}\n" for row in lines_of(number)))
            batch = place(self._client, file, ENDPOINT, MODEL, self.network.revision)
            self.orders.append(Order(number, file, batch))

    def look(self) -> None:
        """Ask how far the open orders are, and fetch the deliveries of those that ended.

        Raises:
            FetchError: a delivery cannot be fetched.
        """
        for order in self.orders:
            if order.ended:
                continue
            order.batch = self._client.batches.retrieve(order.batch.id)
            if order.batch.status == "completed":
                folder = self.out / "deliveries" / f"order-{order.number}"
                manifest = fetch(
                    self.network.base_url, self.network.api_key, order.batch.id, folder
                )
                order.bill = Bill.of(
                    native_order(self.network.origin, self.network.api_key, order.batch)
                )
                order.delivered = manifest.statement.counts.lines_completed

    @property
    def idle(self) -> bool:
        """Whether all orders have ended."""
        return all(order.ended for order in self.orders)

    @property
    def lines_done(self) -> int:
        """Lines that are generated and verified so far."""
        return sum(
            0 if order.batch.request_counts is None else order.batch.request_counts.completed
            for order in self.orders
        )

    @property
    def lines_ordered(self) -> int:
        """Lines of all orders; every one is good."""
        return LINES * len(self.orders)


def charged(orders: Sequence[Order]) -> Decimal:
    """Return what the orders were charged together, in USD."""
    bills = (order.bill for order in orders)
    return sum((Decimal(bill.charged) for bill in bills if bill is not None), Decimal(0))


def lines_of(number: int) -> list[dict]:
    """Return the lines of an order: no two orders begin at the same prompt."""
    pairs = list(product(HEROES, THINGS))
    chosen = [pairs[(number * LINES + place) % len(pairs)] for place in range(LINES)]
    return [
        {
            "custom_id": f"tale-{place}",
            "method": "POST",
            "url": ENDPOINT,
            "body": {
                "model": MODEL,
                "messages": [
                    {"role": "user", "content": f"Tell me a long tale about {hero} and {thing}."}
                ],
                "n": UNIT_SAMPLES,
                "temperature": 1.0,
                "max_tokens": MAX_TOKENS,
                "chat_template_kwargs": {"enable_thinking": False},
            },
        }
        for place, (hero, thing) in enumerate(chosen, 1)
    ]
