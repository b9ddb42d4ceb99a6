"""What an operator tells a miner: options of the command line or ``RELIQUARY_MINER_<NAME>``."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_settings import SettingsConfigDict

from miner.engines.base import ENGINE_FACTORIES, EngineSettings
from protocol.architectures import SUPPORTED_ARCHITECTURES
from protocol.chain.gateway import NodeSettings
from protocol.messages import MAX_UNIT_SAMPLES, MAX_WAIT_SECONDS, EngineName
from protocol.vllm_limits import not_computed_here


class MinerSettings(NodeSettings):
    """Settings of one miner.

    Attributes:
        chain, gateway, gateway_hotkey: ``NodeSettings``.
        hotkey: the miner's hotkey file, made where there is none.
        engine: which engine generates.
        engine_factory: ``module:name`` of another engine of that kind.
        dtype, max_batch, memory_gib, threads, max_model_len, tensor_parallel: ``EngineSettings``.
        max_samples: most samples of a unit that this miner takes at once.
        architectures: what it loads; where it is not set, all that the engine computes here.
        models: folder of downloaded models; None is Hugging Face's own cache.
        engine_log: what the engine prints; None is a file beside the hotkey.
        leases: folder for leases and results that are not taken yet; None is beside the hotkey.
        poll_seconds: pause before asking again where there was no work.
        wait_seconds: how long a request for work waits at the gateway for some.
        switch_seconds: time without work on the loaded model after which another is loaded.
        stop_seconds: grace that a unit gets to finish once the miner is told to stop.
    """

    model_config = SettingsConfigDict(env_prefix="RELIQUARY_MINER_", extra="forbid", frozen=True)

    hotkey: Path
    engine: EngineName = "vllm"
    engine_factory: Annotated[str, Field(pattern=r"^[\w.]+:.+$")] | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    max_batch: Annotated[int, Field(ge=1, le=MAX_UNIT_SAMPLES)] = 256
    memory_gib: Annotated[float, Field(gt=0)] | None = None
    threads: Annotated[int, Field(ge=1)] | None = None
    max_model_len: Annotated[int, Field(ge=2)] | None = None
    tensor_parallel: Annotated[int, Field(ge=1)] = 1
    max_samples: Annotated[int, Field(ge=1, le=MAX_UNIT_SAMPLES)] = 256
    architectures: tuple[str, ...] = ()
    models: Path | None = None
    engine_log: Path | None = None
    leases: Path | None = None
    poll_seconds: Annotated[float, Field(gt=0)] = 1.0
    wait_seconds: Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS)] = 20.0
    switch_seconds: Annotated[float, Field(ge=0)] = 30.0
    stop_seconds: Annotated[float, Field(ge=0)] = 10.0

    @model_validator(mode="after")
    def _fill_architectures(self) -> Self:
        if not self.architectures:
            missing = not_computed_here() if self.engine == "vllm" else ()
            served = tuple(name for name in SUPPORTED_ARCHITECTURES if name not in missing)
            # The instance is frozen for everybody else.
            object.__setattr__(self, "architectures", served)
        return self

    @property
    def factory(self) -> str:
        """The dotted path of the engine that generates."""
        return self.engine_factory or ENGINE_FACTORIES[self.engine]

    @property
    def log_path(self) -> Path:
        """The file that the engine's output goes to."""
        return self.engine_log or self.hotkey.with_name(f"{self.hotkey.name}.engine.log")

    @property
    def leases_folder(self) -> Path:
        """The folder of leases and results that are not taken yet."""
        return self.leases or self.hotkey.with_name(f"{self.hotkey.name}.leases")

    def engine_settings(self) -> EngineSettings:
        """Return the part that the engine computes with."""
        return EngineSettings(
            dtype=self.dtype,
            max_batch=self.max_batch,
            memory_gib=self.memory_gib,
            threads=self.threads,
            max_model_len=self.max_model_len,
            tensor_parallel=self.tensor_parallel,
        )
