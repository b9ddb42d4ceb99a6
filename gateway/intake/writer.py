"""The files of an intake, written as a stream, and the tallies over all usable lines."""

import hashlib
import json
from pathlib import Path
from typing import Self

import numpy as np

from gateway.intake import outcome
from gateway.intake.request import Refused, Request
from gateway.intake.settings import Settings


class IntakeWriter:
    """Writes usable lines and refusals in file order; a context manager that closes the files.

    Attributes:
        usable, refused: lines so far.
        prompt_tokens: sum of the prompts' lengths.
        longest_prompt: ids of the longest prompt.
        first: line number and settings of the first usable line, or None.
        mixed: the first member that differs from the first usable line, and the line where it
            does, or None.
        conflict: the first usable line whose ``max_tokens`` is not ``max_new_tokens``, and that;
            or None.
        first_refusal: the first refused line, or None.
    """

    def __init__(self, folder: Path, max_new_tokens: int | None = None) -> None:
        self._max_new_tokens = max_new_tokens
        self._previews = (folder / outcome.PREVIEWS).open("w", encoding="ascii")
        self._prompts = (folder / outcome.PROMPTS).open("wb")
        self._offsets = (folder / outcome.OFFSETS).open("wb")
        self._lines = (folder / outcome.LINES).open("w", encoding="ascii")
        self._refused = (folder / outcome.REFUSED).open("w", encoding="ascii")
        self._first_samples = (folder / outcome.FIRST_SAMPLES).open("wb")
        self._samples: dict[bytes, int] = {}
        self.usable = 0
        self.refused = 0
        self.prompt_tokens = 0
        self.longest_prompt = 0
        self.first: tuple[int, Settings] | None = None
        self.mixed: tuple[str, int] | None = None
        self.conflict: tuple[int, int] | None = None
        self.first_refusal: Refused | None = None
        self._write_offset()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (
            self._prompts,
            self._offsets,
            self._lines,
            self._refused,
            self._first_samples,
            self._previews,
        ):
            file.close()

    def refuse(self, line: Refused) -> None:
        """Write a refused line."""
        error = {"code": line.code, "message": line.message}
        self._refused.write(
            json.dumps({"custom_id": line.custom_id, "line": line.line, "error": error}) + "\n"
        )
        self.refused += 1
        self.first_refusal = self.first_refusal or line

    def accept(self, request: Request, ids: np.ndarray) -> None:
        """Write a usable line with its prompt ids, u32 and at least one.

        Its first sample index counts on from the samples of earlier lines with the same ids
        (the forced draw, section 1).
        """
        encoded = ids.astype("<u4", copy=False).tobytes()
        digest = hashlib.sha256(encoded).digest()
        index = self._samples.get(digest, 0)
        self._samples[digest] = index + request.settings.n
        reference = request.reference
        more = "" if reference is None else f', "reference": {json.dumps(reference)}'
        self._lines.write(
            f'{{"line": {request.line}, "custom_id": {json.dumps(request.custom_id)}, '
            f'"first_sample_index": {index}{more}}}\n'
        )
        self._first_samples.write(index.to_bytes(4, "little"))
        self._prompts.write(encoded)
        if self.usable < outcome.PREVIEW_LINES:
            self._previews.write(json.dumps(_preview(request, ids)) + "\n")
        self._tally(request, len(ids))
        self._write_offset()

    def _tally(self, request: Request, length: int) -> None:
        self.usable += 1
        self.prompt_tokens += length
        self.longest_prompt = max(self.longest_prompt, length)
        max_tokens = request.settings.max_tokens
        if self._max_new_tokens not in (None, max_tokens) and self.conflict is None:
            self.conflict = (request.line, max_tokens)
        if self.first is None:
            self.first = (request.line, request.settings)
        elif self.mixed is None:
            difference = self.first[1].first_difference(request.settings)
            if difference is not None:
                self.mixed = (difference, request.line)

    def _write_offset(self) -> None:
        self._offsets.write(self.prompt_tokens.to_bytes(8, "little"))


def _preview(request: Request, ids: np.ndarray) -> dict[str, object]:
    """Return the beginning of a line's prompt as the model gets it; text only where it was one."""
    text = request.prompt if isinstance(request.prompt, str) else None
    return {
        "line": request.line,
        "custom_id": request.custom_id,
        "prompt_tokens": len(ids),
        "text": None if text is None else text[: outcome.PREVIEW_CHARACTERS],
        "token_ids": ids[: outcome.PREVIEW_IDS].tolist(),
    }
