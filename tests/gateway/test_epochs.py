"""The public record of each epoch: what it lists, when it is written, and that it is a chain."""

import asyncio
from dataclasses import replace

import pytest
from second_opinions import attend, audit_honestly, cheat
from sqlmodel import col

from gateway.catalog.price import Price
from gateway.epochs.writing import newest_epoch, write_due
from gateway.orders import leases
from gateway.orders.policy import Policy
from gateway.store.tables import Epoch, Lease, Node
from protocol.chain.local import LocalChain
from protocol.epochs import EpochRecord, check_chain
from scoring.epochs import scores_at
from scoring.pay import PayRule

EPOCH_MS = 600_000
PROMPTS = [[1, 2], [3], [4, 5, 6], [7]]


@pytest.fixture
def chain(world, tmp_path):
    return LocalChain(tmp_path / "chain.sqlite", lambda: world.now / 1000)


async def written(world, chain, *, epochs: int = 1, emission: int | None = None):
    """Let epochs pass, write what is due and return all records, checked as a chain."""
    world.now += epochs * EPOCH_MS
    world.policy = replace(world.policy, epoch_ms=EPOCH_MS, emission_nano=emission)
    await write_due(world.store, chain, world.keypair, world.policy, world.now)
    rows = sorted(await world.rows(Epoch), key=lambda row: row.number)
    records = []
    for row in rows:
        content = await world.store.objects.get(row.object_key)
        assert len(content) == row.bytes
        record = EpochRecord.model_validate_json(content)
        assert (record.statement.number, record.digest) == (row.number, row.digest)
        records.append(record)
    check_chain(records, world.keypair.ss58_address)
    return records


async def test_a_record_lists_what_was_verified_at_its_price(world, chain):
    order = await world.place(PROMPTS, n=2)
    miner, validator = await world.node("miner"), await world.node("validator")
    await world.finish(miner, validator)
    (record,) = await written(world, chain, emission=10**9)
    entries = record.statement.verdicts
    assert sum(entry.verified for entry in entries) == 8
    order = await world.order(order)
    assert sum(entry.tokens for entry in entries) == order.tokens_verified
    # Each line's prompt once over its two samples, rounded down for each of the two units.
    assert sum(entry.prompt_tokens for entry in entries) == sum(map(len, PROMPTS))
    assert {(entry.miner, entry.coldkey) for entry in entries} == {(miner.hotkey, miner.coldkey)}
    assert {entry.validator for entry in entries} == {validator.hotkey}
    price = Price.from_json(order.price_json)
    worth = order.tokens_verified * price.completion_token_nano
    worth += sum(map(len, PROMPTS)) * price.prompt_token_nano
    scored = scores_at([record], record.statement.block, PayRule())
    assert scored.shares() == ({miner.hotkey: worth} if worth else {})
    audits = {lease.id: lease for lease in await world.rows(Lease, col(Lease.kind) == "audit")}
    for entry in entries:
        assert audits[entry.verdict_id].answer_sha256 == entry.document


async def test_records_follow_one_another_without_gaps(world, chain):
    miner = await world.node("miner")
    await world.place(PROMPTS)
    await world.lease(miner)
    assert len(await written(world, chain)) == 1
    assert len(await written(world, chain)) == 2
    records = await written(world, chain, epochs=3)
    numbers = [record.statement.number for record in records]
    assert numbers == list(range(numbers[0], numbers[0] + 5))
    assert records[0].statement.previous is None
    # Nothing is due twice.
    assert len(await written(world, chain, epochs=0)) == 5


async def test_a_gateway_that_was_away_for_long_leaves_old_epochs_out(world, chain):
    before = len(await written(world, chain))
    records = await written(world, chain, epochs=1_000)
    assert len(records) == before + 140
    assert (await newest_epoch(world.store)).number == world.now // EPOCH_MS - 1


async def test_voids_and_lapses_weigh_and_second_opinions_count_once(world, chain):
    world.policy = Policy(unit_samples=4, second_opinions=1.0)
    await world.place(PROMPTS)
    cheating, honest = await world.node("miner"), await world.node("miner")
    first, second = await world.node("validator"), await world.node("validator")
    await cheat(world, cheating)
    await audit_honestly(world, first)
    # A record waits for the second opinion.
    assert await written(world, chain) == []
    for node in (cheating, honest, first, second):
        await world.announce(node)
    await attend(world, chain, blocks=2)
    await audit_honestly(world, second)
    await attend(world, chain)
    assert await world.lease(honest) is not None
    world.now += world.policy.lease_ms + 1
    for lease_id in await leases.lapsed(world.store, world.now):
        await leases.reap(world.store, lease_id, world.now)
    records = await written(world, chain)
    verdicts = [entry for record in records for entry in record.statement.verdicts]
    assert [(entry.miner, entry.void) for entry in verdicts] == [
        (cheating.hotkey, 4),
        (cheating.hotkey, 0),
    ]
    lapses = [entry for record in records for entry in record.statement.lapses]
    assert [(entry.miner, entry.coldkey) for entry in lapses] == [(honest.hotkey, honest.coldkey)]


async def test_a_conviction_stays_on_record(world, chain):
    miner = await world.node("miner")
    async with world.store.write() as session:
        row = await session.get(Node, miner.hotkey)
        row.convicted_at_ms = world.now
        session.add(row)
    *_, record = await written(world, chain)
    (entry,) = record.statement.convictions
    told = (entry.miner, entry.coldkey, entry.epoch)
    assert told == (miner.hotkey, miner.coldkey, record.statement.number)
    assert (await written(world, chain))[-1].statement.convictions == [entry]


async def test_two_gateways_write_one_record(world, chain, tmp_path):
    before = len(await written(world, chain))
    other = LocalChain(tmp_path / "chain.sqlite", lambda: world.now / 1000)
    world.now += EPOCH_MS
    await asyncio.gather(
        *(
            write_due(world.store, each, world.keypair, world.policy, world.now)
            for each in (chain, other)
        )
    )
    assert len(await written(world, chain, epochs=0)) == before + 1
