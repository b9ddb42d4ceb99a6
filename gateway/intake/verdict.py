"""Whether a file that was read can be ordered: its limits, and what its lines must share."""

from pathlib import Path

from gateway.intake.job import IntakeJob
from gateway.intake.lines import read_lines
from gateway.intake.outcome import FileRefusal, Intake
from gateway.intake.refusal import shown
from gateway.intake.settings import MIN_MAX_TOKENS, Settings
from gateway.intake.writer import IntakeWriter

MAX_FILE_TOKENS = 30_000_000
MIN_PROMPT_ALLOWANCE = 8_192


def too_many_tokens(writer: IntakeWriter) -> bool:
    """Whether the usable prompts so far are over the limit of a file."""
    return writer.prompt_tokens > MAX_FILE_TOKENS


def judge(job: IntakeJob, writer: IntakeWriter) -> Intake | FileRefusal:
    """The checks over all usable lines, in the contract's order of precedence.

    Args:
        job: what was to be read.
        writer: the tallies over all that was read.
    """
    if too_many_tokens(writer):
        return invalid_file(
            "too_many_tokens",
            f"the prompts of the file have more than {MAX_FILE_TOKENS:,} tokens; split it",
        )
    if writer.first is None:
        return invalid_file("no_usable_line", _no_usable_line(job.input_path, writer))
    line, settings = writer.first
    if job.endpoint is not None and settings.endpoint != job.endpoint:
        return FileRefusal(
            400,
            "endpoint_mismatch",
            f"endpoint is {job.endpoint}, but line {line} has the url {settings.endpoint}; "
            "they must be equal.",
            "endpoint",
        )
    if writer.conflict is not None:
        return _conflict(job, *writer.conflict)
    if writer.mixed is not None:
        return _mixed(line, *writer.mixed)
    return _limits(job, settings, writer) or Intake(
        endpoint=settings.endpoint,
        total_lines=writer.usable + writer.refused,
        refused_lines=writer.refused,
        usable_lines=writer.usable,
        sampling=settings.sampling(),
        n=settings.n,
        seed=settings.seed,
        prompt_tokens=writer.prompt_tokens,
        longest_prompt=writer.longest_prompt,
        folder=job.folder,
    )


def _limits(job: IntakeJob, settings: Settings, writer: IntakeWriter) -> FileRefusal | None:
    if settings.max_tokens < MIN_MAX_TOKENS:
        return FileRefusal(
            422,
            "invalid_max_tokens",
            f"max_tokens must be at least {MIN_MAX_TOKENS}; found {shown(settings.max_tokens)}.",
            "input_file_id",
        )
    prompt = max(writer.longest_prompt, MIN_PROMPT_ALLOWANCE)
    if prompt + settings.max_tokens > job.context_length:
        return FileRefusal(
            422,
            "context_too_long",
            f"The longest prompt has {writer.longest_prompt:,} tokens (at least "
            f"{MIN_PROMPT_ALLOWANCE:,} are allowed for) and max_tokens is "
            f"{settings.max_tokens:,}: together {prompt + settings.max_tokens:,}, more than the "
            f"model's context of {job.context_length:,}.",
            "input_file_id",
        )
    return None


def _conflict(job: IntakeJob, line: int, max_tokens: int) -> FileRefusal:
    return FileRefusal(
        422,
        "max_tokens_conflict",
        f"max_new_tokens is {job.max_new_tokens}, but line {line} has max_tokens "
        f"{shown(max_tokens)}; they must be equal where a line sets it.",
        "max_new_tokens",
    )


def _mixed(first: int, field: str, other: int) -> FileRefusal:
    name = "url" if field == "endpoint" else field
    return FileRefusal(
        422,
        "mixed_sampling",
        f"All usable lines must have the same {name}, but lines {first} and {other} differ in it "
        "(an omitted field takes its default); use one file per sampling.",
        "input_file_id",
    )


def _no_usable_line(path: Path, writer: IntakeWriter) -> str:
    first = writer.first_refusal
    if first is None:
        return "the file has no line that is not blank"
    hint = _shape_hint(next(read_lines(path)).data or b"")
    return (
        f"none of the file's {writer.refused:,} lines can be used{hint}. "
        f"Line {first.line}: {first.code}: {first.message}"
    )


def _shape_hint(first: bytes) -> str:
    if first.startswith(b"["):
        return (
            "; it looks like one JSON array, but JSONL has one object per line, "
            "without brackets around them and commas between them"
        )
    if first in (b"{", b"{}") or first.endswith((b"{", b"[")):
        return "; it looks pretty-printed, but JSONL has one whole object per line"
    if first.endswith(b","):
        return "; its lines end with a comma, which JSONL does not have"
    return ""


def invalid_file(reason: str, text: str) -> FileRefusal:
    """The refusal of a whole file; ``reason`` is the machine word that opens its message."""
    end = "" if text.endswith(".") else "."
    return FileRefusal(422, "invalid_batch_file", f"{reason}: {text}{end}", "input_file_id")
