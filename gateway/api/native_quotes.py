"""``/api/v1/dataset-orders/quotes``: what an order on a file would be and cost."""

import asyncio
import json
import re
import shutil
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from fastapi import Path as InPath
from pydantic import AfterValidator, ConfigDict, Field

from gateway.api.auth import Customer
from gateway.api.create_batch import parse_hours
from gateway.api.models import UUID, ContractObject, Endpoint, Seconds
from gateway.api.native_bodies import Body, documented_body, read_body
from gateway.api.native_documented import QUOTES, documented
from gateway.api.native_examples import FILE_ID, MODEL, ORDER_ID, REVISION
from gateway.api.native_order_object import SamplingTerms
from gateway.api.native_pricing import EXAMPLE, Estimate, Pricing, Usd, priced
from gateway.api.plain import must_be
from gateway.api.sources import UploadedFile
from gateway.api.state import State, StateOf
from gateway.errors import GatewayError
from gateway.intake.settings import MIN_MAX_TOKENS
from gateway.orders.kept_quotes import Terms, find_quote, keep_quote, read_quote
from gateway.orders.quote import Quote as MadeQuote
from gateway.orders.quote import QuoteRequest, quote
from gateway.orders.quotes import count_quote
from gateway.store.tables import DatasetQuote, OutputFormat, QuoteStage
from protocol.sampling import MAX_TOKENS_LIMIT

router = APIRouter(tags=[QUOTES])

QuoteId = Annotated[str, InPath(pattern="^[A-Za-z0-9_-]{1,80}$")]
DEFAULT_WINDOW = "168h"
_COMMIT = re.compile("[0-9a-f]{40}", re.ASCII)
_WINDOW = re.compile("[0-9]{1,3}h", re.ASCII)
_CODES = {
    "model": (400, "invalid_model"),
    "revision": (400, "invalid_revision"),
    "max_new_tokens": (422, "invalid_max_tokens"),
    "output_format": (400, "invalid_output_format"),
    "grader": (400, "grader_unknown"),
    "completion_window": (400, "invalid_completion_window"),
}


class AskQuote(Body):
    """What is to be ordered."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": MODEL,
                    "revision": REVISION,
                    "input_file_id": FILE_ID,
                    "max_new_tokens": 256,
                    "output_format": "parquet",
                }
            ]
        }
    )

    model: Annotated[str, Field(description="A public Hugging Face repository, org/name.")]
    revision: Annotated[
        str,
        AfterValidator(must_be("a full commit, 40 of 0-9 a-f", _COMMIT.fullmatch)),
        Field(
            description="A full commit of 40 characters.",
            json_schema_extra={"pattern": f"^{_COMMIT.pattern}$"},
        ),
    ]
    input_file_id: str
    max_new_tokens: Annotated[
        int | None,
        Field(
            ge=MIN_MAX_TOKENS,
            le=MAX_TOKENS_LIMIT,
            strict=True,
            description="max_tokens of the lines that set none.",
        ),
    ] = None
    output_format: Literal["parquet", "openai_jsonl"] = "parquet"
    grader: Annotated[
        Literal["boxed_math_v1", "exact_match_v1"] | None,
        Field(description="Makes the order an evaluation: every line carries a reference."),
    ] = None
    completion_window: Annotated[
        str,
        AfterValidator(must_be('"24h" to "168h"', _WINDOW.fullmatch)),
        Field(
            description="24h to 168h from the order on.",
            json_schema_extra={"pattern": f"^{_WINDOW.pattern}$"},
        ),
    ] = DEFAULT_WINDOW


class LineCounts(ContractObject):
    """Lines that are not blank, and what they come to."""

    lines: int
    lines_refused: int
    samples: int
    prompt_tokens: int
    longest_prompt: int
    max_completion_tokens: int


class LineError(ContractObject):
    """A line that cannot be used; ``custom_id`` is empty where it has none of use."""

    line: int
    custom_id: str
    code: str
    message: str


class PromptPreview(ContractObject):
    """The beginning of a prompt as the model gets it.

    ``text`` is null where the line gave token ids.
    """

    line: int
    custom_id: str
    prompt_tokens: int
    text: str | None
    token_ids: list[int]


class DatasetQuoteObject(ContractObject):
    """A quote: nothing is reserved until it is ordered.

    ``status`` is ``open``, ``ordered`` or ``expired``. ``seed`` is null where the file sets none.
    ``line_errors`` are the first 100 refused lines, ``preview`` the first 5 usable ones.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "id": ORDER_ID,
                    "object": "dataset_quote",
                    "status": "open",
                    "created_at": 1_762_684_900,
                    "expires_at": 1_762_771_300,
                    "order_id": None,
                    **EXAMPLE,
                    "model": MODEL,
                    "revision": REVISION,
                    "architecture": "Qwen3ForCausalLM",
                    "input_file_id": FILE_ID,
                    "endpoint": "/v1/chat/completions",
                    "output_format": "parquet",
                    "grader": None,
                    "completion_window": "168h",
                    "sampling": {
                        "temperature": 0.6,
                        "top_p": 0.95,
                        "top_k": 20,
                        "min_p": 0.0,
                        "max_tokens": 256,
                    },
                    "n": 1,
                    "seed": 7,
                    "counts": {
                        "lines": 3,
                        "lines_refused": 1,
                        "samples": 2,
                        "prompt_tokens": 41,
                        "longest_prompt": 25,
                        "max_completion_tokens": 512,
                    },
                    "line_errors": [
                        {
                            "line": 3,
                            "custom_id": "q3",
                            "code": "stop_unavailable",
                            "message": 'stop is not offered (only its neutral value "" or [] is '
                            'accepted); found "x".',
                        }
                    ],
                    "preview": [
                        {
                            "line": 1,
                            "custom_id": "q1",
                            "prompt_tokens": 16,
                            "text": "<|im_start|>user\nName the capital of France.<|im_end|>\n"
                            "<|im_start|>assistant\n",
                            "token_ids": [151644, 872, 198],
                        }
                    ],
                }
            ]
        },
    )

    id: Annotated[str, Field(pattern=f"^{UUID}$")]
    object: Literal["dataset_quote"]
    status: Literal["open", "ordered", "expired"]
    created_at: Seconds
    expires_at: Seconds
    order_id: str | None
    price_usd: Annotated[Usd, Field(description="What an order reserves: the worst case.")]
    estimate: Estimate
    pricing: Pricing
    model: str
    revision: str
    architecture: str
    input_file_id: str
    endpoint: Endpoint
    output_format: Literal["parquet", "openai_jsonl"]
    grader: str | None
    completion_window: str
    sampling: SamplingTerms
    n: int
    seed: int | None
    counts: LineCounts
    line_errors: list[LineError]
    preview: list[PromptPreview]


@router.post(
    "/dataset-orders/quotes",
    summary="Quote a file",
    **documented(400, 409, 415, 422, 429, 503, extra=documented_body(AskQuote)),
)
async def ask_quote(request: Request, principal: Customer, state: StateOf) -> DatasetQuoteObject:
    """Read a file for a model and say what an order on it would be; nothing is reserved."""
    asked = await read_body(request, AskQuote, _CODES)
    hours = parse_hours(asked.completion_window)
    account_id = principal.account_id
    source = UploadedFile(state, account_id, asked.input_file_id)
    with state.creations.enter(account_id):
        async with source.on_disk() as found:
            wanted = QuoteRequest(
                account_id=account_id,
                endpoint=None,
                completion_window_hours=hours,
                metadata={"model": asked.model, "revision": asked.revision},
                input_path=found.path,
                grader=asked.grader,
                max_new_tokens=asked.max_new_tokens,
            )
            made = await _made(state, wanted)
        terms = Terms(hours, OutputFormat(asked.output_format), asked.grader, asked.max_new_tokens)
        try:
            policy = state.settings.policy
            await count_quote(state.store, account_id, policy, state.now_ms())
            row = await keep_quote(
                state.store, account_id, asked.input_file_id, made, terms, policy, state.now_ms()
            )
        finally:
            await asyncio.to_thread(shutil.rmtree, made.intake.folder, ignore_errors=True)
    return quote_object(row, ordered=False, now_ms=state.now_ms())


@router.get("/dataset-orders/quotes/{quote_id}", summary="Read a quote", **documented())
async def get_quote(quote_id: QuoteId, principal: Customer, state: StateOf) -> DatasetQuoteObject:
    """Return a quote; it is gone some time after it has expired."""
    row, ordered = await find_quote(state.store, principal.account_id, quote_id)
    return quote_object(row, ordered=ordered, now_ms=state.now_ms())


def quote_object(row: DatasetQuote, *, ordered: bool, now_ms: int) -> DatasetQuoteObject:
    """Return a kept quote as its customer sees it."""
    made = read_quote(row)
    intake, facts = made.intake, made.facts
    samples = intake.usable_lines * intake.n
    return DatasetQuoteObject.model_validate(
        {
            "id": row.id,
            "object": "dataset_quote",
            "status": _status(row, ordered, now_ms),
            "created_at": row.created_at_ms // 1000,
            "expires_at": row.expires_at_ms // 1000,
            "order_id": row.id if ordered else None,
            **priced(made.price),
            "model": facts.model,
            "revision": facts.revision,
            "architecture": facts.architecture,
            "input_file_id": row.input_file_id,
            "endpoint": intake.endpoint,
            "output_format": row.output_format,
            "grader": row.grader,
            "completion_window": f"{row.completion_window_hours}h",
            "sampling": intake.sampling.model_dump(),
            "n": intake.n,
            "seed": intake.seed,
            "counts": {
                "lines": intake.total_lines,
                "lines_refused": intake.refused_lines,
                "samples": samples,
                "prompt_tokens": intake.prompt_tokens,
                "longest_prompt": intake.longest_prompt,
                "max_completion_tokens": samples * intake.sampling.max_tokens,
            },
            "line_errors": json.loads(row.line_errors_json),
            "preview": json.loads(row.preview_json),
        }
    )


def _status(row: DatasetQuote, ordered: bool, now_ms: int) -> str:
    if ordered:
        return "ordered"
    over = row.stage != QuoteStage.OPEN or row.expires_at_ms <= now_ms
    return "expired" if over else "open"


async def _made(state: State, wanted: QuoteRequest) -> MadeQuote:
    try:
        return await quote(
            wanted,
            state.intake,
            state.catalog,
            state.capacity,
            state.settings.incoming,
            state.now_ms(),
        )
    except GatewayError as error:
        # A batch names model and commit in its metadata, a quote in its own fields.
        if error.param is not None:
            error.param = error.param.removeprefix("metadata.")
        raise
