"""The audit's forward over transformers: packed batches through a causal language model.

A model whose layers carry a state from id to id takes batches of rows in place of packs.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM, DynamicCache, PreTrainedModel

from protocol.kernels import kernels
from protocol.messages import Stack, dtype_name
from validator import packed_attention
from validator.forward import Claim, ForwardFailed, Rows, UnsupportedModel
from validator.packing import Pack, packs
from validator.row_run import carries_state, row_states
from validator.wide_linear import multiplies, widen

# Relative error of the probe's logits that kernels and their order of summation explain.
_PROBE_TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.02, torch.bfloat16: 0.06}
# Everything in one batch; the prompt computed once and continued; both cut in pieces.
PROBE_BUDGETS = (1_024, 128, 17)


class TransformersForward:
    """A model of transformers with its output head in float32."""

    def __init__(self, model: PreTrainedModel, device: str) -> None:
        """Take a model that was loaded with ``packed_attention``; see ``load``."""
        head = model.get_output_embeddings()
        if not isinstance(head, torch.nn.Linear):
            raise UnsupportedModel(f"{type(model).__name__} has no linear output head")
        self._model = model
        self._device = device
        self._dtype = model.dtype
        self._by_rows = carries_state(model)
        self._weight = head.weight.detach().float()
        self._bias = None if head.bias is None else head.bias.detach().float()

    @property
    def vocabulary_size(self) -> int:
        """The number of logits in a row, padding rows of the head included."""
        return self._weight.shape[0]

    @property
    def threads(self) -> int:
        """How many threads it computes on; see ``Forward.threads``."""
        return torch.get_num_threads()

    def stack(self) -> Stack:
        """Return what computes here, for verdicts and announcements."""
        device = "cpu" if self._device == "cpu" else "cuda"
        return Stack(
            engine="transformers",
            version=version("transformers"),
            dtype=dtype_name(self._dtype),
            head_dtype="float32",
            device=device,
            kernels=kernels(device, self._model.config._attn_implementation),
        )

    def hidden(
        self, prompts: Sequence[Sequence[int]], claims: Sequence[Claim], pack_tokens: int
    ) -> Iterator[Rows]:
        """Yield the rows of every token of every claim; see ``Forward.hidden``."""
        if self._by_rows:
            found = row_states(self._model, prompts, claims, pack_tokens)
        else:
            found = self._pack_states(prompts, claims, pack_tokens)
        while True:
            with _failures():
                rows = next(found, None)
            if rows is None:
                return
            yield rows

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the logits of rows, float32 [rows, vocabulary_size]; see ``Forward.logits``."""
        with _failures(), torch.inference_mode():
            return torch.nn.functional.linear(hidden.float(), self._weight, self._bias)

    def _pack_states(
        self, prompts: Sequence[Sequence[int]], claims: Sequence[Claim], pack_tokens: int
    ) -> Iterator[Rows]:
        cache: DynamicCache | None = None
        for pack in packs(prompts, claims, pack_tokens):
            if pack.kept == 0:
                cache = DynamicCache() if pack.keep else None
            hidden = self._run(pack, cache)
            if pack.rows.size:
                yield Rows(hidden, pack.claims, pack.places)

    def _run(self, pack: Pack, cache: DynamicCache | None) -> torch.Tensor:
        if cache is not None and (extra := cache.get_seq_length() - pack.kept):
            cache.crop(-extra)
        with torch.inference_mode():
            output = self._model.base_model(
                input_ids=torch.from_numpy(pack.tokens)[None].to(self._device),
                position_ids=torch.from_numpy(pack.positions)[None].to(self._device),
                past_key_values=cache,
                use_cache=cache is not None,
                segments=pack.segments,
            )
            rows = torch.from_numpy(pack.rows).to(self._device)
            return output.last_hidden_state[0, rows]


def load(folder: Path, dtype: str | None = None, device: str = "cpu") -> TransformersForward:
    """Load the model in ``folder`` for audits.

    Args:
        folder: config and safetensors as the repository has them at the pinned commit.
        dtype: "float32", "bfloat16" or "float16"; None for the repository's own.
        device: where torch computes, "cpu" or "cuda".

    Raises:
        UnsupportedModel: weights are missing, or the packed forward does not agree with
            transformers' own on a probe.
        ForwardFailed: the model does not fit in memory or its files cannot be read.
    """
    with _failures():
        try:
            auto: Any = AutoModelForCausalLM
            # The text model of a repository that has a vision tower too.
            model, found = auto.from_pretrained(
                folder,
                dtype=dtype or "auto",
                attn_implementation=packed_attention.NAME,
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
        except (OSError, ValueError) as error:
            raise ForwardFailed(f"the model cannot be loaded: {error}") from error
        if found["missing_keys"]:
            # transformers would make them up at random.
            raise UnsupportedModel(f"weights are missing, such as {min(found['missing_keys'])}")
        model = model.to(device).eval()
        forward = TransformersForward(model, device)
        if not multiplies(model.dtype, device):
            widen(model.base_model)
    _probe(model, forward)
    return forward


@contextmanager
def _failures() -> Iterator[None]:
    """Turn what torch raises when memory or a device gives out into ``ForwardFailed``."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, NotImplementedError):
            raise UnsupportedModel(str(error)) from error
        raise ForwardFailed(f"{type(error).__name__}: {str(error)[:150]}") from error


def _probe(model: Any, forward: TransformersForward) -> None:
    """Compare a shared prompt, whole and cut, with transformers' own forward of plain sequences.

    A model that ignores the packing, or that does more than a linear head on its last hidden
    states, is found here and not by voids of honest samples.
    """
    size = forward.vocabulary_size
    ids = [(7_919 * place + 13) % size for place in range(1, 65)]
    prompt, claims = ids[:24], [Claim(0, ids[24:44]), Claim(0, ids[44:])]
    try:
        found = {budget: _probe_logits(forward, prompt, claims, budget) for budget in PROBE_BUDGETS}
    except TypeError as error:
        raise UnsupportedModel(f"the packing does not reach the attention: {error}") from error
    model.set_attn_implementation("eager")
    with _failures(), torch.inference_mode():
        due = [
            model(torch.tensor([[*prompt, *claim.ids[:-1]]], device=model.device)).logits
            for claim in claims
        ]
    model.set_attn_implementation(packed_attention.NAME)
    expected = torch.cat([logits[0, len(prompt) - 1 :] for logits in due]).float().cpu().numpy()
    tolerance = _PROBE_TOLERANCE[model.dtype]
    for budget, logits in found.items():
        error = np.linalg.norm(logits - expected) / np.linalg.norm(expected)
        # Weights that are not finite give no error here: the audit reports them by itself.
        if error > tolerance:
            raise UnsupportedModel(
                f"packs of {budget} tokens are off by {error:.1e} of the logits' norm"
            )


def _probe_logits(
    forward: TransformersForward, prompt: list[int], claims: list[Claim], budget: int
) -> NDArray[np.float32]:
    table = np.empty((len(claims), len(claims[0].ids), forward.vocabulary_size), np.float32)
    for rows in forward.hidden([prompt], claims, budget):
        table[rows.claims, rows.places] = forward.logits(rows.hidden).cpu()
    return table.reshape(-1, forward.vocabulary_size)
