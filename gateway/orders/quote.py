"""A quote: an input file read for one pinned model commit, ready to be placed as an order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gateway.intake.outcome import Intake

if TYPE_CHECKING:
    from protocol.repository import ModelFacts

Dialect = Literal["openai", "openrelay", "native"]


@dataclass(frozen=True)
class QuoteRequest:
    """What a customer asks for, its body fields already checked by the route.

    Attributes:
        endpoint: ``/v1/chat/completions`` or ``/v1/completions``.
        completion_window_hours: 24 to 168.
        metadata: the batch's metadata; ``model`` and ``revision`` are read here.
        input_path: the input file on the local disk.
        grader: name of the grader, or None.
        dialect: the mount by which the order came.
    """

    endpoint: str
    completion_window_hours: int
    metadata: Mapping[str, str]
    input_path: Path
    grader: str | None = None
    dialect: Dialect = "openai"


@dataclass(frozen=True)
class Quote:
    """A file that can be ordered.

    The seed is not resolved here: where ``intake.seed`` is None, placing draws it.

    Attributes:
        intake: the usable lines, their common sampling, and the folder of their prompt ids.
        facts: model name, pinned commit, vocabulary size of the draw, end ids, context length.
        created_at: Unix milliseconds.
        template_time: Unix seconds; the clock that chat templates saw (``strftime_now``, UTC).
    """

    intake: Intake
    facts: ModelFacts
    created_at: int
    template_time: int
