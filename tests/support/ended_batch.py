"""What must hold of every batch while it is polled and once it has ended.

``wait`` polls and checks what it sees against what it saw before; ``check_ended`` checks an ended
batch's files against its input; ``check_all_ended`` does so for every ended batch of an account,
and runs by itself when a test's gateway or network stops.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import openai
from openai.types import Batch

ENDED = ("completed", "failed", "expired", "cancelled")
# A batch moves to a later place alone.
PLACES = {"validating": 0, "in_progress": 1, "cancelling": 2, "finalizing": 3}
STEPS = ("created_at", "in_progress_at", "cancelling_at", "finalizing_at")
SECONDS = 60.0

Row = dict[str, Any]


@dataclass
class Watched:
    """What one poller saw of a batch so far."""

    client: openai.OpenAI
    last: dict[str, Any] = field(default_factory=dict)

    def see(self, batch: Batch) -> None:
        """Check a look at the batch against the one before.

        Counts never fall or exceed, states never go back, what is set stays, and whatever file is
        named can be read.
        """
        shown = batch.to_dict()
        before, self.last = self.last or shown, shown
        was, counts = before["request_counts"], shown["request_counts"]
        assert isinstance(was, dict) and isinstance(counts, dict)
        assert was["total"] == counts["total"]
        assert was["completed"] <= counts["completed"]
        assert was["failed"] <= counts["failed"]
        assert counts["completed"] + counts["failed"] <= counts["total"]
        assert _place(str(before["status"])) <= _place(str(shown["status"]))
        if before["status"] in ENDED:
            assert shown == before
        for name, value in before.items():
            if value is not None and name.endswith(("_at", "_id", "id")):
                assert shown[name] == value, name
        for file_id in (batch.output_file_id, batch.error_file_id):
            assert file_id is None or self.client.files.content(file_id).content


def wait(
    client: openai.OpenAI,
    batch_id: str,
    until: Callable[[Batch], bool] | None = None,
    seconds: float = SECONDS,
) -> Batch:
    """Poll until the batch ends, or ``until`` holds, and check every look at it."""
    deadline = time.monotonic() + seconds
    watched = Watched(client)
    while True:
        batch = client.batches.retrieve(batch_id)
        watched.see(batch)
        if until(batch) if until is not None else batch.status in ENDED:
            return batch
        assert time.monotonic() < deadline, f"the batch is still {batch.status}"
        time.sleep(0.05)


def rows(client: openai.OpenAI, file_id: str | None) -> list[Row]:
    """Download a JSONL file as its rows; none for no file."""
    if file_id is None:
        return []
    content = client.files.content(file_id).content
    assert client.files.retrieve(file_id).bytes == len(content)
    return parsed(content)


def parsed(content: bytes) -> list[Row]:
    """Return the rows of an output or error file."""
    assert content.endswith(b"\n") or not content
    lines = content.decode("ascii").splitlines()
    # ASCII escapes keep every line separator that a reader may know out of the file.
    assert len(lines) == content.count(b"\n")
    return [json.loads(line) for line in lines]


def check_ended(
    client: openai.OpenAI, batch: Batch, custom_ids: Sequence[str] | None = None
) -> tuple[list[Row], list[Row]]:
    """Check an ended batch against its input; return its output and its errors.

    Args:
        custom_ids: those of the counted lines in file order as the batch must report them, "" where
            a line has none; by default only what the input file itself tells is checked.
    """
    shown = batch.to_dict()
    output, errors = rows(client, batch.output_file_id), rows(client, batch.error_file_id)
    check_times(shown)
    check_places(shown, output, errors)
    if custom_ids is not None:
        _check_ids(shown, output, errors, custom_ids)
    content = _input(client, batch.input_file_id)
    if content is not None:
        check_against_input(shown, output, errors, content)
    return output, errors


def check_all_ended(client: openai.OpenAI) -> int:
    """Check every ended batch of an account whose files were not deleted; return how many.

    Native orders are no batches with files: what they deliver is checked where they are tested.
    """
    checked = 0
    for batch in client.batches.list(limit=100):
        kept = all(
            _input(client, file_id) is not None
            for file_id in (batch.output_file_id, batch.error_file_id)
            if file_id is not None
        )
        if batch.status in ENDED and kept and not _is_native(batch):
            check_ended(client, batch)
            checked += 1
    return checked


def _is_native(batch: Batch) -> bool:
    """Whether a batch was delivered as Parquet: it has complete lines, and no output to show."""
    counts = batch.request_counts
    complete = counts is not None and counts.completed > 0
    completed = complete or batch.status == "completed"
    return batch.status != "failed" and completed and batch.output_file_id is None


def check_times(shown: dict[str, Any]) -> None:
    """Check that an ended batch's times stand in order and are those of its way alone."""
    status = shown["status"]
    assert status in ENDED
    times = [shown.get(step) for step in (*STEPS, f"{status}_at")]
    known = [time for time in times if time is not None]
    assert known == sorted(known)
    assert times[0] is not None and times[-1] is not None
    assert shown["expires_at"] > times[0]
    assert [shown.get(f"{other}_at") for other in ENDED if other != status] == [None] * 3
    assert (shown.get("cancelling_at") is not None) >= (status == "cancelled")
    if status == "completed":
        assert None not in (shown.get("in_progress_at"), shown.get("finalizing_at"))
    assert (status == "failed") == (shown.get("errors") is not None)
    assert "reliquary_queue" not in shown


def check_places(shown: dict[str, Any], output: list[Row], errors: list[Row]) -> None:
    """Check the counts against the files, and the order within each of them."""
    counts = shown["request_counts"]
    assert counts["completed"] + counts["failed"] == counts["total"]
    refused = [row for row in errors if "line" in row]
    short = [row for row in errors if "prompt_index" in row]
    assert errors == refused + short
    assert _rising([row["line"] for row in refused])
    assert _rising([row["prompt_index"] for row in short])
    for row in output:
        indices = [choice["index"] for choice in row["response"]["body"]["choices"]]
        assert indices and _rising(indices)
        assert row["response"]["status_code"] == 200 and row["error"] is None
    for row in errors:
        assert row["response"] is None
        assert row["error"]["code"] and row["error"]["message"]
        assert (row["error"]["code"] == "missing_samples") == ("prompt_index" in row)
    ids = [row["id"] for row in output]
    assert len(set(ids)) == len(ids)
    if shown["status"] == "failed":
        # Nothing was delivered; where it can still be read, the input is accounted for.
        assert output == []
        assert len(errors) == (counts["total"] if shown["error_file_id"] else 0)
        return
    assert counts["failed"] == len(errors)
    assert (shown.get("error_file_id") is not None) == bool(errors)
    if shown.get("in_progress_at") is None:
        assert not output
    in_both = {row["custom_id"] for row in short} & {row["custom_id"] for row in output}
    assert counts["completed"] == len(output) - len(in_both)


def check_against_input(
    shown: dict[str, Any], output: list[Row], errors: list[Row], content: bytes
) -> None:
    """Check that each counted line of the input is in the places that the contract allows."""
    lines = input_lines(content)
    assert shown["request_counts"]["total"] == len(lines)
    if shown.get("error_file_id") is None and shown["status"] == "failed":
        return
    refused = {row["line"]: row for row in errors if "line" in row}
    assert refused.keys() <= lines.keys()
    for number, row in refused.items():
        known = lines[number]
        assert known is None or row["custom_id"] in (_custom_id(known), "")
    # What is not refused is usable, so it is JSON; ``prompt_index`` counts it from 0.
    usable = [line for number, line in lines.items() if number not in refused]
    short = {row["prompt_index"]: row for row in errors if "prompt_index" in row}
    delivered = iter(output)
    for index, line in enumerate(usable):
        assert line is not None
        wanted = int(line["body"].get("n") or 1)
        held = wanted
        if index in short:
            row = short.pop(index)
            assert row["custom_id"] == line["custom_id"]
            held = int(row["error"]["message"].split()[0])
            assert row["error"]["message"] == f"{held} of {wanted} samples delivered"
            assert held < wanted
        if held:
            row = next(delivered)
            assert row["custom_id"] == line["custom_id"]
            choices = [choice["index"] for choice in row["response"]["body"]["choices"]]
            assert len(choices) == held and choices[-1] < wanted
    assert next(delivered, None) is None
    assert not short


def input_lines(content: bytes) -> dict[int, Row | None]:
    """Return a file's counted lines by their number: the object on each, None where none is."""
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return {at: _object(line) for at, line in enumerate(lines, 1) if line.strip(b" \t\r")}


def _check_ids(
    shown: dict[str, Any], output: list[Row], errors: list[Row], custom_ids: Sequence[str]
) -> None:
    assert shown["request_counts"]["total"] == len(custom_ids)
    place = {custom_id: index for index, custom_id in reversed(list(enumerate(custom_ids)))}
    assert _rising([place[row["custom_id"]] for row in output])
    refused = {row["custom_id"] for row in errors if "line" in row}
    # A duplicate's custom id is in the output by right of the line that came first.
    duplicates = {value for value, times in Counter(custom_ids).items() if times > 1}
    assert not ({row["custom_id"] for row in output} & refused) - duplicates
    if shown["status"] != "failed" or errors:
        found = {row["custom_id"] for row in output} | {row["custom_id"] for row in errors}
        assert found == set(custom_ids)


def _input(client: openai.OpenAI, file_id: str) -> bytes | None:
    try:
        return client.files.content(file_id).content
    except openai.NotFoundError:
        return None


def _object(line: bytes) -> Row | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _custom_id(line: Row) -> str:
    value = line.get("custom_id")
    return value if isinstance(value, str) and 1 <= len(value) <= 64 else ""


def _place(status: str) -> int:
    return PLACES.get(status, len(PLACES))


def _rising(values: Sequence[int]) -> bool:
    return list(values) == sorted(set(values))
