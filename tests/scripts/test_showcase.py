import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from scripts.showcase.customer import DemoError, check_input
from scripts.showcase.tables import Sample, answers_table, shortened

MODEL = "reliquary/tiny-qwen3"
EXAMPLE = Path("scripts/showcase/example.jsonl")


def file_of(tmp_path: Path, *rows: object) -> Path:
    path = tmp_path / "batch.jsonl"
    path.write_text(
        "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    )
    return path


def test_the_endpoint_is_the_lines_own(tmp_path: Path):
    completions = {"custom_id": "a", "url": "/v1/completions", "body": {"prompt": "x"}}
    assert check_input(file_of(tmp_path, "{broken", [], completions), MODEL) == "/v1/completions"
    assert check_input(file_of(tmp_path, "not json"), MODEL) == "/v1/chat/completions"


def test_another_model_is_refused_before_anything_starts(tmp_path: Path):
    path = file_of(tmp_path, {"body": {"model": MODEL}}, {"body": {"model": "Qwen/Qwen3-8B"}})
    with pytest.raises(DemoError, match=rf"Qwen/Qwen3-8B; the demo's network serves {MODEL} only"):
        check_input(path, MODEL)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(DemoError, match=r"absent\.jsonl: No such file"):
        check_input(tmp_path / "absent.jsonl", MODEL)


def test_the_example_has_one_sampling_and_one_bad_line():
    rows = [json.loads(line) for line in EXAMPLE.read_text().splitlines()]
    assert check_input(EXAMPLE, MODEL) == "/v1/chat/completions"
    assert len(rows) == 12
    good = [row["body"] for row in rows if "stop" not in row["body"]]
    assert len(good) == 11
    assert {(body["n"], body["max_tokens"], body["temperature"]) for body in good} == {
        (2, 192, 0.8)
    }


def test_answers_are_shown_with_their_maker():
    body = {
        "choices": [{"index": 0, "message": {"content": "[red]Paris"}}, {"index": 1, "text": "x"}]
    }
    output = [{"custom_id": "capital", "response": {"body": body}}]
    samples = [Sample("capital", 0, "5Fhot", 3)]
    console = Console(width=120, record=True, file=StringIO())
    console.print(answers_table(output, samples, {"5Fhot": "miner-1"}))
    shown = console.export_text()
    assert "[red]Paris" in shown
    assert "miner-1" in shown
    assert "?" in shown


def test_long_answers_are_cut_to_one_line():
    assert shortened("a\n  b") == "a b"
    assert len(shortened("word " * 100)) <= 72
