"""Cheats on the model: cheaper weights in place of the pinned ones."""

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from miner.engines.base import Engine
from scripts.cheats.base import Cheat

if TYPE_CHECKING:
    from torch import Tensor

LEVELS = 7  # of a signed 4-bit integer


class FourBitWeights(Cheat):
    """Rounds every matrix to 4 bits a channel, as a node with too little memory would."""

    def __init__(self, honest: Engine) -> None:
        super().__init__(honest)
        self._copies: list[Path] = []

    def model_folder(self, folder: Path) -> Path:
        """Return a copy of the snapshot whose matrices are rounded."""
        from safetensors.torch import load_file, save_file

        copy = Path(tempfile.mkdtemp(prefix="reliquary-four-bit-"))
        self._copies.append(copy)
        for file in folder.iterdir():
            if file.suffix == ".safetensors":
                weights = load_file(file)
                save_file({name: _rounded(weights[name]) for name in weights}, copy / file.name)
            elif file.is_file():
                shutil.copyfile(file, copy / file.name)
        return copy

    def close(self) -> None:
        """Close the honest engine and remove the copies."""
        super().close()
        for copy in self._copies:
            shutil.rmtree(copy, ignore_errors=True)


def _rounded(weight: "Tensor") -> "Tensor":
    """Return ``weight`` rounded per output channel; vectors stay as they are."""
    if weight.ndim < 2:
        return weight
    scale = weight.abs().amax(dim=-1, keepdim=True).float().clamp(min=1e-12) / LEVELS
    return ((weight.float() / scale).round() * scale).to(weight.dtype)
