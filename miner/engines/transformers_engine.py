"""transformers as an engine: for machines without vLLM, and a second opinion in tests."""

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, DynamicCache, PreTrainedModel

from miner.engines.base import (
    Cancelled,
    EngineError,
    EngineSettings,
    GenerationCancelled,
    Progress,
    check_work,
)
from miner.engines.draw_table import DrawInputs, DrawTable
from protocol.documents import work_keys
from protocol.kernels import kernels
from protocol.messages import Stack, Work, dtype_name
from protocol.repository import CacheShape, cache_shape

GIB = 2**30
# Room for keys and values where the settings name none.
DEFAULT_MEMORY_GIB = 2.0
# Ids of all rows together that one forward pass of the prompts takes: bounds its activations.
PREFILL_IDS = 8_192
# Rows that ended are dropped from the batch once they are this share of it.
DROP_SHARE = 0.125


class Float32Head(torch.nn.Module):
    """The output head in float32, whatever dtype the hidden states come in."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(weight.detach().float(), requires_grad=False)
        self.bias = (
            None if bias is None else torch.nn.Parameter(bias.detach().float(), requires_grad=False)
        )

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return logits, float32 [..., vocabulary], of ``hidden`` [..., width]."""
        return torch.nn.functional.linear(hidden.float(), self.weight, self.bias)


class TransformersEngine:
    """Generates in left-padded batches over a key-value cache, as wide as memory allows."""

    def __init__(self) -> None:
        self._model: PreTrainedModel | None = None
        self._settings = EngineSettings()
        self._dtype = torch.float32

    def load(self, folder: Path, model: str, revision: str, settings: EngineSettings) -> None:
        """Load the snapshot in ``folder`` in its own dtype or the settings', head in float32.

        Raises:
            EngineError: transformers refuses the model, or the settings ask for what it lacks.
        """
        if settings.tensor_parallel != 1:
            raise EngineError("the transformers engine runs on one device; use the vllm engine")
        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        try:
            auto: Any = AutoModelForCausalLM
            # The text model of a repository that has a vision tower too.
            loaded, found = auto.from_pretrained(
                folder,
                dtype=settings.dtype,
                local_files_only=True,
                use_safetensors=True,
                output_loading_info=True,
            )
        except (OSError, ValueError) as error:
            raise EngineError(f"transformers refuses {model}@{revision[:12]}: {error}") from error
        if found["missing_keys"]:
            # transformers would make them up at random.
            name = min(found["missing_keys"])
            raise EngineError(f"{model}@{revision[:12]} lacks weights, among them {name}")
        head = loaded.get_output_embeddings()
        if not isinstance(head, torch.nn.Linear):
            raise EngineError(f"{model} has no linear output head")
        self._settings = settings
        self._dtype = loaded.dtype
        loaded.set_output_embeddings(Float32Head(head.weight, head.bias))
        loaded.eval()
        torch.nn.Module.to(loaded, "cuda" if torch.cuda.is_available() else "cpu")
        self._model = loaded

    def stack(self) -> Stack:
        """Return transformers' version, dtypes, device and kernels."""
        device = "cpu" if self._loaded().device.type == "cpu" else "cuda"
        return Stack(
            engine="transformers",
            version=f"{version('transformers')}, torch {torch.__version__}",
            dtype=dtype_name(self._dtype),
            head_dtype="float32",
            device=device,
            kernels=kernels(device, self._loaded().config._attn_implementation),
        )

    def generate(self, work: Work, progress: Progress, cancelled: Cancelled) -> list[list[int]]:
        """Return the ids of every sample of ``work``, in order.

        Raises:
            GenerationCancelled: ``cancelled`` said so.
            UnitRefused: the unit does not fit this model or its context.
        """
        config = self._loaded().config.get_text_config()
        context = self._settings.max_model_len or config.max_position_embeddings
        check_work(work, context, config.vocab_size)
        inputs = [
            DrawInputs.of(key, work.sampling, work.vocabulary_size) for key in work_keys(work)
        ]
        prompts = [work.prompts[sample.prompt] for sample in work.samples]
        samples: list[list[int]] = [[] for _ in prompts]
        drawn = 0
        for batch in self._batches(prompts, work.sampling.max_tokens):
            rows = _Rows(
                self._loaded(),
                [prompts[number] for number in batch],
                [inputs[number] for number in batch],
                frozenset(work.end_ids),
            )
            while rows.alive and rows.position < work.sampling.max_tokens:
                if cancelled():
                    raise GenerationCancelled("the unit was given up")
                drawn += len(rows.alive)
                rows.step()
                progress(drawn)
            for number, ids in zip(batch, rows.samples, strict=True):
                samples[number] = ids
        return samples

    def close(self) -> None:
        """Free the model."""
        self._model = None

    def _loaded(self) -> PreTrainedModel:
        if self._model is None:
            raise EngineError("no model is loaded")
        return self._model

    def _batches(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> Iterator[list[int]]:
        """Yield the samples' numbers, longest prompts first, in batches that fit the memory.

        A batch mixes no prompts so different in length that padding would be most of its work.
        """
        memory = (self._settings.memory_gib or DEFAULT_MEMORY_GIB) * GIB
        shape = _cache_shape(self._loaded(), self._dtype)
        waiting = sorted(range(len(prompts)), key=lambda number: -len(prompts[number]))
        while waiting:
            longest = len(prompts[waiting[0]]) + max_tokens
            alike = sum(len(prompts[number]) + max_tokens >= longest / 2 for number in waiting)
            room = int(memory / (longest * shape.bytes_per_id + shape.bytes_per_sample))
            width = max(1, min(self._settings.max_batch, room, alike))
            yield waiting[:width]
            waiting = waiting[width:]


class _Rows:
    """A batch that decodes in step; rows that end are dropped as they grow many."""

    def __init__(
        self,
        model: PreTrainedModel,
        prompts: Sequence[Sequence[int]],
        inputs: Sequence[DrawInputs],
        end_ids: frozenset[int],
    ) -> None:
        self._model = model
        self._end_ids = end_ids
        self._table = DrawTable(len(prompts), model.device)
        for slot, row in enumerate(inputs):
            self._table.put(slot, row)
        self.samples: list[list[int]] = [[] for _ in prompts]
        self.position = 0
        self._slots = list(range(len(prompts)))
        self._ended: set[int] = set()
        self._cache = DynamicCache(config=model.config)
        self._ids, self._mask = _left_padded(prompts, model.device)

    @property
    def alive(self) -> list[int]:
        """Slots that have not drawn an end id."""
        return [slot for slot in self._slots if slot not in self._ended]

    @torch.inference_mode()
    def step(self) -> None:
        """Draw one token for every row in the batch."""
        logits = self._forward()
        slots = torch.tensor(self._slots)
        positions = torch.full((len(self._slots),), self.position)
        drawn = self._table.draw(logits, slots, positions)
        for slot, token in zip(self._slots, drawn.tolist(), strict=True):
            if slot not in self._ended:
                self.samples[slot].append(token)
                if token in self._end_ids:
                    self._ended.add(slot)
        self.position += 1
        self._ids = drawn.to(self._mask.device).unsqueeze(1)
        self._mask = torch.nn.functional.pad(self._mask, (0, 1), value=1)
        self._drop_ended()

    def _forward(self) -> torch.Tensor:
        """Run what the cache lacks; return the logits after the last id, float32 [R, C]."""
        piece = max(1, PREFILL_IDS // len(self._slots))
        places = (self._mask.cumsum(1) - 1).clamp(min=0)
        seen = self._mask.shape[1] - self._ids.shape[1]
        output = None
        for start in range(0, self._ids.shape[1], piece):
            stop = min(start + piece, self._ids.shape[1])
            output = self._model(
                input_ids=self._ids[:, start:stop],
                attention_mask=self._mask[:, : seen + stop],
                position_ids=places[:, seen + start : seen + stop],
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=1,
            )
        assert output is not None
        return output.logits[:, -1, :].contiguous()

    def _drop_ended(self) -> None:
        ended = [slot for slot in self._slots if slot in self._ended]
        if len(ended) < max(1, DROP_SHARE * len(self._slots)) or not self.alive:
            return
        kept = [row for row, slot in enumerate(self._slots) if slot not in self._ended]
        rows: Any = torch.tensor(kept, device=self._mask.device)
        # Not ``batch_select_indices``, which the states of linear attention lack.
        self._cache.reorder_cache(rows)
        self._ids, self._mask = self._ids[rows], self._mask[rows]
        self._slots = [self._slots[row] for row in kept]


def _left_padded(
    prompts: Sequence[Sequence[int]], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and mask, int64 [R, longest]; the padding is masked, so its id is immaterial."""
    longest = max(map(len, prompts))
    ids = torch.zeros((len(prompts), longest), dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = torch.tensor(prompt)
        mask[row, longest - len(prompt) :] = 1
    return ids.to(device), mask.to(device)


def _cache_shape(model: PreTrainedModel, dtype: torch.dtype) -> CacheShape:
    """Return what the model keeps of the ids that it has read."""
    return cache_shape(model.config.get_text_config().to_dict(), dtype.itemsize)
