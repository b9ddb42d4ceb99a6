"""The validator's settings: read once at the start of the process and passed down."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from protocol.chain.gateway import NodeSettings
from protocol.messages import MAX_UNIT_SAMPLES, MAX_WAIT_SECONDS, EngineName
from validator.audit import PACK_TOKENS
from validator.weights import POLL_SECONDS


class ValidatorSettings(NodeSettings):
    """What an operator sets, each as ``RELIQUARY_VALIDATOR_<NAME>`` in the environment.

    Attributes:
        chain, gateway, gateway_hotkey: ``NodeSettings``; weights are set on the chain.
        hotkey: the validator's hotkey file, made at the first start.
        engine: what computes the model. ``vllm`` is the very prefill of miners on vLLM: the lowest
            honest floor where most of them run it.
        dtype: of the model's weights; ``auto`` is the repository's own. The head is float32 always.
        device: where transformers compute the model; vLLM has a device of its own.
        threads: CPU threads of the model; None leaves the library's own choice.
        pack_tokens: tokens that the model computes at once; bounds its memory.
        max_samples: samples of a unit that this validator takes.
        idle_seconds: pause before asking again where there was nothing to audit.
        wait_seconds: how long a request for work waits at the gateway for some.
        chain_seconds: how often the chain is asked whether weights are due.
        switch_seconds: time without work on the loaded model after which another is loaded.
        models: folder for downloaded models; None is the Hugging Face cache.
    """

    model_config = SettingsConfigDict(
        env_prefix="RELIQUARY_VALIDATOR_", extra="forbid", frozen=True
    )

    hotkey: Path
    engine: EngineName = "transformers"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: Literal["cpu", "cuda"] = "cpu"
    threads: Annotated[int, Field(ge=1, le=1_024)] | None = None
    pack_tokens: Annotated[int, Field(ge=64, le=1_048_576)] = PACK_TOKENS
    max_samples: Annotated[int, Field(ge=1, le=MAX_UNIT_SAMPLES)] = 256
    idle_seconds: Annotated[float, Field(gt=0, le=60)] = 1.0
    wait_seconds: Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS)] = 20.0
    switch_seconds: Annotated[float, Field(ge=0)] = 30.0
    chain_seconds: Annotated[float, Field(gt=0, le=600)] = POLL_SECONDS
    models: Path | None = None

    @property
    def weights_path(self) -> Path:
        """The file of what became of the weights that were set."""
        return self.hotkey.with_name(f"{self.hotkey.name}.weights.json")

    @property
    def records_folder(self) -> Path:
        """The folder of the gateway's public records."""
        return self.hotkey.with_name(f"{self.hotkey.name}.records")
