"""A whole network on one machine: hub, chain, gateway, miners and validators."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Self

from protocol.chain.local import LocalChain
from protocol.keys import load_or_create_hotkey
from scripts.env_file import read_environment, write_environment
from scripts.hub import publish
from scripts.tiny_model import WEIGHTS
from scripts.up.follow import NAME_WIDTH, Follower, last_lines
from scripts.up.layout import (
    HOST,
    DataLock,
    Layout,
    NetworkError,
    free_port,
)
from scripts.up.plans import (
    COMMAND_LINE,
    MODEL,
    PROBES,
    NetworkPlan,
    engine_plan,
    gateway_plan,
    hub_plan,
    miner_plan,
    role_environment,
    validator_plan,
)
from scripts.up.ready import status_of, wait_until
from scripts.up.supervisor import Supervisor

SERVICE_SECONDS = 60.0
NODES_SECONDS = 300.0
OWN_NAME = "up"
# Play money: the customer of a network on one machine is its operator.
ACCOUNT, CREDIT_USD, PAYMENT = "default", "1000000", "reliquary-up"
# A node logs this once the gateway knows it.
ANNOUNCED = '"event": "announced"'
LEASED = '"event": "lease taken"'


class Network:
    """The processes of a ``NetworkPlan``; a context manager that starts and stops them.

    Args:
        plan: what to start.
        say: takes the lines for a person, the roles' and the network's own.
    """

    def __init__(self, plan: NetworkPlan, say: Callable[[str], None]) -> None:
        self.plan = plan
        self.layout = Layout(plan.data)
        self.revision = ""
        self.api_key = ""
        self.environment: dict[str, str | None] = {}
        self._port = 0
        self._lock = DataLock(self.layout)
        self._follower = Follower(say)
        self._say = lambda line: say(f"{OWN_NAME:<{NAME_WIDTH}} {line}")
        self._supervisor = Supervisor(self.layout.logs, self._say, self._follower)

    @property
    def origin(self) -> str:
        """The gateway's origin, without a path."""
        return f"http://{HOST}:{self._port}"

    @property
    def base_url(self) -> str:
        """What an OpenAI client is given as its base URL."""
        return f"{self.origin}/api/openai/v1"

    def env(self) -> dict[str, str]:
        """Return what a customer's script needs to know, by the names of ``reliquary.env``."""
        return {
            "RELIQUARY_BASE_URL": self.base_url,
            "RELIQUARY_API_KEY": self.api_key,
            "RELIQUARY_MODEL": MODEL,
            "RELIQUARY_REVISION": self.revision,
            "RELIQUARY_HUB": self.environment.get("HF_ENDPOINT") or "",
        }

    def start(self, nodes: Collection[str] | None = None) -> None:
        """Start hub, gateway and nodes; return once orders can be placed and served.

        Args:
            nodes: the names of those to start now, by default all; ``start_nodes`` starts others.

        Raises:
            NetworkError: a role does not start, or the folder or port is taken; all is stopped.
        """
        self.layout.make()
        self._lock.take()
        self._follower.start()
        self._supervisor.begin()
        try:
            self._start_services()
            chosen = self.node_names() if nodes is None else nodes
            self.start_nodes(chosen)
            self.await_nodes(chosen)
        except BaseException:
            self.stop()
            raise

    def start_nodes(self, names: Collection[str]) -> None:
        """Start miners and validators without waiting for them."""
        miners, validators = self.plan.node_names()
        known = (self.plan, self.layout)
        for number, name in enumerate(miners, 1):
            if name in names:
                self._supervisor.start(miner_plan(*known, number, self.origin, self.environment))
        for number, name in enumerate(validators, 1):
            if name in names:
                plan = validator_plan(*known, number, self.origin, self.environment)
                self._supervisor.start(plan)

    def await_nodes(self, names: Collection[str]) -> None:
        """Wait until the nodes have loaded the model and announced themselves.

        Raises:
            NetworkError: one keeps dying, or takes too long.
        """
        for name in names:
            self._await(name, lambda name=name: self._logged(name, ANNOUNCED), NODES_SECONDS)

    def await_lease(self, name: str) -> None:
        """Wait until a miner has taken a lease, for which it first loads the model.

        Raises:
            NetworkError: it keeps dying, or takes too long.
        """
        self._await(name, lambda: self._logged(name, LEASED), NODES_SECONDS)

    def node_names(self) -> list[str]:
        """Return the names of all miners and validators of the plan."""
        miners, validators = self.plan.node_names()
        return [*miners, *validators]

    def started(self) -> list[str]:
        """Return the names of all roles that were started, hub and gateway included."""
        return self._supervisor.names()

    def check(self) -> None:
        """Refuse to go on with a role that died too often.

        Raises:
            NetworkError: its name and the last of its log.
        """
        for name in self.started():
            if (reason := self._why_dead(name)) is not None:
                raise NetworkError(reason)

    def stop(self) -> None:
        """Stop every role within a bounded time and give the data folder back."""
        self._say("stopping")
        self._supervisor.stop()
        self._follower.stop()
        self._lock.give_back()

    def kill(self, name: str) -> None:
        """Kill a role (SIGKILL), such as ``gateway`` or ``miner-1``; it stays dead."""
        self._supervisor.kill(name)

    def restart(self, name: str) -> None:
        """Start a role again on the same data and port."""
        self._supervisor.restart(name)

    def hotkey(self, name: str) -> str:
        """Return the hotkey of a miner or validator by its name."""
        return load_or_create_hotkey(self.layout.hotkey(name)).ss58_address

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _start_services(self) -> None:
        """Publish the model, register the nodes, then start hub and gateway."""
        self._port = free_port(self.plan.port)
        self.revision = publish(self.layout.hub, MODEL, WEIGHTS)
        self._register()
        hub_port = free_port(0)
        hub_url = f"http://{HOST}:{hub_port}"
        self.environment = role_environment(self.plan, self.layout, hub_url)
        self._supervisor.start(hub_plan(self.layout, hub_port))
        if self.plan.shared_engine is not None:
            engine = engine_plan(self.plan.shared_engine, self.layout, self.environment)
            self._supervisor.start(engine)
        self.api_key = read_environment(self.layout.environment).get("RELIQUARY_API_KEY", "")
        if not self.api_key:
            self.api_key = self._create_key()
        self._credit()
        self._await("hub", lambda: status_of(f"{hub_url}/api/models/{MODEL}") == 200)
        self._supervisor.start(gateway_plan(self.plan, self.layout, self._port, self.environment))
        self._await("gateway", lambda: status_of(f"{self.origin}/nodes/v1/gateway") == 200)
        if status_of(f"{self.base_url}/batches?limit=1", self.api_key) == 401:
            self.api_key = self._create_key()
        write_environment(self.layout.environment, self.env())

    def _register(self) -> None:
        chain = LocalChain(self.layout.chain, time.time)
        miners, validators = self.plan.node_names()
        for name in (*miners, *validators, *PROBES):
            # Each has an owner of its own, as on an open network; a probe is like any other node.
            owner = load_or_create_hotkey(self.layout.hotkey(f"{name}-owner")).ss58_address
            chain.register(self.hotkey(name), owner, validator_permit=name in validators)
        # The gateway's operator owns the subnet: nodes find it there, and its share is burnt.
        gateway = load_or_create_hotkey(self.layout.gateway / "hotkey.json")
        chain.register(gateway.ss58_address, gateway.ss58_address)
        chain.set_rules(owner_hotkey=gateway.ss58_address)
        asyncio.run(chain.publish_endpoint(gateway, self.origin))

    def _create_key(self) -> str:
        return self._reliquary("keys", "create", "--account", ACCOUNT)

    def _credit(self) -> None:
        # The same payment at each start, so that it counts once.
        self._reliquary("accounts", "credit", ACCOUNT, CREDIT_USD, "--id", PAYMENT)

    def _reliquary(self, *words: str) -> str:
        """Run a command on the gateway's data and return what it printed."""
        command = [sys.executable, "-P", "-m", COMMAND_LINE, *words]
        done = subprocess.run(
            [*command, "--data", str(self.layout.gateway)], capture_output=True, text=True
        )
        if done.returncode:
            raise NetworkError(f"`{' '.join(words[:2])}` failed: {done.stderr.strip()}")
        return done.stdout.strip()

    def _logged(self, name: str, event: str) -> bool:
        return event in (self.layout.logs / f"{name}.log").read_text("utf-8", "replace")

    def _await(
        self, name: str, ready: Callable[[], bool], seconds: float = SERVICE_SECONDS
    ) -> None:
        wait_until(ready, lambda: self._why_dead(name), name, seconds)

    def _why_dead(self, name: str) -> str | None:
        if not self._supervisor.gave_up(name):
            return None
        log = self.layout.logs / f"{name}.log"
        return f"{name} does not start: {' | '.join(last_lines(log))} (see {log})"
