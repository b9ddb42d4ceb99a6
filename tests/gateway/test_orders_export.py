"""Deliveries: their bytes, what their receipts show, and exporters that die."""

from hashlib import sha256

from exports import content, receipts_of, run_export, text_of

from gateway.orders import life
from gateway.orders.content import object_key
from gateway.orders.policy import Policy
from protocol import receipts
from protocol.manifest import MANIFEST, Manifest

PROMPTS = [[1, 2], [3], [1, 2], [4, 5, 6]]


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
