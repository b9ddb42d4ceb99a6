"""How a node finds its gateway: by an address that it is given, or on the chain.

The gateway's operator publishes its origin under the gateway's hotkey, which is the subnet owner's
unless a node is told another. A node then takes answers of that hotkey alone.
"""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode

from protocol.chain.base import Chain, ChainError
from protocol.chain.option import ChainOption, parse_chain

_ORIGIN = r"^(https?://[^/\s]+/?)?$"


def _parse_given(given: str | Path | ChainOption | None) -> ChainOption | None:
    return None if given is None else parse_chain(given)


@dataclass(frozen=True)
class Gateway:
    """A gateway's origin, and the hotkey that it must have; None takes what it announces."""

    url: str
    hotkey: str | None


class NodeSettings(BaseSettings):
    """The settings that all nodes share.

    Attributes:
        chain: ``local:PATH`` or ``bittensor:NETWORK:NETUID``; None where the gateway is given.
        gateway: its origin, such as ``https://gateway.example``; empty: found on the chain.
        gateway_hotkey: whom to sign for. None: on the chain, the subnet owner's hotkey; else what
            the gateway announces.
    """

    chain: Annotated[ChainOption | None, NoDecode, BeforeValidator(_parse_given)] = None
    gateway: Annotated[str, Field(pattern=_ORIGIN, validate_default=True)] = ""
    gateway_hotkey: str | None = None

    @field_validator("gateway")
    @classmethod
    def _is_given_or_found(cls, gateway: str, info: ValidationInfo) -> str:
        # A chain that is named wrongly is complained of by itself.
        if not gateway and info.data.get("chain", ...) is None:
            raise ValueError("is needed, or --chain to find it on")
        return gateway

    async def located(self, clock: Callable[[], float]) -> Self:
        """Return the same settings with the gateway's origin and hotkey filled in.

        Args:
            clock: seconds since the epoch.

        Raises:
            ChainError: the chain cannot be read, or names no gateway.
        """
        if self.gateway or self.chain is None:
            return self
        async with aclosing(self.chain.open(clock)) as chain:
            found = await find_gateway(chain, self.gateway_hotkey)
        return self.model_copy(update={"gateway": found.url, "gateway_hotkey": found.hotkey})


async def find_gateway(chain: Chain, hotkey: str | None) -> Gateway:
    """Return where the holder of ``hotkey``, or of the subnet owner's, says it is reached.

    Raises:
        ChainError: the chain cannot be read, the owner is not known, or nothing was published.
    """
    holder = await owner_hotkey(chain) if hotkey is None else hotkey
    url = await chain.endpoint(holder)
    if url is None:
        raise ChainError(
            f"hotkey {holder} has published no gateway on the chain; give --gateway, or another "
            "--gateway-hotkey"
        )
    return Gateway(url, holder)


async def owner_hotkey(chain: Chain) -> str:
    """Return the subnet owner's hotkey, which is the gateway's where no other is told.

    Raises:
        ChainError: the chain cannot be read, or names none.
    """
    hotkey = (await chain.parameters()).owner_hotkey
    if hotkey is None:
        raise ChainError("the chain names no owner of the subnet; give --gateway-hotkey")
    return hotkey
