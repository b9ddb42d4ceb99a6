"""What a network consists of, and how each of its roles is started."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from protocol.messages import EngineName
from scripts.cheats.kinds import NODE_KINDS, SHARED, factory_path
from scripts.shared_engine.client import VARIABLE
from scripts.up.layout import HOST, Layout
from scripts.up.process import Plan

COMMAND_LINE = "scripts.cli"
MODEL = "reliquary/tiny-qwen3"
# The gateway's own hotkeys, by which it hands validators units whose answers it knows.
PROBES = ("probe-1", "probe-2")
DtypeName = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class MinerPlan:
    """One miner.

    Attributes:
        engine: what it generates with.
        cheat: the kind of its cheat (``scripts/cheats/kinds.py``), if any.
        shared: whether it computes on the engine that the network's miners share.
    """

    engine: EngineName
    cheat: str | None = None
    shared: bool = False


@dataclass(frozen=True)
class NetworkPlan:
    """A whole network on one machine.

    Attributes:
        data: the folder that keeps it.
        port: the gateway's; 0 takes a free one.
        miners: started in this order as miner-1, miner-2, ...
        validators: their number.
        dtype: of the model's weights, in miners and validators.
        unit_samples: fixed number of samples of a unit; None follows each miner's speed.
        settings: what else the roles are told, as variables ``RELIQUARY_<ROLE>_<NAME>``.
    """

    data: Path
    port: int
    miners: tuple[MinerPlan, ...]
    validators: int = 1
    dtype: DtypeName = "auto"
    unit_samples: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def shared_engine(self) -> EngineName | None:
        """What the shared engine is; None where no miner computes on one."""
        return next((miner.engine for miner in self.miners if miner.shared), None)

    def node_names(self) -> tuple[list[str], list[str]]:
        """Return the names of the miners and of the validators."""
        miners = [f"miner-{number}" for number in range(1, len(self.miners) + 1)]
        return miners, [f"validator-{number}" for number in range(1, self.validators + 1)]


def default_engine() -> EngineName:
    """Return ``vllm`` where it is installed, else ``transformers``."""
    return "transformers" if find_spec("vllm") is None else "vllm"


def hub_plan(layout: Layout, port: int) -> Plan:
    """Return how the hub is started."""
    arguments = ("hub", "--data", str(layout.hub), "--port", str(port))
    return Plan("hub", COMMAND_LINE, arguments, {})


def engine_plan(engine: EngineName, layout: Layout, environment: Mapping[str, str | None]) -> Plan:
    """Return how the engine that miners share is started."""
    arguments = (engine, str(layout.engine))
    return Plan("engine", "scripts.shared_engine.server", arguments, environment)


def gateway_plan(
    plan: NetworkPlan, layout: Layout, port: int, environment: Mapping[str, str | None]
) -> Plan:
    """Return how the gateway is started."""
    arguments = ["gateway", "--data", str(layout.gateway), "--chain", str(layout.chain)]
    arguments += ["--host", HOST, "--port", str(port)]
    if plan.unit_samples is not None:
        arguments += ["--unit-samples", str(plan.unit_samples)]
    return Plan("gateway", COMMAND_LINE, tuple(arguments), environment)


def miner_plan(
    plan: NetworkPlan, layout: Layout, number: int, url: str, environment: Mapping[str, str | None]
) -> Plan:
    """Return how miner ``number`` (from 1) is started."""
    miner, name = plan.miners[number - 1], f"miner-{number}"
    if miner.cheat in NODE_KINDS:
        own = ("--gateway", url, "--hotkey", str(layout.hotkey(name)))
        return Plan(name, NODE_KINDS[miner.cheat].module, own, environment)
    arguments = ["miner", *_node_arguments(plan, layout, name, url), "--engine", miner.engine]
    arguments += ["--engine-log", str(layout.logs / f"{name}.engine.log")]
    if miner.shared or miner.cheat is not None:
        engine = SHARED if miner.shared else miner.engine
        arguments += ["--engine-factory", factory_path(engine, miner.cheat)]
    return Plan(name, COMMAND_LINE, tuple(arguments), environment)


def validator_plan(
    plan: NetworkPlan, layout: Layout, number: int, url: str, environment: Mapping[str, str | None]
) -> Plan:
    """Return how validator ``number`` (from 1) is started."""
    name = f"validator-{number}"
    arguments = ["validator", *_node_arguments(plan, layout, name, url)]
    arguments += ["--chain", f"local:{layout.chain}"]
    return Plan(name, COMMAND_LINE, tuple(arguments), environment)


def role_environment(plan: NetworkPlan, layout: Layout, hub_url: str) -> dict[str, str | None]:
    """Return what the environment of a role adds: models come from the local hub alone."""
    return {
        **plan.settings,
        "RELIQUARY_GATEWAY_PROBE_HOTKEYS": json.dumps([str(layout.hotkey(one)) for one in PROBES]),
        VARIABLE: str(layout.engine),
        "HF_ENDPOINT": hub_url,
        "HF_HUB_CACHE": str(layout.models),
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_OFFLINE": None,
        "HF_TOKEN": None,
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def _node_arguments(plan: NetworkPlan, layout: Layout, name: str, url: str) -> list[str]:
    return ["--gateway", url, "--hotkey", str(layout.hotkey(name)), "--dtype", plan.dtype]
