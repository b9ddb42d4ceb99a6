"""Answers as rows of Parquet, a row a sample."""

from collections.abc import Iterator
from typing import Any, Protocol

from gateway.orders.delivery_lines import Decoder, Heading, Line, Sample, answer_of


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
