"""Kept quotes take bounded room, and nothing of them is left over."""

from dataclasses import replace
from pathlib import Path

import pytest
from outcomes import refused
from world import INPUT_FILE, World

from gateway.orders import kept_quotes
from gateway.orders.content import CONTENT, content_bytes
from gateway.orders.kept_quotes import Terms, find_quote, keep_quote, read_quote, sweep
from gateway.orders.placing import Placement, place
from gateway.store.tables import DatasetQuote, Dialect, Order, OutputFormat

PROMPTS = [[1, 2, 3], [4]]
TERMS = Terms(24, OutputFormat.PARQUET, None, None)


class Killed(BaseException):
    """The gateway is no more."""


async def kept(world: World) -> DatasetQuote:
    made = world.quote(PROMPTS)
    world.now += 1
    return await keep_quote(
        world.store, world.account_id, INPUT_FILE, made, TERMS, world.policy, world.now
    )


async def ordered(world: World, row: DatasetQuote) -> Order:
    terms = Placement(
        input_file_id=INPUT_FILE,
        dialect=Dialect.NATIVE,
        completion_window_hours=24,
        metadata=None,
        idempotency_key=row.id,
        body_sha256="00",
        drawn_seed=7,
        kept=row,
    )
    quote = read_quote(row)
    return await place(world.store, world.account_id, quote, terms, world.policy, world.now)


def stored(tmp_path: Path, row: DatasetQuote) -> set[str]:
    folder = tmp_path / "objects" / "orders" / row.id
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


async def stage(world: World, row: DatasetQuote) -> str:
    return (await find_quote(world.store, world.account_id, row.id))[0].stage


async def test_the_oldest_quotes_make_room(sqlite_world: World, tmp_path: Path) -> None:
    world = sqlite_world
    size = content_bytes(world.quote(PROMPTS).intake.folder)
    world.policy = replace(world.policy, kept_quote_bytes=2 * size)
    taken = await kept(world)
    await ordered(world, taken)
    first, second = await kept(world), await kept(world)
    third = await kept(world)
    # What was ordered takes none of the room.
    assert [await stage(world, row) for row in (taken, first, second, third)] == [
        "open", "dropped", "open", "open",
    ]  # fmt: skip
    await refused(ordered(world, first), 409, "quote_expired")
    await sweep(world.store, world.now)
    assert (stored(tmp_path, first), await stage(world, first)) == (set(), "gone")
    for row in (taken, second, third):
        assert set(CONTENT) <= stored(tmp_path, row)
    await ordered(world, second)
    world.now += kept_quotes.LIFE_MS + kept_quotes.GRACE_MS
    await sweep(world.store, world.now)
    assert await world.rows(DatasetQuote) == []
    assert stored(tmp_path, third) == set()
    assert set(CONTENT) <= stored(tmp_path, second)


async def test_a_quote_larger_than_all_room_is_kept_alone(sqlite_world: World) -> None:
    world = sqlite_world
    world.policy = replace(world.policy, kept_quote_bytes=1)
    first, second = await kept(world), await kept(world)
    assert (await stage(world, first), await stage(world, second)) == ("dropped", "open")
    await ordered(world, second)


async def test_what_a_killed_gateway_had_begun_to_store_is_removed(
    sqlite_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, puts = sqlite_world, 0
    put = world.store.objects.put

    async def put_two(key: str, content: bytes | Path) -> None:
        nonlocal puts
        puts += 1
        if puts > 2:
            raise Killed
        await put(key, content)

    monkeypatch.setattr(world.store.objects, "put", put_two)
    with pytest.raises(Killed):
        await kept(world)
    (row,) = await world.rows(DatasetQuote)
    assert len(stored(tmp_path, row)) == 2
    await refused(find_quote(world.store, world.account_id, row.id), 404, "quote_not_found")
    await sweep(world.store, world.now)
    assert len(await world.rows(DatasetQuote)) == 1
    await sweep(world.store, world.now + kept_quotes.GRACE_MS)
    assert (await world.rows(DatasetQuote), stored(tmp_path, row)) == ([], set())
