import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

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
