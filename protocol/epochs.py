"""Epoch records: what was verified of whom, in public, so that anybody computes the same scores.

A record is signed by the gateway and names the one before it by digest, so that none can be changed
or left out later without a trace. It holds no prompt and no answer: verdicts by the digest of their
document, with counts and prices. ``docs/wire.md`` specifies it, ``scoring/pay.py`` reads it.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from bittensor_core import Keypair
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from protocol.canonical import MAX_SAFE_INTEGER, canonical_json
from protocol.documents import digest
from protocol.keys import sign_statement, verify_statement
from protocol.messages import (
    Count,
    Hex32,
    Hotkey,
    Identifier,
    Message,
    ModelName,
    ShortText,
    Signature,
)

MAX_RECORD_BYTES = 64 * 1024 * 1024
MAX_ENTRIES = 100_000

UnixMilliseconds = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER, strict=True)]
Number = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER, strict=True)]


class VerdictEntry(Message):
    """One verdict document, as the gateway's books hold it when the record is written.

    ``document`` is the SHA-256 of the document as it was posted. ``verified`` samples were verified
    by it first and have ``tokens`` ids; ``prompt_tokens`` is their share of the unit's prompts. The
    two prices are nano-USD for a token, as the order was quoted. ``void`` is 0 for second opinions.
    """

    verdict_id: Identifier
    document: Hex32
    unit_id: Identifier
    attempt: Count
    model: ModelName
    validator: Hotkey
    miner: Hotkey
    coldkey: ShortText
    verified: Count
    void: Count
    tokens: Count
    prompt_tokens: Count
    token_nano: Count
    prompt_token_nano: Count


class LapseEntry(Message):
    """A lease that a miner let end without an answer."""

    lease_id: Identifier
    unit_id: Identifier
    miner: Hotkey
    coldkey: ShortText


class ConvictionEntry(Message):
    """A miner that stands convicted by the evidence, and since which epoch."""

    miner: Hotkey
    coldkey: ShortText
    epoch: Number


class RedressEntry(Message):
    """A delivered result that was judged again: the validator that had judged it was found out.

    ``samples`` of it with ``tokens`` ids were found void; ``refunded_nano`` went back to the
    customer. It is nobody's score.
    """

    review_id: Identifier
    unit_id: Identifier
    samples: Count
    tokens: Count
    refunded_nano: Count


class EpochStatement(Message):
    """What the gateway signs of an epoch.

    ``number`` counts epochs of this length since 1970; this one lasts ``[starts_at, ends_at)``, in
    milliseconds. ``block`` was the chain's newest when the record was written: validators that set
    weights at a block use the records that are not newer. ``previous`` is the digest of the record
    before it (``null`` for the first one). ``convictions`` are all that stand when the record is
    written, not those of the epoch alone: one may be taken back. ``emission_nano`` says what the
    emission of an epoch is worth, ``null`` where nobody does. ``redress`` is left out where nothing
    that was delivered was judged again.
    """

    type: Literal["reliquary-epoch/1"] = "reliquary-epoch/1"
    number: Number
    starts_at: UnixMilliseconds
    ends_at: UnixMilliseconds
    block: Number
    block_hash: Hex32
    previous: Hex32 | None
    emission_nano: Number | None
    verdicts: Annotated[list[VerdictEntry], Field(max_length=MAX_ENTRIES)]
    lapses: Annotated[list[LapseEntry], Field(max_length=MAX_ENTRIES)]
    convictions: Annotated[list[ConvictionEntry], Field(max_length=MAX_ENTRIES)]
    redress: Annotated[list[RedressEntry], Field(default_factory=list, max_length=MAX_ENTRIES)]

    @model_serializer(mode="wrap")
    def _leave_out(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        members = whole(self)
        if not self.redress:
            del members["redress"]
        return members


class EpochRecord(Message):
    """A record: its statement with the hotkey and the signature of the gateway."""

    statement: EpochStatement
    gateway: Hotkey
    signature: Signature

    @property
    def digest(self) -> str:
        """The hex digest of the statement, by which the next record names this one."""
        return digest(self.statement.model_dump()).hex()

    def is_signed(self) -> bool:
        """Say whether the signature is ``gateway``'s over the statement."""
        return verify_statement(self.gateway, self.statement.model_dump(), self.signature)

    def encoded(self) -> bytes:
        """Return the record's bytes: canonical JSON and a line feed."""
        return canonical_json(self.model_dump()) + b"\n"


class EpochSummary(Message):
    """A record as the list of records shows it."""

    number: Number
    digest: Hex32
    block: Number


class EpochList(Message):
    """The newest records, ascending."""

    epochs: list[EpochSummary]


def signed_record(keypair: Keypair, statement: EpochStatement) -> EpochRecord:
    """Return the gateway's record over ``statement``."""
    signature = sign_statement(keypair, statement.model_dump())
    return EpochRecord(statement=statement, gateway=keypair.ss58_address, signature=signature)


class RecordFault(ValueError):
    """A chain of records does not hold; the message names the first that is wrong."""


def check_chain(records: Sequence[EpochRecord], gateway: str) -> None:
    """Check that records are one gateway's and follow one another.

    Args:
        records: ascending, none left out; the first may have one before it.
        gateway: the hotkey that must have signed them.

    Raises:
        RecordFault: the first that is not signed by it, or does not follow the one before.
    """
    before: EpochRecord | None = None
    for record in records:
        number = record.statement.number
        if record.gateway != gateway or not record.is_signed():
            raise RecordFault(f"the record of epoch {number} is not signed by {gateway}")
        if before is not None:
            if record.statement.number <= before.statement.number:
                raise RecordFault(f"epoch {number} follows epoch {before.statement.number}")
            if record.statement.previous != before.digest:
                raise RecordFault(f"the record of epoch {number} does not name the one before it")
        before = record
