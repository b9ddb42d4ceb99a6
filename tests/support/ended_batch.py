"""What must hold of every ended batch; used by every test that ends one."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import openai
from openai.types import Batch

ENDED = ("completed", "failed", "expired", "cancelled")


def rows(client: openai.OpenAI, file_id: str | None) -> list[dict[str, Any]]:
    """Download a JSONL file as its rows; none for no file."""
    if file_id is None:
        return []
    content = client.files.content(file_id).content
    assert content.endswith(b"\n")
    lines = content.decode().splitlines()
    # ASCII escapes keep every line separator that a reader may know out of the file.
    assert len(lines) == content.count(b"\n")
    return [json.loads(line) for line in lines]


def check_ended(
    client: openai.OpenAI, batch: Batch, custom_ids: Sequence[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Check an ended batch against the custom ids of its input lines; return output and errors.

    ``custom_ids`` are those of the counted lines in file order, "" where a line has none.
    """
    assert batch.status in ENDED
    _check_times(batch)
    output = rows(client, batch.output_file_id)
    errors = rows(client, batch.error_file_id)
    _check_order(output, errors, custom_ids)
    counts = batch.request_counts
    assert counts is not None
    assert counts.total == len(custom_ids)
    assert counts.completed + counts.failed == counts.total
    refused = [row for row in errors if "line" in row]
    short = [row for row in errors if "prompt_index" in row]
    if batch.status != "failed":
        assert counts.failed == len(refused) + len(short)
        whole = {row["custom_id"] for row in output} - {row["custom_id"] for row in short}
        assert counts.completed == len(whole)
    return output, errors


def _check_times(batch: Batch) -> None:
    steps = ["created_at", "in_progress_at", "cancelling_at", "finalizing_at", f"{batch.status}_at"]
    times = [getattr(batch, step) for step in steps]
    known = [time for time in times if time is not None]
    assert known == sorted(known)
    assert times[0] is not None
    assert times[-1] is not None
    others = [status for status in ENDED if status != batch.status]
    assert [getattr(batch, f"{status}_at") for status in others] == [None] * 3


def _check_order(
    output: list[dict[str, Any]], errors: list[dict[str, Any]], custom_ids: Sequence[str]
) -> None:
    place = {custom_id: index for index, custom_id in reversed(list(enumerate(custom_ids)))}
    in_output = [place[row["custom_id"]] for row in output]
    assert in_output == sorted(set(in_output))
    for row in output:
        choices = row["response"]["body"]["choices"]
        indices = [choice["index"] for choice in choices]
        assert indices == sorted(set(indices))
        assert choices
        assert row["error"] is None
    refused = [row["line"] for row in errors if "line" in row]
    short = [row["prompt_index"] for row in errors if "prompt_index" in row]
    assert refused == sorted(set(refused))
    assert short == sorted(set(short))
    assert ["line" in row for row in errors] == sorted(
        ("line" in row for row in errors), reverse=True
    )
    assert len(refused) + len(short) == len(errors)
    refused_ids = {row["custom_id"] for row in errors if "line" in row}
    # A duplicate's custom id is in the output by right of the line that came first.
    duplicates = {value for value, times in Counter(custom_ids).items() if times > 1}
    assert not ({row["custom_id"] for row in output} & refused_ids) - duplicates
    found = {row["custom_id"] for row in output} | {row["custom_id"] for row in errors}
    assert found == set(custom_ids)
