import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from bittensor_core import Keypair

from protocol.chain.base import ChainError, NotRegistered, SubnetFull
from protocol.chain.local import LocalChain


class Clock:
    """A clock that a test sets by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def chain(tmp_path: Path, clock: Clock) -> LocalChain:
    return LocalChain(tmp_path / "chain.sqlite", clock)


async def test_a_registered_hotkey_is_in_the_snapshot(chain: LocalChain):
    chain.register("miner", "owner")
    chain.register("validator", "owner", validator_permit=True, stake_rao=5 * 10**9)
    neurons = (await chain.snapshot()).neurons
    assert list(neurons) == ["miner", "validator"]
    assert (neurons["miner"].uid, neurons["miner"].validator_permit) == (0, False)
    assert (neurons["validator"].uid, neurons["validator"].stake_rao) == (1, 5 * 10**9)
    assert neurons["validator"].validator_permit


async def test_registering_again_keeps_uid_and_age(chain: LocalChain, clock: Clock):
    first = chain.register("miner", "owner")
    clock.now += 120
    again = chain.register("miner", "owner", validator_permit=True)
    assert (again.uid, again.registered_at_block) == (first.uid, first.registered_at_block)
    assert (await chain.snapshot()).neurons["miner"].validator_permit


def test_a_hotkey_cannot_change_hands(chain: LocalChain):
    chain.register("miner", "owner")
    with pytest.raises(ChainError, match="another coldkey"):
        chain.register("miner", "thief")


async def test_a_freed_uid_goes_to_the_next_hotkey_with_a_new_age(chain: LocalChain, clock: Clock):
    for name in ("a", "b", "c"):
        chain.register(name, "owner")
    chain.deregister("b")
    clock.now += 5 * 12
    assert chain.register("d", "owner").uid == 1
    neurons = (await chain.snapshot()).neurons
    assert "b" not in neurons
    assert neurons["d"].registered_at_block == neurons["a"].registered_at_block + 5
    assert [neuron.uid for neuron in neurons.values()] == [0, 1, 2]


def test_deregistering_a_stranger_is_refused(chain: LocalChain):
    with pytest.raises(NotRegistered, match="stranger"):
        chain.deregister("stranger")


def test_a_full_subnet_refuses_the_next(tmp_path: Path, clock: Clock):
    chain = LocalChain(tmp_path / "chain.sqlite", clock, max_uids=2)
    chain.register("a", "owner")
    chain.register("b", "owner")
    with pytest.raises(SubnetFull, match="all 2 UIDs"):
        chain.register("c", "owner")
    chain.deregister("a")
    assert chain.register("c", "owner").uid == 0


async def test_blocks_follow_the_clock_and_hashes_the_block(tmp_path: Path, clock: Clock):
    chain = LocalChain(tmp_path / "chain.sqlite", clock)
    first = await chain.head()
    clock.now += 11.9
    assert await chain.head() == first
    clock.now += 0.2
    second = await chain.head()
    assert second.block == first.block + 1 == 1
    assert len(second.block_hash) == 64
    assert second.block_hash != first.block_hash
    assert await LocalChain(tmp_path / "chain.sqlite", clock).head() == second


async def test_the_file_keeps_its_own_block_length(tmp_path: Path, clock: Clock):
    LocalChain(tmp_path / "chain.sqlite", clock, block_seconds=2.0)
    other = LocalChain(tmp_path / "chain.sqlite", clock)
    clock.now += 10
    assert (await other.head()).block == 5


async def test_a_clock_before_the_first_block_is_block_zero(chain: LocalChain, clock: Clock):
    clock.now -= 3_600
    assert (await chain.head()).block == 0


def test_a_file_that_is_no_chain_is_named(tmp_path: Path, clock: Clock):
    path = tmp_path / "chain.sqlite"
    path.write_text("not a database, and long enough to be looked at " * 20)
    with pytest.raises(ChainError, match=r"chain\.sqlite"):
        LocalChain(path, clock)


_REGISTER_MANY = """
import sys
from pathlib import Path
from protocol.chain.local import LocalChain
chain = LocalChain(Path(sys.argv[1]), lambda: 1_000_000.0)
for index in range(20):
    chain.register(f"hotkey-{sys.argv[2]}-{index}", "owner")
"""


def test_registrations_from_several_processes_are_all_kept(tmp_path: Path, clock: Clock):
    path = tmp_path / "chain.sqlite"
    processes = [
        subprocess.Popen([sys.executable, "-c", _REGISTER_MANY, str(path), str(number)])
        for number in range(4)
    ]
    assert [process.wait() for process in processes] == [0] * 4
    neurons = asyncio.run(LocalChain(path, clock).snapshot()).neurons
    assert len(neurons) == 80
    assert sorted(neuron.uid for neuron in neurons.values()) == list(range(80))


def test_a_refused_registration_leaves_no_lock(tmp_path: Path, clock: Clock):
    path = tmp_path / "chain.sqlite"
    chain = LocalChain(path, clock, max_uids=1)
    chain.register("a", "owner")
    with pytest.raises(SubnetFull):
        chain.register("b", "owner")
    with sqlite3.connect(path, timeout=0) as other:
        other.execute("BEGIN IMMEDIATE")


async def test_a_block_keeps_its_hash(chain: LocalChain, clock: Clock):
    first = await chain.head()
    with pytest.raises(ChainError, match="not there yet"):
        await chain.block_hash(first.block + 1)
    clock.now += 5 * 12
    later = await chain.head()
    assert later.block == first.block + 5
    assert await chain.block_hash(first.block) == first.block_hash
    assert await chain.block_hash(later.block) == later.block_hash


async def test_a_past_block_shows_who_was_there(chain: LocalChain, clock: Clock):
    def blocks_later(count: int) -> None:
        clock.now += 12 * count

    blocks_later(1)
    chain.register("a", "owner")
    blocks_later(1)
    chain.register("a", "owner", validator_permit=True, stake_rao=7)
    blocks_later(1)
    chain.deregister("a")
    chain.register("b", "owner")
    blocks_later(1)

    async def at(block: int) -> list[tuple[str, int, int]]:
        neurons = (await chain.snapshot(block)).neurons.values()
        return [(neuron.hotkey, neuron.uid, neuron.stake_rao) for neuron in neurons]

    assert [await at(block) for block in range(5)] == [
        [],
        [("a", 0, 0)],
        [("a", 0, 7)],
        [("b", 0, 0)],
        [("b", 0, 0)],
    ]
    with pytest.raises(ChainError, match="not there yet"):
        await chain.snapshot(5)


_FIRST_VERSION = """
CREATE TABLE subnet (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    genesis REAL NOT NULL,
    block_seconds REAL NOT NULL CHECK (block_seconds > 0),
    max_uids INTEGER NOT NULL CHECK (max_uids > 0)
);
CREATE TABLE neuron (
    uid INTEGER PRIMARY KEY,
    hotkey TEXT NOT NULL UNIQUE,
    coldkey TEXT NOT NULL,
    registered_at_block INTEGER NOT NULL,
    stake_rao INTEGER NOT NULL CHECK (stake_rao >= 0),
    validator_permit INTEGER NOT NULL CHECK (validator_permit IN (0, 1))
);
INSERT INTO subnet VALUES (1, 999000.0, 2.0, 8);
INSERT INTO neuron VALUES (0, 'a', 'owner', 3, 0, 0), (1, 'b', 'owner', 200, 5, 1);
"""


async def test_a_file_of_the_first_version_goes_on(tmp_path: Path, clock: Clock):
    path = tmp_path / "chain.sqlite"
    with sqlite3.connect(path) as first:
        first.executescript(_FIRST_VERSION)
    chain = LocalChain(path, clock)
    assert list((await chain.snapshot()).neurons) == ["a", "b"]
    assert list((await chain.snapshot(100)).neurons) == ["a"]
    assert (await chain.parameters()).max_uids == 8
    submission = chain.set_weights_of("b", {"a": 65_535}, 0)
    assert (submission.block, submission.reveal_block) == (500, None)
    assert (await chain.weight_row("b")).weights == {"a": 65_535}


async def test_a_full_subnet_gives_the_least_weighted_uid_away(tmp_path: Path, clock: Clock):
    chain = LocalChain(tmp_path / "chain.sqlite", clock, max_uids=4)
    chain.set_rules(immunity_blocks=50, weights_rate_limit=0, owner_hotkey="owner")
    for hotkey in ("owner", "good", "lazy"):
        chain.register(hotkey, "coldkey")
    chain.register("validator", "coldkey", validator_permit=True)
    clock.now += 12 * 49
    chain.set_weights_of("validator", {"good": 65_535, "lazy": 100}, 0)
    with pytest.raises(SubnetFull, match="immune"):
        chain.register("new", "coldkey")
    clock.now += 12
    assert chain.register("new", "coldkey").uid == 2
    assert list((await chain.snapshot()).neurons) == ["owner", "good", "new", "validator"]
    # The newcomer has the UID of the lazy one and none of its weight.
    assert (await chain.weight_row("validator")).weights == {"good": 65_535}


async def test_a_validator_that_comes_back_starts_without_weights(chain: LocalChain, clock: Clock):
    chain.set_rules(weights_rate_limit=0)
    chain.register("miner", "owner")
    chain.register("validator", "owner", validator_permit=True)
    clock.now += 12
    chain.set_weights_of("validator", {"miner": 65_535}, 0)
    chain.deregister("validator")
    with pytest.raises(NotRegistered, match="validator"):
        await chain.weight_row("validator")
    clock.now += 12
    chain.register("validator", "owner", validator_permit=True)
    row = await chain.weight_row("validator")
    assert (row.updated_at_block, row.weights) == (2, {})


async def test_rules_have_their_ranges(chain: LocalChain):
    with pytest.raises(ChainError, match="max_weight"):
        chain.set_rules(tempo=10, max_weight=70_000)
    assert (await chain.parameters()).tempo == 360


_SET_MANY = """
import sys
from pathlib import Path
from protocol.chain.base import WeightsRefused
from protocol.chain.local import LocalChain
chain = LocalChain(Path(sys.argv[1]), lambda: 1_000_012.0)
taken = 0
for weight in range(1, 21):
    try:
        chain.set_weights_of("validator", {"miner": weight, "other": 65_535}, 0)
        taken += 1
    except WeightsRefused as error:
        assert error.rule == "rate_limit"
print(taken)
"""


def test_of_several_processes_one_setting_of_weights_is_taken(tmp_path: Path, clock: Clock):
    path = tmp_path / "chain.sqlite"
    chain = LocalChain(path, clock)
    for hotkey in ("miner", "other", "validator"):
        chain.register(hotkey, "owner", validator_permit=hotkey == "validator")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _SET_MANY, str(path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    outputs = [process.communicate()[0].strip() for process in processes]
    assert sorted(outputs) == ["0", "0", "1"]


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://gateway.example", "https://gateway.example"),
        ("http://10.0.0.1:8000/", "http://10.0.0.1:8000"),
        ("https://[2001:db8::1]:443", "https://[2001:db8::1]:443"),
        *(
            (url, None)
            for url in (
                "gateway.example",
                "ftp://gateway.example",
                "https://",
                "https://gateway.example/path",
                "https://gateway.example?q=1",
                "https://user:secret@gateway.example",
                "https://gateway.example:99999",
                "https://gateway.example:0",
                "https://gateway .example",
                "https://gäteway.example",
                "https://" + "a" * 121,
            )
        ),
    ],
)
async def test_an_endpoint_is_an_origin(chain: LocalChain, url: str, kept: str | None):
    key = Keypair.create_from_uri("//Gateway")
    chain.register(key.ss58_address, "owner")
    if kept is None:
        with pytest.raises(ChainError):
            await chain.publish_endpoint(key, url)
    else:
        await chain.publish_endpoint(key, url)
    assert await chain.endpoint(key.ss58_address) == kept
