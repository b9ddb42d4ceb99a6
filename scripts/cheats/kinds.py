"""The kinds of cheat by name, and how the miner is told to use one.

A miner names its engine by a dotted path, ``module:name``. The names of this module's cheats are
``ENGINE/KIND``, such as ``scripts.cheats.kinds:vllm/own-random-numbers``; ``shared`` is the engine
that several miners compute on (``scripts/shared_engine``). Some cheats are no engines but nodes of
their own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from miner.engines.base import ENGINE_FACTORIES, make_engine
from scripts.cheats.base import Cheat
from scripts.cheats.caches import EightBitCache
from scripts.cheats.draws import (
    Cold,
    Cooler,
    IgnoreFilters,
    IgnoreTopP,
    OwnRandomNumbers,
    SuppressEnd,
    Temperature,
    Warmer,
)
from scripts.cheats.edits import CopyAnswers, EarlyEnd, EditTokens
from scripts.cheats.habits import Slow, Turncoat
from scripts.cheats.weights import EightBitWeights, FewerLayers, FourBitWeights

SHARED = "shared"
_ENGINES: dict[str, str] = {**ENGINE_FACTORIES, SHARED: "scripts.shared_engine.client:SharedEngine"}


@dataclass(frozen=True)
class Kind:
    """A kind of cheat: what it does, and the class that does it; a kind may be honest after all."""

    description: str
    cheat: type[Cheat]
    honest: bool = False


@dataclass(frozen=True)
class NodeKind:
    """A cheat that is a node of its own: what it does, and the module that is run."""

    description: str
    module: str


KINDS: dict[str, Kind] = {
    "own-random-numbers": Kind("draws with its own random numbers", OwnRandomNumbers),
    "temperature": Kind("draws at .7 of the ordered temperature", Temperature),
    "cold": Kind("draws at a fifth of the ordered temperature", Cold),
    "warmer": Kind("draws .1 above the ordered temperature", Warmer),
    "cooler": Kind("draws .1 below the ordered temperature", Cooler),
    "ignore-top-p": Kind("ignores top_p", IgnoreTopP),
    "ignore-filters": Kind("ignores top_p, top_k and min_p", IgnoreFilters),
    "edit-tokens": Kind("replaces one token in twenty", EditTokens),
    "early-end": Kind("ends every sample halfway", EarlyEnd),
    "copy-answers": Kind("hands one answer in for all samples of a prompt", CopyAnswers),
    "turncoat": Kind("honest at first, then edits one answer in six", Turncoat),
    "suppress-end": Kind("never ends a sample before its limit", SuppressEnd),
    "four-bit-weights": Kind("rounds the model's weights to 4 bits", FourBitWeights),
    "eight-bit-weights": Kind("rounds the model's weights to 8 bits", EightBitWeights),
    "eight-bit-cache": Kind("keeps keys and values in 8 bits", EightBitCache),
    "fewer-layers": Kind("leaves the model's last layer out", FewerLayers),
    "slow": Kind("honest, and 4 s slower over every unit", Slow, honest=True),
}
NODE_KINDS: dict[str, NodeKind] = {
    "squatter": NodeKind("takes leases and never answers", "scripts.cheats.squatter"),
}


class UnknownKind(ValueError):
    """No cheat of that name."""


def check_kind(kind: str) -> None:
    """Refuse what is no kind of cheat.

    Raises:
        UnknownKind: there is no such kind; the message lists them.
    """
    if kind not in (*KINDS, *NODE_KINDS):
        known = ", ".join((*KINDS, *NODE_KINDS))
        raise UnknownKind(f"there is no cheat {kind!r}; the kinds are {known}")


def describe(kind: str) -> str:
    """Return what a kind of cheat does, in words.

    Raises:
        UnknownKind: there is no such kind.
    """
    check_kind(kind)
    return KINDS[kind].description if kind in KINDS else NODE_KINDS[kind].description


def factory_path(engine: str, kind: str | None) -> str:
    """Return the dotted path of the cheat ``kind`` over ``engine``, or of the honest engine.

    Raises:
        UnknownKind: there is no such kind that is an engine.
    """
    if kind is None:
        return _ENGINES[engine]
    if kind not in KINDS:
        raise UnknownKind(f"there is no cheat {kind!r}; the kinds are {', '.join(KINDS)}")
    return f"{__name__}:{engine}/{kind}"


def _make(engine: str, kind: str) -> Cheat:
    return KINDS[kind].cheat(make_engine(_ENGINES[engine]))


def __getattr__(name: str) -> Callable[[], Cheat]:
    for engine in _ENGINES:
        for kind in KINDS:
            if name == f"{engine}/{kind}":
                return partial(_make, engine, kind)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
