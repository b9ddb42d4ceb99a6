"""Cheats on the model: cheaper weights in place of the pinned ones."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from miner.engines.base import Engine
from scripts.cheats.base import Cheat

if TYPE_CHECKING:
    from torch import Tensor

CONFIG = "config.json"
LAYERS = "num_hidden_layers"


class OtherWeights(Cheat):
    """Loads a copy of the snapshot that a subclass changes."""

    def __init__(self, honest: Engine) -> None:
        super().__init__(honest)
        self._copies: list[Path] = []

    def model_folder(self, folder: Path) -> Path:
        """Return a changed copy of the snapshot."""
        from safetensors.torch import load_file, save_file

        copy = Path(tempfile.mkdtemp(prefix="reliquary-other-weights-"))
        self._copies.append(copy)
        for file in folder.iterdir():
            if file.suffix == ".safetensors":
                save_file(self.changed(load_file(file)), copy / file.name)
            elif file.is_file():
                shutil.copyfile(file, copy / file.name)
        self.change_config(copy / CONFIG)
        return copy

    def changed(self, weights: "dict[str, Tensor]") -> "dict[str, Tensor]":
        """Return the weights that are used in place of ``weights``."""
        return weights

    def change_config(self, path: Path) -> None:
        """Change the configuration that lies at ``path``."""

    def close(self) -> None:
        """Close the honest engine and remove the copies."""
        super().close()
        for copy in self._copies:
            shutil.rmtree(copy, ignore_errors=True)


class FourBitWeights(OtherWeights):
    """Rounds every matrix to 4 bits a channel, as a node with too little memory would."""

    levels = 7  # of a signed integer, on one side of 0

    def changed(self, weights: "dict[str, Tensor]") -> "dict[str, Tensor]":
        """Return the weights rounded."""
        return {name: _rounded(weights[name], self.levels) for name in weights}


class EightBitWeights(FourBitWeights):
    """Rounds every matrix to 8 bits a channel, which many serving stacks do to go faster."""

    levels = 127


class FewerLayers(OtherWeights):
    """Leaves the model's last layer out: a smaller model that is close to the ordered one."""

    def change_config(self, path: Path) -> None:
        """Count one layer less; the weights of the last one are then never read."""
        config = json.loads(path.read_text())
        config[LAYERS] -= 1
        if "layer_types" in config:
            config["layer_types"] = config["layer_types"][: config[LAYERS]]
        path.write_text(json.dumps(config))

    def changed(self, weights: "dict[str, Tensor]") -> "dict[str, Tensor]":
        """Return the weights without the layer of the highest number."""
        numbers = {name: _layer(name) for name in weights}
        last = max(number for number in numbers.values() if number is not None)
        return {name: weights[name] for name, number in numbers.items() if number != last}


def _layer(name: str) -> int | None:
    parts = name.split(".")
    return int(parts[parts.index("layers") + 1]) if "layers" in parts else None


def _rounded(weight: "Tensor", levels: int) -> "Tensor":
    """Return ``weight`` rounded per output channel; vectors stay as they are."""
    if weight.ndim < 2:
        return weight
    scale = weight.abs().amax(dim=-1, keepdim=True).float().clamp(min=1e-12) / levels
    return ((weight.float() / scale).round() * scale).to(weight.dtype)
