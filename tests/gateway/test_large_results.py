"""Results that are read in a worker process, and stored ones that are read without being parsed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import select
from world import STACK, World

from gateway.errors import GatewayError
from gateway.orders import result_reading
from gateway.orders.results import accept_result
from gateway.orders.stored_results import sample_ids, sample_lengths, without_samples
from gateway.store.tables import Lease
from protocol.messages import Result

IDS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5)


@given(st.lists(IDS, min_size=1, max_size=4), st.text().filter(lambda text: "\0" not in text))
def test_a_stored_result_is_read_by_its_samples(samples: list[list[int]], version: str) -> None:
    for name in (version[:100], '"samples":[[1]]', ']],"samples":[['):
        result = Result(
            unit_id="0" * 36,
            attempt=1,
            lease_digest="0" * 64,
            stack=STACK.model_copy(update={"version": name}),
            samples=samples,
            root="1" * 64,
            signature="2" * 128,
        )
        document = result.model_dump_json().encode()
        assert sample_ids(document) == samples
        assert sample_lengths(document) == [len(ids) for ids in samples]
        rest = Result.model_validate_json(without_samples(document))
        assert rest == result.model_copy(update={"samples": [[0]]})


async def post(world: World, hotkey: str, lease_id: str, body: bytes) -> tuple[int, str, str]:
    """Post a result and return the status, code and text of the answer."""
    try:
        receipt = await accept_result(world.store, world.readers, hotkey, lease_id, body, world.now)
    except GatewayError as error:
        return error.status, error.code, str(error)
    return 200, "", receipt.detail


async def test_a_worker_reads_as_the_gateway_does(
    sqlite_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = sqlite_world
    miner = await world.node("miner")
    await world.place([[1, 2, 3]] * 8)
    for limit in (2**30, -1):
        monkeypatch.setattr(result_reading, "HERE_BYTES", limit)
        lease = await world.lease(miner)
        assert lease is not None
        good = world.result(miner, lease)
        changes: list[tuple[dict[str, Any], int, str, str]] = [
            ({"attempt": 7}, 400, "invalid_result", "attempt 1 of unit"),
            ({"root": "00" * 32}, 400, "invalid_result", "root is not that"),
            ({"signature": "00" * 64}, 400, "invalid_result", "signature is not"),
            ({"samples": []}, 400, "invalid_message", "Result.samples: "),
            ({"unit_id": 5}, 400, "invalid_message", "Result.unit_id: "),
        ]
        for change, status, code, text in changes:
            wrong = json.dumps({**good.model_dump(mode="json"), **change}).encode()
            answer = await post(world, miner.hotkey, lease.lease_id, wrong)
            assert answer[:2] == (status, code)
            assert text in answer[2]
        spaced = json.dumps(good.model_dump(mode="json"), indent=1).encode()
        taken = await post(world, miner.hotkey, lease.lease_id, spaced)
        assert taken[0] == 200
        again = await post(world, miner.hotkey, lease.lease_id, good.model_dump_json().encode())
        assert again == taken
        async with world.store.read() as session:
            row = (await session.exec(select(Lease).where(Lease.id == lease.lease_id))).one()
        stored = await world.store.objects.get(row.object_key or "")
        assert stored == good.model_dump_json().encode()


async def test_a_worker_finds_broken_rules(
    sqlite_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = sqlite_world
    monkeypatch.setattr(result_reading, "HERE_BYTES", -1)
    miner = await world.node("miner")
    await world.place([[1, 2, 3]] * 4)
    lease = await world.lease(miner)
    assert lease is not None
    broken = world.result(miner, lease, samples=[[1], *world.answers(lease.work)[1:]])
    body = broken.model_dump_json().encode()
    for _ in range(2):
        status, code, text = await post(world, miner.hotkey, lease.lease_id, body)
        assert (status, code) == (422, "malformed_result")
        assert "sample 0: it stops after 1 of 6 ids" in text
