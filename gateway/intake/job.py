"""The reading of one whole input file; runs in a worker process."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gateway.intake.fields import CHAT
from gateway.intake.lines import MAX_FILE_BYTES, MAX_LINES, count_lines, read_lines
from gateway.intake.outcome import FileRefusal, Intake
from gateway.intake.refusal import shown
from gateway.intake.request import MAX_PROMPT_TOKENS, Refused, Request, RequestReader, too_long
from gateway.intake.settings import MIN_MAX_TOKENS, Settings
from gateway.intake.template import TemplateUnusable
from gateway.intake.tokenizer import ModelTokenizer, TokenizerUnusable, load_tokenizer
from gateway.intake.writer import IntakeWriter

MAX_FILE_TOKENS = 30_000_000
MIN_PROMPT_ALLOWANCE = 8_192

# A batch goes to the tokenizer in one call: large enough to use its threads, small enough that
# texts, encodings and ids of a batch stay far below the size of a file.
_BATCH_LINES = 256
_BATCH_CHARACTERS = 512 * 1024


@dataclass(frozen=True)
class IntakeJob:
    """What a worker needs to read a file.

    Attributes:
        input_path: the input file.
        folder: an empty folder for the outcome's files.
        endpoint: the endpoint that the batch names.
        graded: the batch has a grader, so every line needs a reference.
        model: the batch's model.
        vocabulary_size: V of the draw.
        context_length: of the model, in ids.
        tokenizer_folder: the files of the model's pinned commit, weights not needed.
        template_time: Unix seconds that chat templates see.
    """

    input_path: Path
    folder: Path
    endpoint: str
    graded: bool
    model: str
    vocabulary_size: int
    context_length: int
    tokenizer_folder: Path
    template_time: int


def run_intake(job: IntakeJob) -> Intake | FileRefusal:
    """Read a file, write the files of its intake, and say whether it can be ordered.

    Raises:
        OSError: the input file or the folder cannot be used.
    """
    size = job.input_path.stat().st_size
    if size > MAX_FILE_BYTES:
        return _invalid_file(
            "file_too_large", f"the file has {size:,} bytes; at most {MAX_FILE_BYTES:,} are allowed"
        )
    if count_lines(job.input_path) > MAX_LINES:
        return _invalid_file(
            "too_many_lines", f"the file has more than {MAX_LINES:,} lines; split it"
        )
    try:
        tokenizer = load_tokenizer(job.tokenizer_folder)
    except TokenizerUnusable as error:
        return FileRefusal(422, "model_unsupported", f"The model's tokenizer: {error}.")
    with IntakeWriter(job.folder) as writer:
        try:
            _read_file(job, tokenizer, writer)
        except TemplateUnusable as error:
            return FileRefusal(422, "model_unsupported", f"The model's chat template: {error}.")
        return _judge(job, writer)


def _read_file(job: IntakeJob, tokenizer: ModelTokenizer, writer: IntakeWriter) -> None:
    """Write every line of the file, usable or refused; stops once over the token limit."""
    reader = RequestReader(job.model, job.vocabulary_size, job.graded, tokenizer, job.template_time)
    for batch in _batches(reader.read(line) for line in read_lines(job.input_path)):
        _write_batch(job, batch, tokenizer, writer)
        if writer.prompt_tokens > MAX_FILE_TOKENS:
            return


def _batches(rows: Iterator[Request | Refused]) -> Iterator[list[Request | Refused]]:
    batch: list[Request | Refused] = []
    characters = 0
    for row in rows:
        batch.append(row)
        characters += len(row.prompt) if isinstance(row, Request) else 0
        if len(batch) >= _BATCH_LINES or characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _write_batch(
    job: IntakeJob,
    batch: list[Request | Refused],
    tokenizer: ModelTokenizer,
    writer: IntakeWriter,
) -> None:
    encoded = iter(_encode(batch, tokenizer))
    for row in batch:
        if isinstance(row, Refused):
            writer.refuse(row)
            continue
        ids = next(encoded) if isinstance(row.prompt, str) else row.prompt
        refusal = _unfit(job, row, ids)
        if refusal is None:
            writer.accept(row, ids)
        else:
            writer.refuse(refusal)


def _encode(batch: list[Request | Refused], tokenizer: ModelTokenizer) -> Iterator[list[int]]:
    """The ids of the batch's texts in order; runs of one endpoint are encoded together."""
    texts: list[str] = []
    endpoint = ""
    for row in batch:
        if isinstance(row, Refused) or not isinstance(row.prompt, str):
            continue
        if row.settings.endpoint != endpoint:
            yield from tokenizer.encode(texts, special_tokens=endpoint != CHAT)
            texts, endpoint = [], row.settings.endpoint
        texts.append(row.prompt)
    yield from tokenizer.encode(texts, special_tokens=endpoint != CHAT)


def _unfit(job: IntakeJob, request: Request, ids: list[int]) -> Refused | None:
    """Why a line's prompt cannot be given to the model, or None."""
    limit = min(MAX_PROMPT_TOKENS, job.context_length)
    field = "messages" if request.settings.endpoint == CHAT else "prompt"
    if len(ids) > limit:
        refusal = too_long(len(ids), limit)
        return Refused(request.line, request.custom_id, refusal.code, refusal.message)
    if not ids:
        message = f"{field} gives a prompt of no tokens; at least one is needed."
    elif max(ids) >= job.vocabulary_size:
        message = f"{field} holds the token {max(ids)}, for which the model has no embedding."
    else:
        return None
    return Refused(request.line, request.custom_id, f"invalid_{field}", message)


def _judge(job: IntakeJob, writer: IntakeWriter) -> Intake | FileRefusal:
    """The checks over all usable lines, in the contract's order of precedence."""
    if writer.prompt_tokens > MAX_FILE_TOKENS:
        return _invalid_file(
            "too_many_tokens",
            f"the prompts of the file have more than {MAX_FILE_TOKENS:,} tokens; split it",
        )
    if writer.first is None:
        return _invalid_file("no_usable_line", _no_usable_line(job.input_path, writer))
    line, settings = writer.first
    if settings.endpoint != job.endpoint:
        return FileRefusal(
            400,
            "endpoint_mismatch",
            f"endpoint is {job.endpoint}, but line {line} has the url {settings.endpoint}; "
            "they must be equal.",
            "endpoint",
        )
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


def _invalid_file(reason: str, text: str) -> FileRefusal:
    end = "" if text.endswith(".") else "."
    return FileRefusal(422, "invalid_batch_file", f"{reason}: {text}{end}", "input_file_id")
