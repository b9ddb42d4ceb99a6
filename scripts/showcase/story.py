"""The demo from start to end.

The honest miners start once the cheat has taken a lease: so it surely gets work, and they finish
what it spoiled.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openai import OpenAI
from openai.types import Batch
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from protocol.messages import EngineName
from scripts.fetch import FetchError, fetch
from scripts.showcase.customer import Delivery, check_input, follow, place
from scripts.showcase.outcome import audit_again, judge, show_delivery
from scripts.showcase.watch import Watch, is_suspended
from scripts.up.network import OWN_NAME, Network
from scripts.up.plans import MODEL, MinerPlan, NetworkPlan

EXAMPLE = Path(__file__).parent / "example.jsonl"
CHEAT = "own-random-numbers"
HONEST_NODES = ("miner-1", "miner-2")
CHEAT_NODE = "miner-3"
EARLY_NODES = (CHEAT_NODE, "validator-1")
UNIT_SAMPLES = 4
PROBES = 3
TALES_SAMPLES = 24


def run(file: Path, out: Path, engine: EngineName, console: Console) -> bool:
    """Run the demo and say whether all of it went as it should.

    Args:
        file: the customer's batch file.
        out: folder for what is delivered and for the logs.
        engine: of all miners.
        console: where the story is told.

    Raises:
        DemoError: the file cannot be used or is refused.
        NetworkError: the network does not start or breaks down.
    """
    endpoint = check_input(file, MODEL)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="reliquary-demo-") as data:
        honest = MinerPlan(engine)
        plan = NetworkPlan(
            data=Path(data),
            port=0,
            miners=(honest, honest, MinerPlan(engine, CHEAT)),
            unit_samples=UNIT_SAMPLES,
        )
        network = Network(plan, lambda line: show_own(console, line))
        try:
            return _Demo(network, out, console).run(file, endpoint)
        finally:
            if network.layout.logs.exists():
                shutil.copytree(network.layout.logs, out / "logs", dirs_exist_ok=True)


def show_own(console: Console, line: str) -> None:
    """Show what the network says of itself; the roles' own lines are in their logs."""
    if line.startswith(f"{OWN_NAME} "):
        console.print(f"  {escape(line)}", style="dim", highlight=False)


class _Demo:
    """One run of the demo on a network that is not started yet."""

    def __init__(self, network: Network, out: Path, console: Console) -> None:
        self._network = network
        self._out = out
        self._console = console

    def run(self, file: Path, endpoint: str) -> bool:
        """Start the network, order, audit again, show; say whether all went as it should."""
        began = time.monotonic()
        network, say = self._network, self._console.print
        say(f"Starting hub, gateway, validator and {CHEAT_NODE}, which will cheat ...")
        with _started(network):
            say(f"Gateway at {network.base_url} after {time.monotonic() - began:.0f} s.")
            say(f"Sending {file}; the honest miners start once the cheat has work.")
            client = OpenAI(base_url=network.base_url, api_key=network.api_key)
            batch = self._place(client, file, endpoint)
            network.await_lease(CHEAT_NODE)
            network.start_nodes(HONEST_NODES)
            batch, watch = self._follow(client, batch)
            delivery = self._fetch(batch)
            say("Verifying the delivery, every token drawn again, in a process of its own ...")
            audit = audit_again(delivery, file, network)
            refused = self._suspended() or self._refused_later(client)
        names = {network.hotkey(name): name for name in (*HONEST_NODES, CHEAT_NODE)}
        show_delivery(self._console, delivery, audit, names)
        say(f"price of the batch: {watch.bill}", highlight=False)
        say(f"{CHEAT_NODE} (the cheat): {watch.cheat}")
        say(f"{' and '.join(HONEST_NODES)} (honest): {watch.others}")
        say(f"the delivery, what `reliquary verify` said of it, and logs are in {self._out}")
        good = judge(self._console, delivery, audit, (f"{CHEAT_NODE} was refused work", refused))
        say(f"{time.monotonic() - began:.0f} s in all.")
        return good

    def _place(self, client: OpenAI, file: Path, endpoint: str) -> Batch:
        return place(client, file, endpoint, MODEL, self._network.revision)

    def _fetch(self, batch: Batch) -> Delivery:
        """Fetch the delivery of an ended batch into the demo's folder."""
        network = self._network
        try:
            fetch(network.base_url, network.api_key, batch.id, self._out)
        except FetchError as error:
            self._console.print(f"No delivery: {escape(str(error))}")
            return Delivery(batch, None)
        return Delivery(batch, self._out)

    def _follow(self, client: OpenAI, batch: Batch) -> tuple[Batch, Watch]:
        """Show the progress of a batch until it has ended; return its last state and figures."""
        network = self._network
        watch = Watch(network.origin, network.api_key, batch, network.hotkey(CHEAT_NODE))
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("lines, {task.fields[void]} void samples"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console) as bar:
            task = bar.add_task(batch.status, total=None, void=0)

            def show(batch: Batch) -> None:
                network.check()
                watch.look()
                counts, void = batch.request_counts, watch.cheat.void + watch.others.void
                assert counts is not None
                done = counts.completed + counts.failed
                bar.update(
                    task,
                    description=batch.status,
                    total=counts.total or None,
                    completed=done,
                    void=void,
                )

            return follow(client, batch, show), watch

    def _suspended(self) -> bool:
        network = self._network
        hotkey = network.layout.hotkey(CHEAT_NODE)
        return is_suspended(network.origin, hotkey, MODEL, network.revision)

    def _refused_later(self, client: OpenAI) -> bool:
        """Order tales until the cheat is caught and gets no more work.

        Short answers that the model is sure of come out the same under any random numbers, so a
        file of such alone convicts nobody.
        """
        for number in range(1, PROBES + 1):
            self._console.print(
                f"The file did not catch {CHEAT_NODE}; ordering tales ({number}) ..."
            )
            with tempfile.TemporaryDirectory() as folder:
                tales = Path(folder) / "tales.jsonl"
                write_tales(tales)
                batch = self._place(client, tales, "/v1/chat/completions")
                _, probe = self._follow(client, batch)
            self._console.print(f"{CHEAT_NODE} on the tales: {probe.cheat}")
            if self._suspended():
                return True
        return False


def write_tales(path: Path) -> None:
    """Write the example's tales as a file of their own, with more samples of each."""
    rows = [json.loads(line) for line in EXAMPLE.read_text().splitlines()]
    tales = [row for row in rows if row["custom_id"].startswith("tale")]
    for row in tales:
        row["body"]["n"] = TALES_SAMPLES
    path.write_text("".join(f"{json.dumps(row)}\n" for row in tales))


@contextmanager
def _started(network: Network) -> Iterator[None]:
    network.start(EARLY_NODES)
    try:
        yield
    finally:
        network.stop()
