"""The kinds of cheat by name, and how the miner is told to use one.

A miner names its engine by a dotted path, ``module:name``. The names of this module's cheats are
``ENGINE/KIND``, such as ``scripts.cheats.kinds:vllm/own-random-numbers``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from miner.engines.base import ENGINE_FACTORIES, make_engine
from protocol.messages import EngineName
from scripts.cheats.base import Cheat
from scripts.cheats.draws import (
    Cooler,
    IgnoreFilters,
    IgnoreTopP,
    OwnRandomNumbers,
    SuppressEnd,
    Temperature,
    Warmer,
)
from scripts.cheats.edits import EarlyEnd, EditTokens
from scripts.cheats.weights import EightBitWeights, FewerLayers, FourBitWeights


@dataclass(frozen=True)
class Kind:
    """A kind of cheat: what it does, and the class that does it."""

    description: str
    cheat: type[Cheat]


KINDS: dict[str, Kind] = {
    "own-random-numbers": Kind("draws with its own random numbers", OwnRandomNumbers),
    "temperature": Kind("draws at .7 of the ordered temperature", Temperature),
    "warmer": Kind("draws .1 above the ordered temperature", Warmer),
    "cooler": Kind("draws .1 below the ordered temperature", Cooler),
    "ignore-top-p": Kind("ignores top_p", IgnoreTopP),
    "ignore-filters": Kind("ignores top_p, top_k and min_p", IgnoreFilters),
    "edit-tokens": Kind("replaces one token in twenty", EditTokens),
    "early-end": Kind("ends every sample halfway", EarlyEnd),
    "suppress-end": Kind("never ends a sample before its limit", SuppressEnd),
    "four-bit-weights": Kind("rounds the model's weights to 4 bits", FourBitWeights),
    "eight-bit-weights": Kind("rounds the model's weights to 8 bits", EightBitWeights),
    "fewer-layers": Kind("leaves the model's last layer out", FewerLayers),
}


class UnknownKind(ValueError):
    """No cheat of that name."""


def factory_path(engine: EngineName, kind: str) -> str:
    """Return the dotted path of the cheat ``kind`` over ``engine``.

    Raises:
        UnknownKind: there is no such kind; the message lists them.
    """
    if kind not in KINDS:
        raise UnknownKind(f"there is no cheat {kind!r}; the kinds are {', '.join(KINDS)}")
    return f"{__name__}:{engine}/{kind}"


def _make(engine: EngineName, kind: str) -> Cheat:
    return KINDS[kind].cheat(make_engine(ENGINE_FACTORIES[engine]))


def __getattr__(name: str) -> Callable[[], Cheat]:
    for engine in ENGINE_FACTORIES:
        for kind in KINDS:
            if name == f"{engine}/{kind}":
                return partial(_make, engine, kind)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
