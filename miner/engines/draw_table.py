"""Draw inputs of the requests that an engine decodes, one slot a request, and the draw over them.

What every engine shares: rows of logits go in with their slots and positions, token ids come out.
Logits never travel: the fused numba loop draws on the CPU, and a form on tensors on a GPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch

from protocol.draw import device_form, numba_form
from protocol.draw.key import key_words
from protocol.sampling import Sampling


@dataclass(frozen=True)
class DrawInputs:
    """What the draw of one sample needs beside logits and position.

    Attributes:
        key: the four u32 words of the draw key.
        vocabulary_size: ids past it are never drawn.
    """

    key: tuple[int, int, int, int]
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    vocabulary_size: int

    @classmethod
    def of(cls, key: bytes, sampling: Sampling, vocabulary_size: int) -> Self:
        """Return the inputs of the sample with the 32-byte draw key ``key``."""
        first, second, third, fourth = (int(word) for word in key_words(key))
        return cls(
            (first, second, third, fourth),
            sampling.temperature,
            sampling.top_k,
            sampling.top_p,
            sampling.min_p,
            vocabulary_size,
        )

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Read what ``to_plain`` wrote.

        Raises:
            ValueError: a member is missing, unknown or out of its range.
        """
        try:
            inputs = cls(**{**plain, "key": tuple(plain["key"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"the draw's inputs are incomplete: {error}") from error
        if len(inputs.key) != 4 or not all(0 <= word < 2**32 for word in inputs.key):
            raise ValueError("the draw key is four words of 32 bits")
        if inputs.vocabulary_size < 1:
            raise ValueError("vocabulary_size is at least 1")
        Sampling(
            temperature=inputs.temperature,
            top_k=inputs.top_k,
            top_p=inputs.top_p,
            min_p=inputs.min_p,
        )
        return inputs

    def to_plain(self) -> dict[str, Any]:
        """Return the inputs as numbers and lists, which cross any process boundary."""
        return {
            "key": list(self.key),
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "min_p": self.min_p,
            "vocabulary_size": self.vocabulary_size,
        }


class DrawTable:
    """Draw inputs by slot. All requests of one engine are of one model, so they share V."""

    def __init__(self, slots: int, device: torch.device) -> None:
        self._device = device
        self._keys = np.zeros((slots, 4), dtype=np.uint32)
        self._temperature = np.ones(slots)
        self._top_k = np.zeros(slots, dtype=np.int64)
        self._top_p = np.ones(slots)
        self._min_p = np.zeros(slots)
        self._vocabulary_size = 0
        self._columns = (self._keys, self._temperature, self._top_k, self._top_p, self._min_p)
        self._on_device: tuple[torch.Tensor, ...] | None = None

    def put(self, slot: int, inputs: DrawInputs) -> None:
        """Set the inputs of the request in ``slot``."""
        self._keys[slot] = inputs.key
        self._temperature[slot] = inputs.temperature
        self._top_k[slot] = inputs.top_k
        self._top_p[slot] = inputs.top_p
        self._min_p[slot] = inputs.min_p
        self._vocabulary_size = inputs.vocabulary_size
        self._on_device = None

    def move(self, source: int, target: int) -> None:
        """Copy the inputs in ``source`` over those in ``target``."""
        for column in self._columns:
            column[target] = column[source]
        self._on_device = None

    def swap(self, first: int, second: int) -> None:
        """Exchange the inputs of two slots."""
        for column in self._columns:
            column[[first, second]] = column[[second, first]]
        self._on_device = None

    def draw(
        self, logits: torch.Tensor, slots: torch.Tensor | slice, positions: torch.Tensor
    ) -> torch.Tensor:
        """Return the drawn ids, int64 [R].

        Args:
            logits: float32 [R, >= V], untouched.
            slots: the slot of every row.
            positions: int64 [R], completion tokens before each row; on the CPU for a CPU table.

        Raises:
            RuntimeError: a row of logits holds NaN or +inf, which is no distribution.
        """
        drawn = self._drawn(logits, slots, positions)
        if (drawn < 0).any():
            raise RuntimeError("the model's logits hold NaN or +inf; nothing can be drawn")
        return drawn

    def _drawn(
        self, logits: torch.Tensor, slots: torch.Tensor | slice, positions: torch.Tensor
    ) -> torch.Tensor:
        if self._device.type == "cpu":
            where = slots if isinstance(slots, slice) else slots.numpy()
            drawn = numba_form.draw_rows(
                logits.numpy(),
                self._keys[where],
                positions.numpy().astype(np.uint32),
                self._temperature[where],
                self._top_k[where],
                self._top_p[where],
                self._min_p[where],
                self._vocabulary_size,
            )
            return torch.from_numpy(drawn)
        keys, temperature, top_k, top_p, min_p = self.upload()
        return device_form.draw_rows(
            logits,
            keys[slots],
            positions.to(self._device),
            temperature[slots],
            top_k[slots],
            top_p[slots],
            min_p[slots],
            self._vocabulary_size,
        )

    def upload(self) -> tuple[torch.Tensor, ...]:
        """Return the columns on the device, copied there when a slot has changed."""
        if self._on_device is None:
            self._on_device = tuple(
                # torch indexes no unsigned 32-bit tensors; the words keep their values in int64.
                torch.from_numpy(
                    column.astype(np.int64) if column.dtype == np.uint32 else column
                ).to(self._device)
                for column in self._columns
            )
        return self._on_device
