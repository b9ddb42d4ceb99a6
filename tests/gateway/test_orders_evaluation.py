"""Evaluations: what is graded, shown and delivered, and what stays as it is for plain batches."""

import asyncio
import json
import os
import signal
from hashlib import sha256

import pytest
from exports import content, run_export
from sqlmodel import col

from gateway.graders.names import BOXED_MATH, EXACT_MATCH
from gateway.orders import life
from gateway.orders.content import object_key
from gateway.orders.evaluation import GRADER, evaluation_of
from gateway.orders.failing import note_failure
from gateway.orders.policy import Policy
from gateway.store.tables import DeliveredFile, Order, OutputFormat
from protocol.manifest import GRADES, MANIFEST, REPORT, Manifest
from protocol.repository import RepositoryError

PROMPTS = [[1, 2], [3], [1, 2], [4, 5, 6]]


async def delivered(world, model_folder, **options):
    """Place an order on the prompts, finish it, and return it with its output lines."""
    order = await world.place(PROMPTS, n=2, **options)
    await world.finish(await world.node("miner"), await world.node("validator"))
    await run_export(world, order, model_folder)
    order = await world.order(order)
    return order, await content(world, order.output_file_id)


def texts_of(line) -> list[str]:
    return [choice["message"]["content"] for choice in line["response"]["body"]["choices"]]


async def grades_of(world, order) -> list[dict]:
    data = await world.store.objects.get(object_key(order.id, GRADES))
    return [json.loads(line) for line in data.splitlines()]


async def stated(world, order) -> set[str]:
    """Return the files that the signed manifest of an order names."""
    content = await world.store.objects.get(object_key(order.id, MANIFEST))
    return set(Manifest.model_validate_json(content).statement.files)


async def report_of(world, order) -> dict | None:
    return json.loads(await world.store.objects.get(object_key(order.id, REPORT)))["evaluation"]


def without_ids(lines) -> list[dict]:
    for line in lines:
        line["id"] = line["response"]["request_id"] = line["response"]["body"]["id"] = ""
    return lines


async def test_samples_are_graded_against_their_lines_reference(world, model_folder):
    plain, output = await delivered(world, model_folder)
    texts = [texts_of(line) for line in output]
    references = [texts[0][0], "nothing says this", texts[2][1], texts[3][0]]
    options = {"references": references, "metadata": {GRADER: EXACT_MATCH}, "refused": 1}
    order, graded_output = await delivered(world, model_folder, **options)
    expected = [
        [text == wanted for text in pair] for pair, wanted in zip(texts, references, strict=True)
    ]
    assert [grade for pair in expected for grade in pair].count(True) >= 3
    assert await grades_of(world, order) == [
        {
            "custom_id": f"q{index}",
            "prompt_index": index,
            "grades": grades,
            "missing": [],
            "pass_at_1": sum(grades) / 2,
        }
        for index, grades in enumerate(expected)
    ]
    right = sum(map(sum, expected))
    assert await evaluation_of(world.store.objects, order) == {
        "grader": EXACT_MATCH,
        "status": "graded",
        "pass_at_1": round(right / 8, 6),
        "lines": 4,
        "lines_graded": 4,
        "samples": {
            "total": 8, "correct": right, "incorrect": 8 - right, "missing": 0, "ungraded": 0,
        },
    }  # fmt: skip
    files = await world.rows(DeliveredFile, col(DeliveredFile.order_id) == order.id)
    assert await stated(world, order) == {file.name for file in files} - {MANIFEST}
    assert {REPORT, GRADES} <= await stated(world, order)
    assert await report_of(world, order) == await evaluation_of(world.store.objects, order)
    for file in files:
        assert await world.store.objects.size(file.object_key) == file.bytes
    # A batch's own files say nothing of it, and a plain batch has no more than before.
    assert without_ids(graded_output) == without_ids(output)
    assert await evaluation_of(world.store.objects, plain) is None
    files = await world.rows(DeliveredFile, col(DeliveredFile.order_id) == plain.id)
    assert GRADES not in {file.name for file in files} | await stated(world, plain)
    assert await report_of(world, plain) is None


async def test_missing_samples_are_failures(world, model_folder):
    _, output = await delivered(world, model_folder)
    references = [texts_of(line)[0] for line in output]
    world.policy = Policy(unit_samples=4)
    order = await world.place(PROMPTS, n=2, references=references, metadata={GRADER: EXACT_MATCH})
    assert (await evaluation_of(world.store.objects, order))["status"] == "pending"
    miner, validator = await world.node("miner"), await world.node("validator")
    await world.generate(miner)
    await world.audit(validator, ["verified", "verified", "verified", "void"])
    world.now = order.expires_at_ms
    assert await life.expire(world.store, order.id, world.now)
    await run_export(world, order, model_folder)
    lines = await grades_of(world, order)
    assert [line["missing"] for line in lines] == [[], [1], [0, 1], [0, 1]]
    assert lines[1]["grades"] == [True, False]
    assert lines[2]["grades"] == [False, False]
    evaluation = await evaluation_of(world.store.objects, await world.order(order))
    assert evaluation["samples"]["missing"] == 5
    assert evaluation["samples"]["total"] == 8
    assert evaluation["pass_at_1"] == round(sum(line["pass_at_1"] for line in lines) / 4, 6)


async def test_what_no_process_could_grade_is_null_and_stays_so(world, model_folder, monkeypatch):
    monkeypatch.setattr("gateway.graders.boxed_math.last_box", lambda text: f"[{text}]")
    monkeypatch.setattr("gateway.graders.pool.compare_answers", _killed_by_line_three)
    monkeypatch.setattr("gateway.graders.pool.TRIES", 1)
    references = ["1", "2", "3", "4"]
    options = {"references": references, "metadata": {GRADER: BOXED_MATH}}
    order, _ = await delivered(world, model_folder, **options)
    lines = await grades_of(world, order)
    assert [line["grades"] for line in lines] == [[True] * 2, [True] * 2, [None] * 2, [True] * 2]
    assert [line["pass_at_1"] for line in lines] == [1.0, 1.0, None, 1.0]
    evaluation = await evaluation_of(world.store.objects, order)
    assert (evaluation["pass_at_1"], evaluation["lines_graded"]) == (1.0, 3)
    assert evaluation["samples"]["ungraded"] == 2
    await world.graders.close()


async def test_an_exporter_that_takes_over_grades_nothing_twice(world, model_folder, monkeypatch):
    world.policy = Policy(unit_samples=4)
    order = await world.place(PROMPTS, n=2, references=["1"] * 4, metadata={GRADER: EXACT_MATCH})
    await world.finish(await world.node("miner"), await world.node("validator"))
    graded, stuck = [], asyncio.Event()
    real = world.graders.grade

    async def grade_one_run_then_hang(grader, samples):
        if graded:
            stuck.set()
            await asyncio.Event().wait()
        graded.append(samples)
        # What no later try says again.
        return [None] * len(samples)

    monkeypatch.setattr(world.graders, "grade", grade_one_run_then_hang)
    killed = asyncio.create_task(run_export(world, order, model_folder))
    await stuck.wait()
    killed.cancel()
    with pytest.raises(asyncio.CancelledError):
        await killed
    monkeypatch.setattr(world.graders, "grade", real)
    world.now += world.policy.export_lease_ms
    assert await run_export(world, order, model_folder)
    lines = await grades_of(world, order)
    assert [line["grades"] for line in lines] == [[None] * 2] * 2 + [[False] * 2] * 2


@pytest.mark.parametrize("output_format", [None, OutputFormat.PARQUET, OutputFormat.OPENAI_JSONL])
@pytest.mark.parametrize("ending", ["cancelled", "expired"])
async def test_an_evaluation_that_never_began_has_missing_samples_alone(
    sqlite_world, model_folder, ending, output_format
):
    """They are failures, in the native order's view, in the report and in what is signed."""
    world = sqlite_world
    options = {"references": ["1"] * 4, "metadata": {GRADER: BOXED_MATH}, "refused": 1}
    order = await world.place(PROMPTS, n=2, **options)
    if output_format is not None:
        async with world.store.write() as session:
            row = await session.get_one(Order, order.id)
            row.output_format = output_format
            session.add(row)
    if ending == "cancelled":
        await life.cancel(world.store, world.account_id, order.id, world.now)
    else:
        world.now = order.expires_at_ms
        assert await life.expire(world.store, order.id, world.now)
    assert await run_export(world, order, model_folder)
    order = await world.order(order)
    assert order.status == ending
    evaluation = await evaluation_of(world.store.objects, order)
    assert evaluation == {
        "grader": BOXED_MATH,
        "status": "graded",
        "pass_at_1": 0.0,
        "lines": 4,
        "lines_graded": 4,
        "samples": {"total": 8, "correct": 0, "incorrect": 0, "missing": 8, "ungraded": 0},
    }
    rows = await world.rows(DeliveredFile, col(DeliveredFile.order_id) == order.id)
    files = {row.name: await world.store.objects.get(row.object_key) for row in rows}
    grades = GRADES if output_format is None else "grades-00000.jsonl"
    assert json.loads(files[REPORT])["evaluation"] == evaluation
    assert [json.loads(line) for line in files[grades].splitlines()] == [
        {
            "custom_id": f"q{index}",
            "prompt_index": index,
            "grades": [False, False],
            "missing": [0, 1],
            "pass_at_1": 0.0,
        }
        for index in range(4)
    ]
    manifest = Manifest.model_validate_json(files[MANIFEST])
    assert manifest.is_signed()
    statement = manifest.statement
    assert (statement.grader, statement.status) == (BOXED_MATH, ending)
    assert (statement.counts.samples_total, statement.counts.samples_missing) == (8, 8)
    for name in (REPORT, grades):
        assert statement.files[name].sha256 == sha256(files[name]).hexdigest()


async def test_an_evaluation_that_failed_is_not_graded(sqlite_world, model_folder):
    world = sqlite_world
    order = await world.place(PROMPTS, references=["1"] * 4, metadata={GRADER: EXACT_MATCH})
    await life.cancel(world.store, world.account_id, order.id, world.now)
    for _ in range(world.policy.export_tries):
        gone = RepositoryError("the commit is gone")
        await note_failure(world.store, order.id, None, gone, world.folder, world.policy, world.now)
    evaluation = await evaluation_of(world.store.objects, await world.order(order))
    assert (evaluation["status"], evaluation["pass_at_1"]) == ("not_graded", None)
    assert (evaluation["lines"], evaluation["samples"]) == (4, None)


def _killed_by_line_three(pairs: list[tuple[str, str]]) -> list[bool]:
    if any(reference == "[3]" for reference, _ in pairs):
        os.kill(os.getpid(), signal.SIGKILL)
    return [True for _ in pairs]
