"""The one interface of all engines, its settings and its errors. Imports neither torch nor vllm.

An engine draws every completion token of a unit by the forced draw. It runs in a process of its
own (``process.py``) and is named by a dotted path, so that a subclass or a wrapper of an engine can
take its place without a change here.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from protocol.messages import EngineName, Stack, Work

ENGINE_FACTORIES: dict[EngineName, str] = {
    "vllm": "miner.engines.vllm_engine:VllmEngine",
    "transformers": "miner.engines.transformers_engine:TransformersEngine",
}

Progress = Callable[[int], None]
Cancelled = Callable[[], bool]


class EngineError(Exception):
    """An engine cannot do what was asked; the message says what and, where known, the remedy."""


class EngineCrashed(EngineError):
    """The engine's process ended on its own; it must be started again."""


class DrawNotLive(EngineError):
    """The engine answers, but its tokens are not those of the forced draw."""


class UnitRefused(EngineError):
    """A unit that this engine cannot take: too long for its context, or not of this model."""


class GenerationCancelled(EngineError):
    """The generation was given up because the caller asked for it."""


class EngineSettings(BaseModel):
    """What an engine computes with.

    Attributes:
        dtype: ``auto`` is the dtype of the repository's config. The output head is float32 always.
        max_batch: samples that decode at once.
        memory_gib: room for keys and values of attention; None lets the engine choose.
        threads: CPU threads; None leaves the library's own choice.
        max_model_len: ids of prompt and completion together; None is the model's context, or what
            of it fits the memory.
        tensor_parallel: devices that share one copy of the model.
        options: further arguments of vLLM's engine by name, as ``EngineArgs`` has them; other
            engines have none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    max_batch: Annotated[int, Field(ge=1, le=4_096)] = 64
    memory_gib: Annotated[float, Field(gt=0)] | None = None
    threads: Annotated[int, Field(ge=1)] | None = None
    max_model_len: Annotated[int, Field(ge=2)] | None = None
    tensor_parallel: Annotated[int, Field(ge=1)] = 1
    options: dict[str, bool | int | float | str] = {}


class Engine(Protocol):
    """What generates. One instance holds one model; another model is another instance."""

    def load(self, folder: Path, model: str, revision: str, settings: EngineSettings) -> None:
        """Load the repository snapshot in ``folder`` and check that the draw is live.

        Raises:
            EngineError: the model does not load here, or the draw is not live.
        """
        ...

    def stack(self) -> Stack:
        """Return what the loaded engine computes with."""
        ...

    def generate(self, work: Work, progress: Progress, cancelled: Cancelled) -> list[list[int]]:
        """Return the ids of every sample of ``work``, in order, each with its end id if drawn.

        Args:
            work: the unit; draw keys are ``protocol.documents.work_keys(work)``.
            progress: called now and then with the number of tokens drawn so far.
            cancelled: asked now and then; True gives the unit up.

        Raises:
            GenerationCancelled: ``cancelled`` said so.
            UnitRefused: see ``check_work``.
        """
        ...

    def close(self) -> None:
        """Free what the engine holds."""
        ...


def make_engine(factory: str) -> Engine:
    """Return a new engine of the class (or from the callable) at ``factory``, ``module:name``.

    Raises:
        EngineError: there is no such module or name.
    """
    module_name, _, name = factory.partition(":")
    try:
        return getattr(import_module(module_name), name)()
    except (ModuleNotFoundError, AttributeError, ValueError) as error:
        raise EngineError(f"engine {factory!r} cannot be made: {error}") from error


def check_work(work: Work, context: int, vocabulary: int) -> None:
    """Refuse a unit that would fail inside the engine.

    Args:
        context: ids that prompt and completion of one sample may have together.
        vocabulary: rows of the model's embedding.

    Raises:
        UnitRefused: a sample is too long, empty, or has ids that the model does not know.
    """
    for prompt in work.prompts:
        if not prompt or max(prompt) >= vocabulary:
            raise UnitRefused(
                f"unit {work.unit_id} has a prompt without ids or with ids past the model's "
                f"vocabulary of {vocabulary}"
            )
    needed = max(map(len, work.prompts)) + work.sampling.max_tokens
    if needed > context:
        raise UnitRefused(
            f"a sample of unit {work.unit_id} may have {needed} ids and the engine holds "
            f"{context}; give it more memory"
        )
    if work.vocabulary_size > vocabulary:
        raise UnitRefused(
            f"unit {work.unit_id} draws from {work.vocabulary_size} ids, the model has {vocabulary}"
        )
