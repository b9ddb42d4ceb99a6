"""Answers as rows of Parquet, a row a sample, under a schema that never changes."""

from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa

from gateway.orders.delivery_lines import Decoder, Heading, Line, Sample, answer_of

FORMAT = "reliquary-parquet/1"
# Texts have 64-bit offsets, so that no column of a row group is too large for its type.
# The name of a list's items is part of its type, and this one is Parquet's own.
IDS = pa.large_list(pa.field("element", pa.int32()))
SCHEMA = pa.schema(
    [
        pa.field("custom_id", pa.large_string()),
        pa.field("prompt_index", pa.int64()),
        pa.field("choice", pa.int32()),
        pa.field("sample_index", pa.int64()),
        pa.field("text", pa.large_string()),
        pa.field("finish_reason", pa.large_string()),
        pa.field("prompt_tokens", pa.int64()),
        pa.field("completion_tokens", pa.int64()),
        pa.field("prompt_ids", IDS),
        pa.field("token_ids", IDS),
        pa.field("reference", pa.large_string()),
        pa.field("grade", pa.bool_()),
        pa.field("miner", pa.large_string()),
        pa.field("validator", pa.large_string()),
    ],
    metadata={"format": FORMAT},
)
# A row group has at most so many rows.
GROUP_ROWS = 1_000


class Shown(Sample, Protocol):
    """The part of a delivered sample, or of its receipt, that a row is made from."""

    @property
    def prompt_ids(self) -> list[int]:
        """The ids of its prompt."""
        ...

    @property
    def sample_index(self) -> int:
        """Its index among the samples of equal prompts."""
        ...

    @property
    def miner(self) -> str:
        """Who generated it."""
        ...

    @property
    def verdict(self) -> Any:
        """What was judged of it; its ``validator`` is who did."""
        ...


def rows_of(heading: Heading, line: Line[Shown], decoder: Decoder) -> Iterator[dict[str, Any]]:
    """Yield the rows of a line, one for each of its samples."""
    for choice, sample in sorted(line.samples.items()):
        answer = answer_of(heading, sample.token_ids, decoder)
        yield {
            "custom_id": line.custom_id,
            "prompt_index": line.index,
            "choice": choice,
            "sample_index": sample.sample_index,
            "text": answer.text,
            "finish_reason": answer.finish_reason,
            "prompt_tokens": line.prompt_tokens,
            "completion_tokens": len(sample.token_ids),
            "prompt_ids": sample.prompt_ids,
            "token_ids": list(sample.token_ids),
            "reference": line.reference,
            "grade": line.grades.get(choice),
            "miner": sample.miner,
            "validator": sample.verdict.validator,
        }
