"""Deliveries: their bytes, what their receipts show, and exporters that die."""

import asyncio
import json
from hashlib import sha256
from pathlib import Path

import pytest
from sqlmodel import col
from tokenizers import AddedToken, Tokenizer, decoders, models

from gateway.orders import background, export, life
from gateway.orders.content import object_key
from gateway.orders.policy import Policy
from gateway.store.engine import Store
from gateway.store.tables import File, Order
from protocol import receipts
from protocol.chain.local import LocalChain
from protocol.manifest import MANIFEST, Manifest
from protocol.receipts import SampleReceipt
from protocol.repository import RepositoryError

PROMPTS = [[1, 2], [3], [1, 2], [4, 5, 6]]


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """A folder with a tokenizer: id 5 reads `` w5``, id 94 is special, id 95 the end."""
    vocabulary = {**{f" w{place}": place for place in range(94)}, "<special>": 94, "<end>": 95}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=" w0"))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(
        [AddedToken("<special>", special=True), AddedToken("<end>", special=True)]
    )
    folder = tmp_path / "model"
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


async def run_export(world, order, folder: Path) -> bool:
    return await export.export(
        world.store,
        order.id,
        lambda model, revision: folder,
        world.keypair,
        world.folder,
        world.policy,
        lambda: world.now / 1000,
    )


async def content(world, file_id: str | None) -> list[dict]:
    if file_id is None:
        return []
    (file,) = await world.rows(File, col(File.id) == file_id)
    data = await world.store.objects.get(file.object_key)
    assert len(data) == file.bytes
    data.decode("ascii")
    assert not data or data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


async def receipts_of(world, order: Order) -> list[SampleReceipt]:
    data = await world.store.objects.get(order.receipts_key or "")
    return [SampleReceipt.model_validate_json(line) for line in data.splitlines()]


def text_of(ids: list[int]) -> tuple[str, str]:
    stopped = ids[-1] == 95
    shown = ids[:-1] if stopped else ids
    text = "".join(f" w{value}" for value in shown if value != 94)
    return text, "stop" if stopped else "length"


async def test_a_completed_order_is_delivered_in_order(world, model_folder):
    order = await world.place(PROMPTS, n=2, refused=1)
    await world.finish(await world.node("miner"), await world.node("validator"))
    world.now += 5_000
    assert (await world.order(order)).output_file_id is None
    assert await run_export(world, order, model_folder)
    order = await world.order(order)
    assert (order.status, order.completed_at_ms) == ("completed", world.now)
    assert order.output_file_id == f"file-out-{order.id}"
    assert order.error_file_id == f"file-err-{order.id}"
    lines = await content(world, order.output_file_id)
    assert [line["custom_id"] for line in lines] == ["q0", "q1", "q2", "q3"]
    proofs = {
        (proof.prompt_index, proof.choice): proof for proof in await receipts_of(world, order)
    }
    assert len(proofs) == 8
    for index, line in enumerate(lines):
        assert set(line) == {"id", "custom_id", "response", "error"}
        assert line["id"].startswith("batch_req_") and line["error"] is None
        assert line["response"]["status_code"] == 200
        body = line["response"]["body"]
        assert body["object"] == "chat.completion" and body["model"] == order.model
        assert body["created"] == order.created_at_ms // 1000
        assert [choice["index"] for choice in body["choices"]] == [0, 1]
        tokens = 0
        for choice in body["choices"]:
            ids = proofs[index, choice["index"]].token_ids
            text, reason = text_of(ids)
            assert choice["message"] == {"role": "assistant", "content": text}
            assert (choice["finish_reason"], choice["logprobs"]) == (reason, None)
            tokens += len(ids)
        prompt = len(PROMPTS[index])
        assert body["usage"] == {
            "prompt_tokens": prompt,
            "completion_tokens": tokens,
            "total_tokens": prompt + tokens,
        }
    (refused,) = await content(world, order.error_file_id)
    assert (refused["custom_id"], refused["line"], refused["response"]) == ("bad0", 1, None)
    assert refused["error"] == {"code": "stop_unavailable", "message": "stop is not offered"}
    assert len({line["id"] for line in [*lines, refused]}) == 5


async def test_the_manifest_states_what_was_delivered(world, model_folder):
    order = await world.place(PROMPTS, n=2, refused=1)
    miner, validator = await world.node("miner"), await world.node("validator")
    await world.generate(miner)
    await world.audit(validator, ["verified", "void", "verified", "verified"])
    world.now = order.expires_at_ms
    assert await life.expire(world.store, order.id, world.now)
    await run_export(world, order, model_folder)
    order = await world.order(order)
    made = await world.store.objects.get(object_key(order.id, MANIFEST))
    manifest = Manifest.model_validate_json(made)
    assert manifest.is_signed() and manifest.gateway == world.keypair.ss58_address
    assert manifest.encoded() == made
    stated = manifest.statement
    for name, record in stated.files.items():
        content = await world.store.objects.get(object_key(order.id, name))
        assert (record.bytes, record.sha256) == (len(content), sha256(content).hexdigest())
    proofs = await receipts_of(world, order)
    counts = stated.counts
    assert (counts.lines_total, counts.lines_refused, counts.lines_completed) == (5, 1, 1)
    assert (counts.samples_total, counts.samples_delivered, counts.samples_missing) == (8, 3, 5)
    assert counts.completion_tokens == sum(len(proof.token_ids) for proof in proofs)
    assert counts.prompt_tokens == sum(map(len, PROMPTS))
    assert (stated.status, stated.n, stated.seed, stated.seed_drawn) == ("expired", 2, 7, False)
    assert stated.sampling == proofs[0].lease.statement["sampling"]
    assert (stated.input.bytes, stated.input.sha256) == (5, "cd" * 32)


async def test_completions_have_text(world, model_folder):
    order = await world.place([[1]], endpoint="/v1/completions")
    await world.finish(await world.node("miner"), await world.node("validator"))
    await run_export(world, order, model_folder)
    order = await world.order(order)
    (line,) = await content(world, order.output_file_id)
    body = line["response"]["body"]
    assert body["object"] == "text_completion" and body["id"].startswith("cmpl-")
    (choice,) = body["choices"]
    assert set(choice) == {"index", "text", "logprobs", "finish_reason"}
    (proof,) = await receipts_of(world, order)
    assert (choice["text"], choice["finish_reason"]) == text_of(proof.token_ids)
    assert order.error_file_id is None


async def test_receipts_hold_and_show_any_change(world, model_folder):
    order = await world.place(PROMPTS, n=3)
    miners = [await world.node("miner") for _ in range(2)]
    validator = await world.node("validator")
    lease = await world.generate(miners[0])
    await world.audit(validator, ["verified", "void", "verified"][: len(lease.work.samples)])
    for _ in range(20):
        await world.generate(miners[1])
        await world.audit(validator)
    await run_export(world, order, model_folder)
    order = await world.order(order)
    assert order.status == "completed"
    proofs = await receipts_of(world, order)
    assert len(proofs) == 12
    assert [receipts.fault(proof) for proof in proofs] == [None] * 12
    assert [proof.sample_index for proof in proofs] == [0, 1, 2, 0, 1, 2, 3, 4, 5, 0, 1, 2]
    assert [proof.miner for proof in proofs[:3]] == [
        miners[0].hotkey,
        miners[1].hotkey,
        miners[0].hotkey,
    ]
    assert all(proof.lease.gateway == world.keypair.ss58_address for proof in proofs)
    good = proofs[1]
    other = proofs[4]
    changes = [
        {"token_ids": other.token_ids},
        {"prompt_ids": other.prompt_ids},
        {"sample_index": 9},
        {"miner": miners[0].hotkey},
        {"attempt": 7},
        {"draw_key": other.draw_key},
        {"result": other.result},
        {"verdict": good.verdict.model_copy(update={"rule": "other/1"})},
        {"lease": good.lease.model_copy(update={"gateway": miners[0].hotkey})},
        {"lease": good.lease.model_copy(update={"statement": {"seed": 1.5}})},
    ]
    for change in changes:
        assert receipts.fault(good.model_copy(update=change)) is not None, change


async def test_choices_keep_their_index_when_others_are_missing(world, model_folder):
    order = await world.place([[1], [2], [3]], n=3)
    world.policy = Policy(unit_samples=9)
    validator = await world.node("validator")
    lease = await world.generate(await world.node("miner"))
    assert len(lease.work.samples) == 9
    votes = ["void", "verified", "void", "verified", "verified", "verified", "void", "void", "void"]
    await world.audit(validator, votes)
    while True:
        world.now += 1
        if await world.generate(await world.node("miner")) is None:
            break
        await world.audit(validator, "void")
    order = await world.order(order)
    assert (order.samples_verified, order.samples_missing, order.lines_completed) == (4, 5, 1)
    await run_export(world, order, model_folder)
    order = await world.order(order)
    lines = await content(world, order.output_file_id)
    indexes = {
        line["custom_id"]: [choice["index"] for choice in line["response"]["body"]["choices"]]
        for line in lines
    }
    assert indexes == {"q0": [1], "q1": [0, 1, 2]}
    errors = await content(world, order.error_file_id)
    assert [(line["custom_id"], line["prompt_index"]) for line in errors] == [("q0", 0), ("q2", 2)]
    assert [line["error"] for line in errors] == [
        {"code": "missing_samples", "message": "1 of 3 samples delivered"},
        {"code": "missing_samples", "message": "0 of 3 samples delivered"},
    ]
    assert order.status == "completed"


async def test_an_expired_order_delivers_what_is_verified(world, model_folder):
    order = await world.place([[place] for place in range(1, 11)], refused=2)
    miner, validator = await world.node("miner"), await world.node("validator")
    await world.generate(miner)
    await world.audit(validator)
    world.now += 24 * 3_600_000
    await life.expire(world.store, order.id, world.now)
    await run_export(world, order, model_folder)
    order = await world.order(order)
    assert (order.status, order.expired_at_ms, order.completed_at_ms) == (
        "expired",
        world.now,
        None,
    )
    output = await content(world, order.output_file_id)
    assert [line["custom_id"] for line in output] == [f"q{place}" for place in range(4)]
    errors = await content(world, order.error_file_id)
    assert [line.get("line") or line["prompt_index"] for line in errors] == [1, 2, *range(4, 10)]


async def test_a_cancelled_order_without_anything_verified_has_no_output(world, model_folder):
    order = await world.place([[1]])
    miner = await world.node("miner")
    await world.lease(miner)
    await life.cancel(world.store, world.account_id, order.id, world.now)
    world.now += world.policy.cancel_grace_ms
    await life.stop_cancelled(world.store, order.id, world.policy, world.now)
    await run_export(world, order, model_folder)
    order = await world.order(order)
    assert (order.status, order.output_file_id) == ("cancelled", None)
    assert len(await content(world, order.error_file_id)) == 1


async def test_two_runs_of_a_file_differ_only_in_ids_and_times(world, model_folder):
    outputs = []
    for _ in range(2):
        order = await world.place(PROMPTS, n=2, seed=11)
        await world.finish(await world.node("miner"), await world.node("validator"))
        await run_export(world, order, model_folder)
        lines = await content(world, (await world.order(order)).output_file_id)
        for line in lines:
            del line["id"], line["response"]["request_id"]
            del line["response"]["body"]["id"], line["response"]["body"]["created"]
        outputs.append(lines)
        world.now += 60_000
    assert outputs[0] == outputs[1]


async def test_a_second_exporter_waits_for_the_first_ones_lease(world, model_folder):
    order = await world.place([[1]])
    await world.finish(await world.node("miner"), await world.node("validator"))
    done = await asyncio.gather(*(run_export(world, order, model_folder) for _ in range(4)))
    assert sum(done) == 1
    assert len(await world.rows(File, col(File.order_id) == order.id)) == 1


async def test_a_killed_export_is_resumed_by_another_process(
    database, world, model_folder, monkeypatch
):
    order = await world.place(PROMPTS, n=2)
    await world.finish(await world.node("miner"), await world.node("validator"))
    stuck = asyncio.Event()
    real = export._upload

    async def upload_some_then_hang(objects, order_id, made, manifest):
        await objects.put(object_key(order_id, made.output.path.name), made.output.path)
        stuck.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(export, "_upload", upload_some_then_hang)
    killed = asyncio.create_task(run_export(world, order, model_folder))
    await stuck.wait()
    killed.cancel()
    with pytest.raises(asyncio.CancelledError):
        await killed
    await world.store.close()
    monkeypatch.setattr(export, "_upload", real)
    world.store = await Store.open(database, world.store.objects)
    try:
        assert (await world.order(order)).output_file_id is None
        assert not await run_export(world, order, model_folder)
        world.now += world.policy.export_lease_ms
        assert await run_export(world, order, model_folder)
        order = await world.order(order)
        assert order.status == "completed"
        assert len(await content(world, order.output_file_id)) == 4
        assert len(await receipts_of(world, order)) == 8
    finally:
        await world.store.close()


async def test_an_exporter_that_lost_its_lease_ends_nothing(world, model_folder, monkeypatch):
    order = await world.place([[1]])
    await world.finish(await world.node("miner"), await world.node("validator"))
    real = export.write_delivery

    async def overtaken(store, locked, *rest):
        made = await real(store, locked, *rest)
        async with store.write() as session:
            row = await session.get(Order, locked.id)
            row.export_holder = "another"
            session.add(row)
        return made

    monkeypatch.setattr(export, "write_delivery", overtaken)
    with pytest.raises(export.ExportLost):
        await run_export(world, order, model_folder)
    assert (await world.order(order)).status == "finalizing"
    assert await world.rows(File, col(File.order_id).is_not(None)) == []


async def export_all(world, folder_of) -> None:
    await background.export_orders(
        world.store,
        world.policy,
        folder_of,
        world.keypair,
        world.folder,
        lambda: world.now / 1000,
    )


async def test_an_export_that_keeps_failing_fails_its_order_alone(world, model_folder):
    order = await world.place([[1]])
    await world.finish(await world.node("miner"), await world.node("validator"))

    def vanished(model: str, revision: str) -> Path:
        raise RepositoryError("the commit is gone")

    for attempt in range(1, world.policy.export_tries + 1):
        assert (await world.order(order)).status == "finalizing"
        await export_all(world, vanished)
        assert (await world.order(order)).export_tries == attempt
        # Not tried again before its back-off is over.
        await export_all(world, vanished)
        assert (await world.order(order)).export_tries == attempt
        world.now += 600_000
    order = await world.order(order)
    assert (order.status, order.failure_code) == ("failed", "model_unavailable")
    assert order.failed_at_ms is not None
    other = await world.place([[2]])
    await world.finish(await world.node("miner"), await world.node("validator"))
    await export_all(world, lambda model, revision: model_folder)
    assert (await world.order(other)).status == "completed"


async def test_a_failing_export_keeps_no_other_from_its_turn(world, model_folder):
    bad, good = await world.place([[1]]), await world.place([[2]])
    await world.finish(await world.node("miner"), await world.node("validator"))
    await world.store.objects.delete(object_key(bad.id, "lines.jsonl"))
    await export_all(world, lambda model, revision: model_folder)
    assert (await world.order(good)).status == "completed"
    bad = await world.order(bad)
    assert (bad.status, bad.export_tries) == ("finalizing", 1)


async def test_the_background_work_brings_orders_to_their_end(world, model_folder):
    clock = asyncio.get_running_loop().time
    done = await world.place([[1], [2]])
    await world.finish(await world.node("miner"), await world.node("validator"))
    expired = await world.place([[3]])
    # The work's clock is another than the world's, and so are the times.
    world.inputs.clear()
    async with world.store.write() as session:
        row = await session.get(Order, expired.id)
        row.expires_at_ms = 0
        session.add(row)
    work = asyncio.create_task(
        background.run(
            world.store,
            LocalChain(world.folder / "chain.sqlite", clock),
            world.policy,
            lambda model, revision: model_folder,
            world.keypair,
            world.folder,
            clock,
        )
    )
    async with asyncio.timeout(60):
        while (await world.order(done)).status != "completed" or (
            await world.order(expired)
        ).status != "expired":
            world.store.announce_news()
            await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
