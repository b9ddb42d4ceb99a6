"""Quotes: model, commit and file together, over a real hub and a real worker."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.catalog.lookup import Catalog
from gateway.catalog.speeds import SPEEDS
from gateway.errors import GatewayError
from gateway.intake.outcome import (
    PREVIEW_CHARACTERS,
    PREVIEW_IDS,
    PREVIEW_LINES,
    PREVIEWS,
)
from gateway.intake.pool import IntakePool
from gateway.orders.capacity import Capacity
from gateway.orders.quote import Quote, QuoteRequest, quote

MODEL = "reliquary/tiny"
NOW = 1_762_685_000_123
Make = Callable[..., dict[str, Any]]


@pytest.fixture
async def pool() -> AsyncIterator[IntakePool]:
    async with IntakePool(workers=1) as pool:
        yield pool


@pytest.fixture
def ask(
    pool: IntakePool, catalog: Catalog, capacity: Capacity, tmp_path: Path
) -> Callable[..., Any]:
    """Quote lines: ``await ask(lines, metadata=..., endpoint=..., network=..., hours=...)``."""
    workdir = tmp_path / "work"
    workdir.mkdir()

    async def call(lines: list[Any], metadata: dict[str, str] | None = None, **more: Any) -> Quote:
        path = tmp_path / "input.jsonl"
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("\n".join(texts))
        network = more.pop("network", capacity)
        request = QuoteRequest(
            account_id="account",
            endpoint=more.pop("endpoint", "/v1/chat/completions"),
            completion_window_hours=more.pop("hours", 24),
            metadata=metadata or {},
            input_path=path,
            **more,
        )
        before = set(workdir.iterdir())
        try:
            return await quote(request, pool, catalog, network, workdir, NOW)
        except GatewayError:
            assert set(workdir.iterdir()) == before
            raise

    return call


async def refused(answer: Any) -> tuple[int, str]:
    with pytest.raises(GatewayError) as error:
        await answer
    return error.value.status, error.value.code


async def test_a_quote(put: Callable[..., str], ask: Any, chat: Make, tmp_path: Path) -> None:
    commit = put()
    answer = await ask([chat("q1", seed=7), chat("q2", seed=7, stop="x")])
    assert (answer.facts.model, answer.facts.revision) == (MODEL, commit)
    assert (answer.created_at, answer.template_time) == (NOW, NOW // 1_000)
    assert (answer.intake.usable_lines, answer.intake.refused_lines) == (1, 1)
    assert answer.intake.seed == 7
    price = answer.price
    assert (price.prompt_tokens, price.samples) == (answer.intake.prompt_tokens, 1)
    assert price.max_tokens == answer.intake.sampling.max_tokens
    assert answer.intake.folder.parent == tmp_path / "work"
    assert sorted(path.name for path in answer.intake.folder.iterdir()) == [
        "lines.jsonl",
        "previews.jsonl",
        "prompts.bin",
        "prompts.idx",
        "refused.jsonl",
        "samples.bin",
    ]


async def test_the_model_of_the_first_object_counts(
    put: Callable[..., str], ask: Any, chat: Make
) -> None:
    put()
    put("reliquary/other")
    first = json.dumps(chat("q1", stop="x"))
    other = [chat("q2", model="reliquary/other"), chat("q3", model=None)]
    answer = await ask(["nonsense", "[1]", "", first, *other])
    assert answer.facts.model == MODEL
    assert answer.intake.usable_lines == 1
    assert await refused(ask([chat("q1", model=None), chat("q2")])) == (400, "invalid_model")
    assert await refused(ask([chat("q1", model=["x"]), chat("q2")])) == (400, "invalid_model")
    assert await refused(ask([{"custom_id": "q"}, chat("q2")])) == (400, "invalid_model")
    assert await refused(ask([])) == (400, "invalid_model")
    twice = first.replace('"stop"', '"n": 1, "n": 1, "stop"')
    assert (await ask([twice, chat("q2")])).facts.model == MODEL


async def test_the_metadata_names_model_and_commit(
    put: Callable[..., str], ask: Any, chat: Make
) -> None:
    first = put()
    second = put(config={"max_position_embeddings": 16_384})
    lines = [chat("q1", model=None), chat("q2")]
    answer = await ask(lines, {"model": MODEL, "revision": first})
    assert (answer.facts.revision, answer.intake.usable_lines) == (first, 2)
    answer = await ask(lines, {"model": MODEL})
    assert answer.facts.revision == second
    put("reliquary/other")
    answer = await ask(lines, {"model": "reliquary/other"})
    assert (answer.intake.usable_lines, answer.intake.refused_lines) == (1, 1)


async def test_errors_come_in_the_contracts_order(
    put: Callable[..., str], ask: Any, chat: Make
) -> None:
    commit = put()
    put("reliquary/llama", config={"architectures": ["LlamaForCausalLM"]})
    short = chat("q1", max_tokens=1)
    bad = {"model": "tiny", "revision": "main"}
    assert await refused(ask([short], bad)) == (400, "invalid_model")
    bad["model"] = "reliquary/llama"
    assert await refused(ask([short], bad)) == (400, "invalid_revision")
    del bad["revision"]
    assert await refused(ask([short], bad)) == (422, "architecture_unsupported")
    pinned = {"revision": commit}
    other = {"endpoint": "/v1/completions"}
    nothing = {"custom_id": "q0", "body": {"model": MODEL}}
    assert await refused(ask([nothing], pinned, **other)) == (422, "invalid_batch_file")
    mixed = [short, chat("q2", max_tokens=2)]
    assert await refused(ask(mixed, pinned, **other)) == (400, "endpoint_mismatch")
    assert await refused(ask(mixed, pinned)) == (422, "mixed_sampling")
    assert await refused(ask([short], pinned)) == (422, "invalid_max_tokens")
    long = chat("q1", max_tokens=32_768)
    assert await refused(ask([long], pinned)) == (422, "context_too_long")


async def test_a_grader_asks_for_references(put: Callable[..., str], ask: Any, chat: Make) -> None:
    put()
    lines = [{**chat("q1"), "reference": "42"}, chat("q2")]
    answer = await ask(lines, grader="exact_match_v1")
    assert (answer.intake.usable_lines, answer.intake.refused_lines) == (1, 1)


async def test_the_template_sees_the_quotes_clock(
    put: Callable[..., str], ask: Any, chat: Make
) -> None:
    template = "{{ raise_exception(strftime_now('%Y-%m-%d %H:%M:%S')) }}"
    put(extra={"chat_template.jinja": template})
    with pytest.raises(GatewayError, match="2025-11-09 10:43:20"):
        await ask([chat("q1")])


async def test_a_model_without_a_template_is_said_so(
    put: Callable[..., str], ask: Any, chat: Make, completion: Make
) -> None:
    put(without="chat_template.jinja")
    with pytest.raises(GatewayError, match="/v1/completions"):
        await ask([chat("q1")])
    answer = await ask([completion("q1")], endpoint="/v1/completions")
    assert answer.intake.usable_lines == 1


@pytest.mark.parametrize("node_bytes", [1_000, 10_000_000])
async def test_a_model_that_fits_no_node(
    put: Callable[..., str], ask: Any, chat: Make, capacity: Capacity, node_bytes: int
) -> None:
    put()
    small = replace(capacity, node_bytes=node_bytes)
    lines = [chat("q1", max_tokens=16)]
    # Two layers of keys and values of two heads of 16 in float32 are 512 bytes an id.
    fits = round(1.3 * len(b"weights are never read here")) + 8 * 512 * (8_192 + 16)
    assert await refused(ask(lines, network=small)) == (422, "model_too_large")
    await ask(lines, network=replace(capacity, node_bytes=fits))
    just_under = replace(capacity, node_bytes=fits - 1)
    assert await refused(ask(lines, network=just_under)) == (422, "model_too_large")
    longer = [chat("q1", max_tokens=17)]
    exact = replace(capacity, node_bytes=fits)
    assert await refused(ask(longer, network=exact)) == (422, "model_too_large")


async def test_an_order_that_no_window_is_long_enough_for(
    put: Callable[..., str], ask: Any, chat: Make
) -> None:
    put()
    most = int(SPEEDS[0][1]) * 3_600 * 24 // (64 * 16_384)
    lines = [chat(f"q{number}", n=64, max_tokens=16_384) for number in range(most + 1)]
    assert await refused(ask(lines)) == (422, "exceeds_generation_deadline")
    assert (await ask(lines, hours=25)).intake.usable_lines == most + 1
    assert (await ask(lines[:-1])).intake.usable_lines == most


async def test_without_any_node_there_is_no_list_of_architectures(
    put: Callable[..., str], ask: Any, chat: Make, capacity: Capacity
) -> None:
    put()
    answer = ask([chat("q1")], network=replace(capacity, architectures=()))
    assert await refused(answer) == (503, "architecture_list_unavailable")


async def test_lines_without_max_tokens_take_max_new_tokens(
    put: Callable[..., str], ask: Any, chat: Make
) -> None:
    put()
    without, same, other = (chat("q1"), chat("q2", max_tokens=64), chat("q3", max_tokens=65))
    without["body"].pop("max_tokens", None)
    answer = await ask([without, same], max_new_tokens=64)
    assert answer.intake.sampling.max_tokens == 64
    for lines in ([other], [without, other], [same, {**other, "custom_id": "q2b"}]):
        with pytest.raises(GatewayError, match="max_new_tokens is 64") as error:
            await ask(lines, max_new_tokens=64)
        found = error.value
        assert (found.status, found.code, found.param) == (
            422,
            "max_tokens_conflict",
            "max_new_tokens",
        )
    # The conflict is told before any other difference between lines.
    warm = chat("q4", max_tokens=65, temperature=0.5)
    assert await refused(ask([same, warm], max_new_tokens=64)) == (422, "max_tokens_conflict")
    warm["body"]["max_tokens"] = 64
    assert await refused(ask([same, warm], max_new_tokens=64)) == (422, "mixed_sampling")


async def test_without_an_endpoint_the_first_usable_lines_counts(
    put: Callable[..., str], ask: Any, chat: Make, completion: Make
) -> None:
    put()
    lines = [chat("q1", stop="x"), completion("q2")]
    assert (await ask(lines, endpoint=None)).intake.endpoint == "/v1/completions"
    assert await refused(ask([chat("q1"), completion("q2")], endpoint=None)) == (
        422,
        "mixed_sampling",
    )


async def test_the_first_prompts_are_shown_in_part(
    put: Callable[..., str], ask: Any, chat: Make, completion: Make
) -> None:
    put()
    lines = [chat("bad", stop="x"), *(chat(f"q{at}", messages=[
        {"role": "user", "content": "long " * 1_000}
    ]) for at in range(PREVIEW_LINES + 1))]  # fmt: skip
    answer = await ask(lines)
    rows = [json.loads(row) for row in (answer.intake.folder / PREVIEWS).read_text().splitlines()]
    assert [row["line"] for row in rows] == list(range(2, PREVIEW_LINES + 2))
    assert all(len(row["text"]) == PREVIEW_CHARACTERS for row in rows)
    assert rows[0]["text"].startswith("<|im_start|>user\nlong long ")
    assert all(len(row["token_ids"]) == PREVIEW_IDS < row["prompt_tokens"] for row in rows)
    answer = await ask([completion("c1", prompt=[5, 6])], endpoint="/v1/completions")
    (row,) = map(json.loads, (answer.intake.folder / PREVIEWS).read_text().splitlines())
    assert (row["text"], row["token_ids"], row["prompt_tokens"]) == (None, [5, 6], 2)
