"""What the routes work with: made once at the start of the application."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from bittensor_core import Keypair
from fastapi import Depends, Request

from gateway.api.locks import KeyLocks
from gateway.api.rates import BodyBudget, RateLimit
from gateway.neurons import Neurons
from gateway.settings import GatewaySettings
from gateway.store.engine import Store
from protocol.http_auth import InMemoryNonceStore

if TYPE_CHECKING:
    from gateway.intake.pool import IntakePool


@dataclass(frozen=True)
class State:
    """The parts that a request may need."""

    settings: GatewaySettings
    store: Store
    intake: "IntakePool"
    keypair: Keypair
    neurons: Neurons
    clock: Callable[[], float]
    node_rates: RateLimit
    body_budget: BodyBudget
    creations: KeyLocks
    nonces: InMemoryNonceStore = field(default_factory=InMemoryNonceStore)

    def now_ms(self) -> int:
        """Return the time as Unix milliseconds."""
        return int(self.clock() * 1000)


async def state_of(request: Request) -> State:
    """Return the application's state."""
    return request.app.state.gateway


StateOf = Annotated[State, Depends(state_of)]
