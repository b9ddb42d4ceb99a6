"""Manifests: what a delivery holds, signed by the gateway and written last (``docs/receipts.md``).

A manifest commits to every byte of the other files, to the terms of the order and to its counts,
so that nothing can be changed or left out afterwards without a trace.
"""

import json
from typing import Annotated, Any, Literal, Self

from bittensor_core import Keypair
from pydantic import Field, ValidationError, model_validator

from protocol.canonical import canonical_json
from protocol.keys import sign_statement, verify_statement
from protocol.messages import (
    MAX_VOCABULARY,
    Count,
    Hex32,
    Hotkey,
    Identifier,
    Message,
    ModelName,
    Revision,
    ShortText,
    Signature,
    TokenId,
)
from protocol.sampling import Sampling, Seed

FileName = Literal["output.jsonl", "errors.jsonl", "receipts.jsonl"]
BatchFileName = FileName | Literal["report.json", "grades.jsonl"]
ShardName = Annotated[
    str,
    Field(
        pattern=r"^(?:(?:output|errors|receipts|grades)-[0-9]{5}\.jsonl|part-[0-9]{5}\.parquet"
        r"|report\.json)$"
    ),
]

MANIFEST = "manifest.json"
OUTPUT: FileName = "output.jsonl"
ERRORS: FileName = "errors.jsonl"
RECEIPTS: FileName = "receipts.jsonl"
FILES: tuple[FileName, ...] = (OUTPUT, ERRORS, RECEIPTS)
REPORT: Literal["report.json"] = "report.json"
GRADES: Literal["grades.jsonl"] = "grades.jsonl"
MAX_MANIFEST_BYTES = 1024 * 1024

# Up to the year 4147, which every calendar can show.
UnixSeconds = Annotated[int, Field(ge=0, lt=2**36, strict=True)]
Decimal = Annotated[str, Field(max_length=40)]


class FileRecord(Message):
    """A file by its size and its SHA-256."""

    bytes: Count
    sha256: Hex32


class Counts(Message):
    """What an order came to.

    Lines that are not blank make ``lines_total``. ``lines_completed`` have all their samples.
    ``prompt_tokens`` counts each usable line's prompt once, ``completion_tokens`` the ids of all
    delivered samples.
    """

    lines_total: Count
    lines_refused: Count
    lines_completed: Count
    samples_total: Count
    samples_delivered: Count
    samples_missing: Count
    prompt_tokens: Count
    completion_tokens: Count


class OrderStatement(Message):
    """What the gateway signs of every order.

    ``input`` is the file that was ordered. Times are Unix seconds; ``template_time`` is the clock
    that chat templates saw. ``sampling`` has its numbers as text, as a lease statement has them.
    ``seed_drawn`` tells that the input sets no seed.
    """

    order_id: Identifier
    status: Literal["completed", "expired", "cancelled"]
    created_at: UnixSeconds
    template_time: UnixSeconds
    endpoint: Literal["/v1/chat/completions", "/v1/completions"]
    grader: ShortText | None
    model: ModelName
    revision: Revision
    vocabulary_size: Annotated[int, Field(ge=1, le=MAX_VOCABULARY, strict=True)]
    end_ids: Annotated[list[TokenId], Field(min_length=1, max_length=64)]
    sampling: dict[ShortText, Decimal]
    seed: Seed
    seed_drawn: Annotated[bool, Field(strict=True)]
    n: Annotated[int, Field(ge=1, le=64, strict=True)]
    input: FileRecord
    counts: Counts

    @model_validator(mode="after")
    def _sampling_is_canonical(self) -> Self:
        try:
            same = sampling_terms(read_sampling(self.sampling)) == self.sampling
        except ValueError:
            same = False
        if not same:
            raise ValueError("sampling must hold the five numbers in their shortest decimal form")
        return self


class ManifestStatement(OrderStatement):
    """The statement over the delivery of an OpenAI batch, whose files are whole.

    They are ``FILES`` and ``REPORT``, and ``GRADES`` of an evaluation.
    """

    type: Literal["reliquary-manifest/1"] = "reliquary-manifest/1"
    files: Annotated[dict[BatchFileName, FileRecord], Field(min_length=3)]


class NativeStatement(OrderStatement):
    """The statement over the delivery of a native order, whose files are bounded.

    ``max_new_tokens`` is the ``max_tokens`` of lines that set none; null where those took their
    default.
    """

    type: Literal["reliquary-manifest/2"] = "reliquary-manifest/2"
    output_format: Literal["parquet", "openai_jsonl"]
    max_new_tokens: Annotated[int, Field(ge=1, strict=True)] | None
    files: Annotated[dict[ShardName, FileRecord], Field(min_length=1, max_length=10_000)]


Statement = ManifestStatement | NativeStatement


class Manifest(Message):
    """``manifest.json``: a statement with the hotkey and the signature of the gateway."""

    statement: Annotated[Statement, Field(discriminator="type")]
    gateway: Hotkey
    signature: Signature

    def is_signed(self) -> bool:
        """Say whether the signature is ``gateway``'s over the statement."""
        return verify_statement(self.gateway, self.statement.model_dump(), self.signature)

    def encoded(self) -> bytes:
        """Return the bytes of ``manifest.json``: canonical JSON and a line feed."""
        return canonical_json(self.model_dump()) + b"\n"


def signed_manifest(keypair: Keypair, statement: Statement) -> Manifest:
    """Return the gateway's manifest over ``statement``."""
    signature = sign_statement(keypair, statement.model_dump())
    return Manifest(statement=statement, gateway=keypair.ss58_address, signature=signature)


def sampling_terms(sampling: Sampling) -> dict[str, str]:
    """Return a sampling as signed statements hold it: each number in its shortest decimal form."""
    return {name: repr(value) for name, value in sampling.model_dump().items()}


def read_sampling(terms: dict[str, Any]) -> Sampling:
    """Return the sampling that a signed statement holds.

    Raises:
        ValueError: the terms are those of no sampling.
    """
    try:
        return Sampling(**{name: json.loads(value) for name, value in terms.items()})
    except (TypeError, AttributeError, RecursionError, ValidationError) as error:
        raise ValueError("these are the terms of no sampling") from error
