"""A quote: an input file read for one pinned model commit, ready to be placed as an order."""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.catalog.lookup import Catalog, Model
from gateway.catalog.names import check_commit, check_model_name
from gateway.catalog.price import Price
from gateway.catalog.sizes import allowed_ids, check_fit
from gateway.catalog.speeds import check_deadline, speed_of
from gateway.intake.job import IntakeJob
from gateway.intake.outcome import Intake
from gateway.intake.pool import IntakePool
from gateway.orders.capacity import Capacity
from protocol.repository import ModelFacts


@dataclass(frozen=True)
class QuoteRequest:
    """What a customer asks for, its body fields already checked by the route.

    Attributes:
        account_id: who asks.
        endpoint: ``/v1/chat/completions`` or ``/v1/completions``; None takes that of the lines.
        completion_window_hours: 24 to 168.
        metadata: the batch's metadata; ``model`` and ``revision`` are read here.
        input_path: the input file on the local disk.
        grader: name of the grader, or None.
        model_hint: names the model where neither the metadata nor the file does.
        max_new_tokens: ``max_tokens`` of lines that set none; None for their default.
    """

    account_id: str
    endpoint: str | None
    completion_window_hours: int
    metadata: Mapping[str, str]
    input_path: Path
    grader: str | None = None
    model_hint: str | None = None
    max_new_tokens: int | None = None


@dataclass(frozen=True)
class Quote:
    """A file that can be ordered.

    The seed is not resolved here: where ``intake.seed`` is None, placing draws it.

    Attributes:
        intake: the usable lines, their common sampling, and the folder of their prompt ids.
        facts: model name, pinned commit, vocabulary size of the draw, end ids, context length.
        price: what an order on it costs.
        created_at: Unix milliseconds.
        template_time: Unix seconds; the clock that chat templates saw (``strftime_now``, UTC).
    """

    intake: Intake
    facts: ModelFacts
    price: Price
    created_at: int
    template_time: int


async def quote(
    request: QuoteRequest,
    pool: IntakePool,
    catalog: Catalog,
    capacity: Capacity,
    workdir: Path,
    now_ms: int,
) -> Quote:
    """Find the model, pin its commit, and read the file for it.

    Args:
        request: what is asked for.
        pool: the started worker processes.
        catalog: the models that can be ordered.
        capacity: what the network can serve.
        workdir: an existing folder; the quote's files come into a new folder inside it, which the
            caller removes. Where the quote is refused nothing stays.
        now_ms: Unix milliseconds.

    Raises:
        GatewayError: in this order: ``invalid_model``, ``invalid_revision``, the model's checks,
            the file's (limits, lines, ``no_usable_line``, ``endpoint_mismatch``,
            ``mixed_sampling``, ``invalid_max_tokens``, ``context_too_long``), then
            ``model_too_large``, ``exceeds_generation_deadline`` and ``pricing_unavailable``.
    """
    model = await _find_model(request, pool, catalog, capacity, now_ms)
    # Known before the file is read; what the file adds is checked after it.
    check_fit(model.facts.model, model.size, allowed_ids(0, 0), capacity.node_bytes)
    folder = Path(tempfile.mkdtemp(prefix="intake-", dir=workdir))
    template_time = now_ms // 1_000
    job = IntakeJob(
        input_path=request.input_path,
        folder=folder,
        endpoint=request.endpoint,
        graded=request.grader is not None,
        model=model.facts.model,
        vocabulary_size=model.facts.vocabulary_size,
        context_length=model.facts.context_length,
        tokenizer_folder=model.folder,
        template_time=template_time,
        max_new_tokens=request.max_new_tokens,
    )
    try:
        intake = await pool.intake(job, request.account_id)
        await _check_capacity(model, intake, request.completion_window_hours, capacity, now_ms)
        price = catalog.prices.price(
            model.size.parameters,
            prompt_tokens=intake.prompt_tokens,
            lines=intake.usable_lines,
            n=intake.n,
            max_tokens=intake.sampling.max_tokens,
        )
    except BaseException:
        shutil.rmtree(folder)
        raise
    return Quote(intake, model.facts, price, now_ms, template_time)


async def _find_model(
    request: QuoteRequest, pool: IntakePool, catalog: Catalog, capacity: Capacity, now_ms: int
) -> Model:
    name = request.metadata.get("model")
    param = "metadata.model"
    if name is None:
        name = await pool.first_model(request.input_path)
        param = "input_file_id"
    if name is None and request.model_hint is not None:
        name, param = request.model_hint, "model"
    name = check_model_name(name, param=param)
    commit = request.metadata.get("revision")
    if commit is None:
        commit = await catalog.pin(name)
    else:
        commit = check_commit(commit, param="metadata.revision")
    return await catalog.model(name, commit, await capacity.supported(now_ms))


async def _check_capacity(
    model: Model, intake: Intake, hours: int, capacity: Capacity, now_ms: int
) -> None:
    """Refuse what the model's size makes impossible, in memory or in time."""
    facts, max_tokens = model.facts, intake.sampling.max_tokens
    ids = allowed_ids(intake.longest_prompt, max_tokens)
    check_fit(facts.model, model.size, ids, capacity.node_bytes)
    speed = await capacity.speed(facts.model, facts.revision, now_ms)
    check_deadline(
        facts.model,
        intake.usable_lines * intake.n,
        max_tokens,
        speed or speed_of(model.size.parameters),
        hours,
    )
