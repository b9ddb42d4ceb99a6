"""The demo of a whole network from start to end."""

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from protocol.chain.local import LocalChain
from protocol.keys import load_hotkey
from scripts.showcase.customer import DemoError
from scripts.showcase.story import show_own
from scripts.showcase.watch import refusal
from scripts.strangers.cast import (
    EPOCH_SECONDS,
    VALIDATORS,
    cast_of,
    make_chain,
    network_plan,
)
from scripts.strangers.figures import Figures, figures_of, last_scores, of
from scripts.strangers.judging import conditions
from scripts.strangers.orders import Customer, charged
from scripts.strangers.picture import draw_network
from scripts.strangers.tables import (
    account_table,
    epoch_heading,
    epoch_row,
    show_cast,
    show_conditions,
)
from scripts.strangers.weights import WeightWatch
from scripts.up.network import Network
from scripts.up.plans import MODEL

POLL_SECONDS = 1.0
# How long the first weights may take, models' loading included, and each further epoch's.
FIRST_SECONDS, NEXT_SECONDS = 300.0, 120.0
STANDINGS = {
    None: "given work",
    "miner_convicted": "banned: convicted",
    "miner_suspended": "refused: suspended",
    "leases_unanswered": "refused: leases unanswered",
}
PICTURE, FIGURES = "network.png", "network.json"


def run(epochs: int, out: Path, console: Console) -> bool:
    """Run the demo and say whether all of it went as it should.

    Args:
        epochs: with orders; the last weights come some epochs later.
        out: folder for orders, deliveries, records, picture and logs.
        console: where the story is told.

    Raises:
        DemoError: the gateway refuses an order, or no weights come.
        NetworkError: the network does not start or breaks down.
        ChainError, RecordsUnavailable, RecordFault: what happened cannot be read.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="reliquary-demo-") as data:
        plan = network_plan(Path(data))
        network = Network(plan, lambda line: show_own(console, line))
        network.layout.make()
        chain = make_chain(network.layout.chain, time.time)
        try:
            console.print(
                f"Starting a gateway, {len(plan.miners)} miners and {VALIDATORS} validators, each "
                "a process of its own. The miners compute on one copy of the model, the "
                "validators each on their own."
            )
            with _up(network):
                return _Demo(network, chain, epochs, out, console).run()
        finally:
            shutil.copytree(network.layout.logs, out / "logs", dirs_exist_ok=True)


@contextmanager
def _up(network: Network) -> Iterator[None]:
    network.start()
    try:
        yield
    finally:
        network.stop()


@dataclass
class _Demo:
    """One run on a network that is up."""

    network: Network
    chain: LocalChain
    wanted: int
    out: Path
    console: Console

    def __post_init__(self) -> None:
        network = self.network
        _, validators = network.plan.node_names()
        self._cast = cast_of(network.hotkey)
        self._customer = Customer(network, self.out)
        self._watch = WeightWatch(
            self.chain,
            network.origin,
            load_hotkey(network.layout.gateway / "hotkey.json").ss58_address,
            {name: network.hotkey(name) for name in validators},
            self.out / "records",
        )
        self._idle_since: float | None = None

    def run(self) -> bool:
        """Order, watch, show; say whether all went as it should."""
        began = time.monotonic()
        show_cast(self.console, self._cast)
        self.console.print(
            f"An epoch of the record and of the chain takes {EPOCH_SECONDS} s. Sending orders "
            "through the `openai` client; the first weights come once models are loaded and the "
            "first record is settled."
        )
        self._follow()
        good = self._tell()
        self.console.print(f"{time.monotonic() - began:.0f} s since all nodes were there.")
        return good

    def _follow(self) -> None:
        """Keep orders open for as many epochs as are wanted, then wait for the last weights."""
        self.console.print(epoch_heading(self._cast), highlight=False)
        deadline = time.monotonic() + FIRST_SECONDS
        with self._bar() as bar:
            task = bar.add_task("", total=None)
            while not self._settled():
                self.network.check()
                if len(self._watch.epochs) < self.wanted:
                    self._customer.order_more()
                self._customer.look()
                for epoch in asyncio.run(self._watch.look()):
                    deadline = time.monotonic() + NEXT_SECONDS
                    figures = figures_of(self._watch.records)
                    row = epoch_row(epoch, self._cast, figures, VALIDATORS)
                    bar.console.print(row, highlight=False, soft_wrap=True)
                self._show_progress(bar, task)
                if time.monotonic() > deadline:
                    raise DemoError(f"the validators set no weights; see {self.out / 'logs'}")
                time.sleep(POLL_SECONDS)

    def _settled(self) -> bool:
        """Say whether the newest weights are of everything that was ordered."""
        epochs = self._watch.epochs
        if len(epochs) < self.wanted or not self._customer.idle:
            return False
        if self._idle_since is None:
            self._idle_since = time.time()
        return epochs[-1].record >= int(self._idle_since // EPOCH_SECONDS)

    def _bar(self) -> Progress:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("lines verified"),
            TimeElapsedColumn(),
        )
        return Progress(*columns, console=self.console, transient=True)

    def _show_progress(self, bar: Progress, task: TaskID) -> None:
        customer, epochs = self._customer, len(self._watch.epochs)
        if epochs < self.wanted:
            what = f"epoch {epochs + 1} of {self.wanted}"
        else:
            what = "last weights" if customer.idle else "last orders"
        bar.update(
            task, description=what, completed=customer.lines_done, total=customer.lines_ordered
        )

    def _tell(self) -> bool:
        """Show the accounts, draw the picture, write the figures, and judge."""
        watch = self._watch
        asyncio.run(watch.update_records())
        figures = figures_of(watch.records)
        table = account_table(self._cast, watch.epochs, figures, self._standing())
        self.console.print(table)
        orders = self._customer.orders
        self.console.print(
            f"The customer was charged {charged(orders)} USD for {len(orders)} orders.",
            highlight=False,
        )
        draw_network(self._cast, watch.epochs, figures, self.out / PICTURE)
        self._write(figures)
        self.console.print(
            f"{PICTURE}, {FIGURES}, the public record, orders, deliveries and logs are in "
            f"{self.out}"
        )
        scored = last_scores(watch.records, watch.epochs)
        found = conditions(self._cast, watch.epochs, figures, scored, orders, VALIDATORS)
        return show_conditions(self.console, found)

    def _standing(self) -> dict[str, str]:
        """Return what the gateway answers each miner that asks for work."""
        network = self.network
        answers: dict[str, str] = {}
        for one in self._cast:
            hotkey = network.layout.hotkey(one.name)
            code = refusal(network.origin, hotkey, MODEL, network.revision)
            answers[one.hotkey] = STANDINGS.get(code, f"refused: {code}")
        return answers

    def _write(self, figures: Mapping[str, Figures]) -> None:
        miners = [asdict(one) | asdict(of(figures, one.hotkey)) for one in self._cast]
        epochs = [asdict(epoch) for epoch in self._watch.epochs]
        text = json.dumps({"miners": miners, "epochs": epochs}, indent=1)
        (self.out / FIGURES).write_text(f"{text}\n")
