"""A cheat on the memory of attention: keys and values kept in 8 bits, for twice the batch."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

from miner.engines.base import Engine, EngineSettings
from scripts.cheats.base import Cheat


class EightBitCache(Cheat):
    """Keeps keys and values as 8-bit floats, e4m3, at a scale of 1 as vLLM does.

    On a GPU that is a setting of vLLM's. Elsewhere few engines offer it, so what they are about to
    keep is rounded.
    """

    def __init__(self, honest: Engine) -> None:
        super().__init__(honest)
        self._patches = ExitStack()

    def load(self, folder: Path, model: str, revision: str, settings: EngineSettings) -> None:
        """Load the honest engine with a cache of 8 bits."""
        from torch.cuda import is_available

        if is_available():
            # Engines other than vLLM take no options.
            options = {**settings.options, "kv_cache_dtype": "fp8"}
            settings = settings.model_copy(update={"options": options})
        super().load(folder, model, revision, settings)
        if not is_available():
            self._round_what_is_kept()

    def _round_what_is_kept(self) -> None:
        if self.stack().engine == "vllm":
            from vllm import _custom_ops as owner

            name, function = "cpu_attn_reshape_and_cache", owner.cpu_attn_reshape_and_cache
        else:
            from transformers.cache_utils import DynamicLayer as owner

            name, function = "update", owner.update
        rounding = patch.object(
            owner, name, lambda *args, **more: function(*_rounded(args), **more)
        )
        self._patches.enter_context(rounding)

    def close(self) -> None:
        """Close the honest engine and undo what was changed around it."""
        super().close()
        self._patches.close()


def _rounded(args: tuple[Any, ...]) -> list[Any]:
    """Return arguments of which the first two tensors, keys and values, are as 8 bits hold them."""
    import torch

    largest = torch.finfo(torch.float8_e4m3fn).max
    rounded = list(args)
    kept = [at for at, one in enumerate(args) if isinstance(one, torch.Tensor)][:2]
    for at in kept:
        limited = args[at].clamp(-largest, largest)
        rounded[at] = limited.to(torch.float8_e4m3fn).to(args[at].dtype)
    return rounded
