"""A posted result, read and checked as far as that needs no model; a large one in a worker process.

Parsing tens of megabytes holds the interpreter for a second at a time, in a thread too.
"""

import asyncio
from dataclasses import dataclass
from hashlib import sha256

from pydantic import ValidationError

from gateway.errors import GatewayError, invalid_message
from gateway.orders.content import WorkSource
from gateway.orders.structure import fault
from gateway.workers import WorkerPool
from protocol.documents import (
    digest,
    lease_statement,
    result_root,
    statement_of_result,
    work_keys,
)
from protocol.keys import verify_statement
from protocol.messages import Result, Stack

# Longer ones go to a worker; these are read in some ten milliseconds.
HERE_BYTES = 512 * 1024


@dataclass(frozen=True)
class Posted:
    """A document as a node posted it: its canonical bytes and their SHA-256 in hex."""

    content: bytes
    digest: str

    @classmethod
    def of(cls, content: bytes) -> "Posted":
        """Return canonical bytes with their digest."""
        return cls(content, sha256(content).hexdigest())


@dataclass(frozen=True)
class Terms:
    """What a result must answer to: its generation lease, and the work as it is stored.

    ``stack_json`` is what the miner had announced when it took the lease.
    """

    lease_id: str
    attempt: int
    hotkey: str
    issued_at: int
    stack_json: str
    source: WorkSource


@dataclass(frozen=True)
class Reading:
    """What the gateway needs to know of a result.

    Attributes:
        tokens: ids of all samples together.
        broken: the structural rule that it breaks, if any.
    """

    posted: Posted
    root: str
    samples: int
    tokens: int
    broken: str | None


async def read_posted(readers: WorkerPool, body: bytes, terms: Terms | None) -> Reading:
    """Read a result where that holds nobody up; see ``read_result``.

    Raises:
        GatewayError: as ``read_result``; 503 ``gateway_busy``: no worker is free or it died.
    """
    if len(body) <= HERE_BYTES:
        return await asyncio.to_thread(read_result, body, terms)
    return await readers.run(read_result, body, terms)


def read_result(body: bytes, terms: Terms | None) -> Reading:
    """Read a result and check it against ``terms``, where the lease is not over.

    Raises:
        GatewayError: 400 ``invalid_message`` or ``invalid_result``.
    """
    try:
        result = Result.model_validate_json(body)
    except ValidationError as error:
        raise invalid_message(Result.__name__, error) from None
    return Reading(
        posted=Posted.of(result.model_dump_json().encode()),
        root=result.root,
        samples=len(result.samples),
        tokens=sum(map(len, result.samples)),
        broken=None if terms is None else _examine(terms, result),
    )


def _examine(terms: Terms, result: Result) -> str | None:
    """Check what can be checked without the model; return the broken structural rule, if any.

    The signature comes before any rule that is held against the miner.
    """
    work = terms.source.work()
    if (result.unit_id, result.attempt) != (work.unit_id, terms.attempt):
        raise _invalid(f"the lease is for attempt {terms.attempt} of unit {work.unit_id}")
    statement = lease_statement(terms.lease_id, terms.attempt, terms.hotkey, terms.issued_at, work)
    if result.lease_digest != digest(statement).hex():
        raise _invalid("lease_digest is not that of the lease's statement")
    if result.stack != Stack.model_validate_json(terms.stack_json):
        raise _invalid("stack is not the one that was announced when the lease was taken")
    if len(result.samples) == len(work.samples):
        root = result_root(work_keys(work), result.samples)
        if root != result.root:
            raise _invalid(f"root is not that of these samples, which is {root}")
    if not verify_statement(terms.hotkey, statement_of_result(result), result.signature):
        raise _invalid("signature is not this hotkey's over the result's statement")
    return fault(work, result.samples)


def _invalid(detail: str) -> GatewayError:
    return GatewayError(400, "invalid_result", f"The result was not taken: {detail}.")
