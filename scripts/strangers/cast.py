"""Who is in the network of strangers, and how long its epochs are."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from protocol.chain.local import LocalChain
from protocol.messages import EngineName
from scripts.cheats.kinds import KINDS, describe
from scripts.up.plans import MinerPlan, NetworkPlan
from validator.scores import SETTLED_BLOCKS

ENGINE: EngineName = "transformers"
VALIDATORS = 3
UNIT_SAMPLES = 12
EPOCH_SECONDS = 20
BLOCK_SECONDS = 1.0
# From the end of an epoch until its record is written: its last reviews close meanwhile.
WRITING_SECONDS = 6
# The kinds of the miners, in their order; None is honest.
HABITS = (
    *(None, None, None, None, "slow"),
    *("turncoat", "copy-answers", "cold", "early-end", "squatter"),
)


@dataclass(frozen=True)
class Stranger:
    """A miner of the network: its name, its hotkey, and the kind of its cheat if any."""

    name: str
    hotkey: str
    cheat: str | None

    @property
    def honest(self) -> bool:
        """Whether its tokens are those of the draw."""
        return self.cheat is None or (self.cheat in KINDS and KINDS[self.cheat].honest)

    @property
    def habit(self) -> str:
        """What it does, in words."""
        return "honest" if self.cheat is None else describe(self.cheat)


def network_plan(data: Path) -> NetworkPlan:
    """Return the network in the folder ``data``: what its roles are, and how patient."""
    return NetworkPlan(
        data=data,
        port=0,
        miners=tuple(MinerPlan(ENGINE, habit, shared=True) for habit in HABITS),
        validators=VALIDATORS,
        unit_samples=UNIT_SAMPLES,
        settings={
            "RELIQUARY_GATEWAY_EPOCH_SECONDS": str(EPOCH_SECONDS),
            "RELIQUARY_GATEWAY_LEASE_SECONDS": "15",
            "RELIQUARY_GATEWAY_HEARTBEAT_SECONDS": "4",
            "RELIQUARY_VALIDATOR_CHAIN_SECONDS": "2",
        },
    )


def cast_of(hotkey: Callable[[str], str]) -> list[Stranger]:
    """Return the miners; ``hotkey`` gives that of a name."""
    names = (f"miner-{number}" for number in range(1, len(HABITS) + 1))
    return [Stranger(name, hotkey(name), habit) for name, habit in zip(names, HABITS, strict=True)]


def make_chain(path: Path, clock: Callable[[], float]) -> LocalChain:
    """Make the chain's file with short blocks and epochs, and return the chain.

    Its epochs begin when the record of the epoch before can be read and is settled, so that
    weights are of the newest epoch that can be known.

    Args:
        clock: seconds since the epoch.
    """
    settled = WRITING_SECONDS + SETTLED_BLOCKS * BLOCK_SECONDS
    genesis = math.floor(clock() / EPOCH_SECONDS - 1) * EPOCH_SECONDS + settled % EPOCH_SECONDS
    LocalChain(path, lambda: genesis, BLOCK_SECONDS)
    chain = LocalChain(path, clock)
    tempo = round(EPOCH_SECONDS / BLOCK_SECONDS)
    chain.set_rules(tempo=tempo, weights_rate_limit=tempo // 2)
    return chain
