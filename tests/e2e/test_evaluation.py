"""Evaluations with real answers: the tiny model does sums, and is graded on them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from customer import Customer, chat_line
from ended_batch import check_ended

from gateway.graders.answers import last_box

pytestmark = pytest.mark.e2e

SECONDS = 240
# What is asked, the reference, and the sum that is right by it.
SUMS = (
    ("27 + 48", "75", 75),
    ("7 times 8", r"\frac{112}{2}", 56),
    ("6 times 9", r"\boxed{54.0}", 54),
    ("31 + 12", "43", 43),
    # Wrong on purpose.
    ("5 + 4", r"10\text{ apples}", 10),
)


def lines() -> list[dict[str, Any]]:
    body = {"max_tokens": 64, "temperature": 0.6, "top_p": 0.95, "top_k": 20, "n": 2}
    rows = []
    for number, (term, reference, _) in enumerate(SUMS):
        question = f"What is {term}? Put the answer in \\boxed{{}}."
        rows.append({**chat_line(f"q{number}", question, **body), "reference": reference})
    return rows


def test_from_a_file_to_a_graded_and_verified_parquet(customer: Customer, tmp_path: Path) -> None:
    file, out = tmp_path / "sums.jsonl", tmp_path / "out"
    file.write_text("".join(json.dumps(row) + "\n" for row in lines()))
    command = [sys.executable, "-P", "-m", "scripts.cli", "batch", "run", str(file)]
    options = ["--parquet", "--grader", "boxed_math_v1", "--yes", "--out", str(out)]
    access = ["--env", str(customer.network.layout.environment)]
    environment = os.environ | {
        "HF_HUB_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run(
        [*command, *options, *access],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ALL HOLDS." in done.stdout

    rows = [
        row
        for path in sorted(out.glob("part-*.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]
    assert [(row["custom_id"], row["choice"]) for row in rows] == [
        (f"q{number}", choice) for number in range(len(SUMS)) for choice in range(2)
    ]
    for row in rows:
        _, reference, value = SUMS[row["prompt_index"]]
        assert row["reference"] == reference
        assert row["grade"] == (last_box(row["text"]) == str(value)), row["text"]
    right = [row["grade"] for row in rows]
    # It knows its tables and sums, and nine is not ten.
    assert sum(right[:8]) >= 6
    assert right[8:] == [False, False]
    report = json.loads((out / "report.json").read_text())
    assert report["evaluation"]["pass_at_1"] == sum(right) / 10
    assert f"pass@1 {sum(right) / 10}" in done.stdout


def test_an_evaluation_ordered_as_a_batch(customer: Customer) -> None:
    rows = lines()[:2]
    batch = customer.order(rows, metadata={"reliquary_grader": "boxed_math_v1"})
    assert customer.native(batch)["evaluation"]["status"] == "pending"
    ended = customer.wait(batch)
    output, _ = check_ended(customer.client, ended, [row["custom_id"] for row in rows])
    grades = [
        [
            last_box(choice["message"]["content"]) == str(value)
            for choice in row["response"]["body"]["choices"]
        ]
        for row, (_, _, value) in zip(output, SUMS, strict=False)
    ]
    order = customer.native(ended)
    assert order["evaluation"]["status"] == "graded"
    assert order["evaluation"]["samples"]["correct"] == sum(map(sum, grades))
    (delivery,) = order["deliveries"]
    (listed,) = [entry for entry in delivery["files"] if entry["name"] == "grades.jsonl"]
    shown = customer.client.get(customer.network.origin + listed["url"], cast_to=str)
    assert [json.loads(row)["grades"] for row in shown.splitlines()] == grades
