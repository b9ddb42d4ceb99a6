"""The reading of one whole input file; runs in a worker process."""

from array import array
from collections.abc import Iterator

import numpy as np

from gateway.intake.cpu_clock import running_clock
from gateway.intake.fields import CHAT
from gateway.intake.job import IntakeJob
from gateway.intake.lines import MAX_FILE_BYTES, MAX_LINES, count_lines, read_lines
from gateway.intake.outcome import FileRefusal, Intake
from gateway.intake.prompt import MAX_PROMPT_TOKENS, too_long
from gateway.intake.refusal import LineRefused
from gateway.intake.request import Refused, Request, RequestReader
from gateway.intake.settings import DEFAULT_MAX_TOKENS
from gateway.intake.template import TemplateUnusable
from gateway.intake.tokenizer import ModelTokenizer, TokenizerUnusable, load_tokenizer
from gateway.intake.verdict import invalid_file, judge, too_many_tokens
from gateway.intake.watchdog import LOADING_SECONDS, WatchedEncoder
from gateway.intake.writer import IntakeWriter
from gateway.worker import cpu_deadline

# A batch goes to the tokenizer in one call: large enough to use its threads, small enough that
# texts, encodings and ids of a batch stay far below the size of a file.
_BATCH_LINES = 256
_BATCH_CHARACTERS = 512 * 1024


def run_intake(job: IntakeJob) -> Intake | FileRefusal:
    """Read a file, write the files of its intake, and say whether it can be ordered.

    Raises:
        OSError: the input file or the folder cannot be used.
    """
    size = job.input_path.stat().st_size
    if size > MAX_FILE_BYTES:
        return invalid_file(
            "file_too_large", f"the file has {size:,} bytes; at most {MAX_FILE_BYTES:,} are allowed"
        )
    if count_lines(job.input_path) > MAX_LINES:
        return invalid_file(
            "too_many_lines", f"the file has more than {MAX_LINES:,} lines; split it"
        )
    try:
        with cpu_deadline(LOADING_SECONDS):
            tokenizer = load_tokenizer(job.tokenizer_folder)
    except TokenizerUnusable as error:
        return FileRefusal(422, "model_unsupported", f"The model's tokenizer: {error}.")
    with IntakeWriter(job.folder, job.max_new_tokens) as writer:
        try:
            with running_clock():
                _read_file(job, tokenizer, writer)
        except TemplateUnusable as error:
            return FileRefusal(422, "model_unsupported", f"The model's chat template: {error}.")
        return judge(job, writer)


def _read_file(job: IntakeJob, tokenizer: ModelTokenizer, writer: IntakeWriter) -> None:
    """Write every line of the file, usable or refused; stops once over the token limit."""
    reader = RequestReader(
        job.model,
        job.vocabulary_size,
        job.graded,
        tokenizer,
        job.template_time,
        DEFAULT_MAX_TOKENS if job.max_new_tokens is None else job.max_new_tokens,
    )
    encoder = WatchedEncoder(tokenizer)
    rows = (reader.read(line) for line in read_lines(job.input_path))
    for batch in _batches(_without_overlong(rows, encoder, _prompt_limit(job))):
        _write_batch(job, batch, encoder, writer)
        if too_many_tokens(writer):
            return


def _prompt_limit(job: IntakeJob) -> int:
    """The most ids that one prompt may have."""
    return min(MAX_PROMPT_TOKENS, job.context_length)


def _without_overlong(
    rows: Iterator[Request | Refused], encoder: WatchedEncoder, limit: int
) -> Iterator[Request | Refused]:
    """Refuse texts that are far over the limit without encoding all of them.

    Encoding takes some hundred bytes of memory a character. So of a long text growing beginnings
    are encoded first, whose length in ids tells enough: cutting a text changes the ids of its last
    word alone, for which the slack is more than wide enough.
    """
    for row in rows:
        if isinstance(row, Request) and isinstance(row.prompt, str):
            characters = 2 * limit
            while characters < len(row.prompt):
                (ids,) = encoder.encode([row.prompt[:characters]], special_tokens=False)
                if len(ids) > limit + limit // 16:
                    row = _refused(row, too_long(f"more than {limit:,}", limit))
                    break
                characters *= 2
        yield row


def _refused(request: Request, refusal: LineRefused) -> Refused:
    return Refused(request.line, request.custom_id, refusal.code, refusal.message)


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
    encoder: WatchedEncoder,
    writer: IntakeWriter,
) -> None:
    encoded = _encode(batch, encoder)
    prompts = [
        np.asarray(array("I", next(encoded) if isinstance(row.prompt, str) else row.prompt))
        for row in batch
        if isinstance(row, Request)
    ]
    # Looked at once for the batch; which line it is matters only where there is one.
    beyond = bool(prompts) and np.concatenate(prompts).max(initial=0) >= job.vocabulary_size
    found = iter(prompts)
    for row in batch:
        if isinstance(row, Refused):
            writer.refuse(row)
            continue
        ids = next(found)
        refusal = _unfit(job, row, ids, beyond)
        if refusal is None:
            writer.accept(row, ids)
        else:
            writer.refuse(_refused(row, refusal))


def _encode(batch: list[Request | Refused], encoder: WatchedEncoder) -> Iterator[list[int]]:
    """The ids of the batch's texts in order; runs of one endpoint are encoded together."""
    texts: list[str] = []
    endpoint = ""
    for row in batch:
        if isinstance(row, Refused) or not isinstance(row.prompt, str):
            continue
        if row.settings.endpoint != endpoint:
            if texts:
                yield from encoder.encode(texts, special_tokens=endpoint != CHAT)
            texts, endpoint = [], row.settings.endpoint
        texts.append(row.prompt)
    yield from encoder.encode(texts, special_tokens=endpoint != CHAT)


def _unfit(job: IntakeJob, request: Request, ids: np.ndarray, beyond: bool) -> LineRefused | None:
    """Why a line's prompt cannot be given to the model, or None.

    Args:
        beyond: some line of the batch has an id beyond the vocabulary.
    """
    limit = _prompt_limit(job)
    field = "messages" if request.settings.endpoint == CHAT else "prompt"
    if len(ids) > limit:
        return too_long(f"{len(ids):,}", limit)
    if not len(ids):
        message = f"{field} gives a prompt of no tokens; at least one is needed."
    elif beyond and ids.max() >= job.vocabulary_size:
        message = f"{field} holds the token {ids.max()}, for which the model has no embedding."
    else:
        return None
    return LineRefused(f"invalid_{field}", message)
