"""What intake leaves behind: the usable lines of a file with their prompt ids, and the refusals."""

from dataclasses import dataclass
from pathlib import Path

from protocol.sampling import Sampling

PROMPTS = "prompts.bin"
OFFSETS = "prompts.idx"
LINES = "lines.jsonl"
REFUSED = "refused.jsonl"
FIRST_SAMPLES = "samples.bin"
PREVIEWS = "previews.jsonl"

PREVIEW_LINES = 5
PREVIEW_CHARACTERS = 2_000
PREVIEW_IDS = 64


@dataclass(frozen=True)
class Intake:
    """The outcome of reading one input file, whose bulk lies in ``folder``.

    Files of the folder:
        ``prompts.bin``: the prompt ids of all usable lines in file order, u32 little-endian,
            concatenated.
        ``prompts.idx``: u64 little-endian offsets into them, in ids; ``usable_lines + 1`` entries.
        ``samples.bin``: u32 little-endian, the first sample index of each usable line.
        ``lines.jsonl``: one object per usable line in file order, ``{"line", "custom_id",
            "first_sample_index"}`` and ``"reference"`` where the order has a grader.
        ``refused.jsonl``: one object per refused line in file order, ``{"custom_id", "line",
            "error": {"code", "message"}}``; ``custom_id`` is ``""`` where the line has none of use.
        ``previews.jsonl``: the first ``PREVIEW_LINES`` usable lines with the beginnings of their
            prompts, ``{"line", "custom_id", "prompt_tokens", "text", "token_ids"}``; ``text`` is
            null where the line gave ids.

    Attributes:
        endpoint: ``/v1/chat/completions`` or ``/v1/completions``, common to all usable lines.
        total_lines: lines that are not blank; ``usable_lines + refused_lines``.
        sampling: common to all usable lines, defaults filled in, ``top_k`` at or above V as 0.
        n: samples per line, 1 to 64.
        seed: the lines' seed, or None where they set none.
        prompt_tokens: sum of the prompts' lengths, each line's prompt counted once.
        longest_prompt: ids of the longest usable prompt.
        folder: where the files above lie; the receiver owns it and removes it.
    """

    endpoint: str
    total_lines: int
    refused_lines: int
    usable_lines: int
    sampling: Sampling
    n: int
    seed: int | None
    prompt_tokens: int
    longest_prompt: int
    folder: Path


@dataclass(frozen=True)
class FileRefusal:
    """The whole file cannot be used; the members of the ``GatewayError`` that says so."""

    status: int
    code: str
    message: str
    param: str | None = None
