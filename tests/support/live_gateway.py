"""A live gateway for tests: the real application on a free port, in a thread of its own."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import openai
import structlog
from books import check_money
from databases import fresh_sqlite
from ended_batch import check_all_ended
from sqlmodel import col, select

from gateway.accounts import create_account, credit_account
from gateway.api.state import State
from gateway.api_keys import ORDERS_WRITE, create_key
from gateway.app import create_app
from gateway.ledger.money import nano_of
from gateway.serve import Server, listen, make_server
from gateway.settings import GatewaySettings
from gateway.store.tables import Account, AccountState, Order
from protocol.architectures import SUPPORTED_ARCHITECTURES
from protocol.chain.local import LocalChain

T = TypeVar("T")

ENOUGH_USD = "1000000"

# A test that fails shows what the gateway warned of, not every request.
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


@dataclass
class LiveGateway:
    """What a test may do with it: speak HTTP, make keys, look into the store."""

    origin: str
    state: State
    chain: LocalChain
    key: str
    loop: asyncio.AbstractEventLoop

    @property
    def base_url(self) -> str:
        return f"{self.origin}/api/openai/v1"

    @property
    def openrelay_url(self) -> str:
        return f"{self.origin}/v1"

    @property
    def auth(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the gateway's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def new_key(
        self,
        account: str,
        scopes: tuple[str, ...] = (ORDERS_WRITE,),
        usd: str | None = ENOUGH_USD,
        **options: Any,
    ) -> str:
        """Make a key for an account, which is made and topped up too where it is new."""

        async def make() -> str:
            store, now_ms = self.state.store, self.state.now_ms()
            row = await create_account(store, account, now_ms)
            if usd is not None:
                await credit_account(store, account, nano_of(usd), row.id, now_ms)
            return await create_key(store, row, scopes, now_ms, **options)

        return self.run(make())

    def check_money(self) -> None:
        """Check the books and every charge."""
        self.run(check_money(self.state.store))

    def register(self, hotkey: str, *, validator_permit: bool = False) -> None:
        """Register a hotkey of an owner of its own on the chain, known to the gateway at once."""
        self.chain.register(hotkey, f"owner of {hotkey}", validator_permit=validator_permit)
        self.state.neurons.forget()

    def client(self, key: str | None = None, **options: Any) -> openai.OpenAI:
        """Return the official client, which tries once unless told otherwise."""
        options.setdefault("max_retries", 0)
        options.setdefault("base_url", self.base_url)
        return openai.OpenAI(api_key=key or self.key, **options)

    def openrelay(self, key: str | None = None, **options: Any) -> openai.OpenAI:
        """Return the official client of the OpenRelay dialect."""
        return self.client(key, base_url=self.openrelay_url, **options)

    def check_all_ended(self) -> None:
        """Check every ended batch of every open account."""
        for key in self.run(self._keys_of_orderers()):
            with self.client(key) as client:
                check_all_ended(client)

    async def _keys_of_orderers(self) -> list[str]:
        store, now_ms = self.state.store, self.state.now_ms()
        ordered = col(Account.id).in_(select(Order.account_id))
        async with store.read() as session:
            accounts = (await session.exec(select(Account).where(ordered))).all()
        return [
            await create_key(store, account, (ORDERS_WRITE,), now_ms)
            for account in accounts
            if account.state == AccountState.OPEN
        ]


@contextmanager
def live_gateway(
    data: Path, clock: Callable[[], float] = time.time, **settings: Any
) -> Iterator[LiveGateway]:
    """Serve a gateway on a folder; stopping it must leave nothing running.

    Every batch that ended on it is checked before it stops.
    """
    started: list[tuple[asyncio.AbstractEventLoop, Server, str, State, LocalChain]] = []
    ready = threading.Event()
    data.mkdir(parents=True, exist_ok=True)
    if "database_url" not in settings and not (data / "gateway.sqlite").exists():
        fresh_sqlite(data / "gateway.sqlite")

    async def serve() -> None:
        # Validators of earlier tests count as alive for minutes; nothing waits for their opinions.
        defaults = {"architectures": SUPPORTED_ARCHITECTURES, "second_opinions": 0.0}
        made = GatewaySettings(data=data, **(defaults | settings))
        chain = made.chain.open(clock)
        assert isinstance(chain, LocalChain)
        app = create_app(made, chain=chain, clock=clock)
        server = make_server(app)
        async with app.router.lifespan_context(app):
            listener = listen("127.0.0.1", 0)
            origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
            loop = asyncio.get_running_loop()
            started.append((loop, server, origin, app.state.gateway, chain))
            ready.set()
            await server.serve([listener])

    def main() -> None:
        try:
            asyncio.run(serve())
        finally:
            ready.set()

    thread = threading.Thread(target=main, name="gateway")
    thread.start()
    try:
        assert ready.wait(60)
        assert started, "the gateway did not start"
        loop, _, origin, state, chain = started[0]
        gateway = LiveGateway(origin, state, chain, "", loop)
        gateway.key = gateway.new_key("default")
        yield gateway
        gateway.check_all_ended()
        gateway.check_money()
    finally:
        if started:
            started[0][1].stop()
        thread.join(30)
        assert not thread.is_alive(), "the gateway did not stop"
