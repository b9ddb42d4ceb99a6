"""What the routes work with: made once at the start of the application."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from bittensor_core import Keypair
from fastapi import Depends, Request

from gateway.api.rates import AtOnce, BodyBudget, RateLimit
from gateway.catalog.lookup import Catalog
from gateway.intake.pool import IntakePool
from gateway.key_locks import KeyLocks
from gateway.neurons import Neurons
from gateway.orders.capacity import Capacity
from gateway.orders.demand import Board
from gateway.orders.waiting import WaitingRoom
from gateway.settings import GatewaySettings
from gateway.store.engine import Store
from gateway.workers import WorkerPool
from protocol.http_auth import InMemoryNonceStore


@dataclass(frozen=True)
class State:
    """The parts that a request may need."""

    settings: GatewaySettings
    store: Store
    intake: IntakePool
    readers: WorkerPool
    catalog: Catalog
    keypair: Keypair
    neurons: Neurons
    clock: Callable[[], float]
    random_bits: Callable[[int], int]
    node_rates: RateLimit
    body_budget: BodyBudget
    creations: AtOnce
    twins: KeyLocks
    uploads: AtOnce
    downloads: AtOnce
    waiting: WaitingRoom
    board: Board
    nonces: InMemoryNonceStore = field(default_factory=InMemoryNonceStore)

    @property
    def capacity(self) -> Capacity:
        """Return what the network can serve."""
        settings = self.settings
        return Capacity(self.store, settings.policy, settings.architectures, settings.node_bytes)

    def now_ms(self) -> int:
        """Return the time as Unix milliseconds."""
        return int(self.clock() * 1000)


async def state_of(request: Request) -> State:
    """Return the application's state."""
    return request.app.state.gateway


StateOf = Annotated[State, Depends(state_of)]
