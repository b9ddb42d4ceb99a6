"""The demo of a whole network in its parts; the whole of it runs in tests/e2e/test_strangers.py."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from bittensor_core import Keypair
from openai.types import Batch
from rich.console import Console
from typer import Typer
from typer.testing import CliRunner

from protocol.epochs import (
    ConvictionEntry,
    EpochRecord,
    EpochStatement,
    LapseEntry,
    VerdictEntry,
    signed_record,
)
from scoring.epochs import scores_at
from scoring.pay import Scores
from scripts.showcase.__main__ import demo
from scripts.showcase.native import Bill
from scripts.strangers import cast, judging, orders, picture, tables
from scripts.strangers.cast import BLOCK_SECONDS, EPOCH_SECONDS, HABITS, make_chain, network_plan
from scripts.strangers.figures import Figures, figures_of
from scripts.strangers.weights import RULE, EpochWeights, WeightWatch
from validator.scores import SETTLED_BLOCKS

VALIDATORS = ("validator-1", "validator-2", "validator-3")


def keypair(number: int) -> Keypair:
    return Keypair.create_from_seed(number.to_bytes(32, "big"))


HOTKEYS = {f"miner-{number}": keypair(number).ss58_address for number in range(1, 11)}
CAST = cast.cast_of(HOTKEYS.__getitem__)
GATEWAY = keypair(99)


def verdict(number: int, miner: str, verified: int, void: int = 0) -> VerdictEntry:
    return VerdictEntry(
        verdict_id=f"01234567-89ab-7def-8123-{number:012x}",
        document="a" * 64,
        unit_id=f"01234567-89ab-7def-8123-{number:012x}",
        attempt=1,
        model="reliquary/tiny-qwen3",
        validator=keypair(50).ss58_address,
        miner=HOTKEYS[miner],
        coldkey=f"owner of {miner}",
        verified=verified,
        void=void,
        tokens=48 * verified,
        prompt_tokens=10 * verified,
        token_nano=40,
        prompt_token_nano=10,
    )


def record(number: int, block: int, verdicts: list[VerdictEntry]) -> EpochRecord:
    statement = EpochStatement(
        number=number,
        starts_at=number * 20_000,
        ends_at=(number + 1) * 20_000,
        block=block,
        block_hash="b" * 64,
        previous=None,
        emission_nano=None,
        verdicts=verdicts,
        lapses=[
            LapseEntry(
                lease_id=f"01234567-89ab-7def-8123-{number:012x}",
                unit_id=f"01234567-89ab-7def-8123-{number:012x}",
                miner=HOTKEYS["miner-10"],
                coldkey="owner of miner-10",
            )
        ],
        convictions=[
            ConvictionEntry(miner=HOTKEYS["miner-6"], coldkey="owner of miner-6", epoch=number)
        ],
    )
    return signed_record(GATEWAY, statement)


WORK = {"miner-1": 120, "miner-2": 96, "miner-3": 108, "miner-4": 84, "miner-5": 48, "miner-6": 36}
RECORDS = [
    record(
        7,
        100,
        [verdict(place, miner, work) for place, (miner, work) in enumerate(WORK.items())]
        + [verdict(90 + n, f"miner-{n}", 0, 12) for n in (7, 8, 9)],
    )
]
BLOCK = 120
FIGURES = figures_of(RECORDS)


def scored() -> Scores:
    found = scores_at(RECORDS, BLOCK - SETTLED_BLOCKS, RULE)
    assert found is not None
    return found


def weights() -> dict[str, int]:
    shares = scored().shares()
    most = max(shares.values())
    return {hotkey: share * 65_535 // most for hotkey, share in sorted(shares.items())}


def epoch(rows: Mapping[str, Mapping[str, int]] | None = None) -> EpochWeights:
    same = {name: weights() for name in VALIDATORS}
    return EpochWeights(1, BLOCK, 7, same if rows is None else rows, weights())


def ordered(status: str = "completed", delivered: int = orders.LINES) -> orders.Order:
    batch = Batch.model_construct(id="batch_1", status=status)
    return orders.Order(1, Path("order-1.jsonl"), batch, delivered, Bill("0.02", "0.01", "0.01"))


def failing(**changed: object) -> list[str]:
    """Return the conditions that do not hold once some of what is judged is changed."""
    judged = {
        "cast": CAST,
        "epochs": [epoch()],
        "figures": FIGURES,
        "scored": scored(),
        "orders": [ordered()],
        "validators": len(VALIDATORS),
    }
    found = judging.conditions(**judged | changed)  # pyright: ignore[reportArgumentType]
    return [f"{one.text}: {one.detail}" for one in found if not one.holds]


def test_half_of_the_cast_is_honest_and_every_habit_is_told():
    assert [one.honest for one in CAST] == [True] * 5 + [False] * 5
    assert all(one.habit for one in CAST)
    assert len(network_plan(Path("data")).miners) == len(HABITS) == 10


def test_all_holds_of_an_honest_record():
    assert failing() == []


def test_validators_that_differ_are_told():
    odd = {name: weights() for name in VALIDATORS}
    odd["validator-2"] = weights() | {HOTKEYS["miner-1"]: 1}
    same, recomputed, *_ = failing(epochs=[epoch(odd), epoch()])
    assert "same bytes" in same
    assert same.endswith(": epoch 1")
    assert "public record" in recomputed


def test_a_validator_that_set_nothing_is_told():
    missing = {name: weights() for name in VALIDATORS[:2]}
    (told,) = failing(epochs=[epoch(missing)])
    assert "same bytes" in told


def test_weights_that_the_record_does_not_give_are_told():
    lenient = weights() | {HOTKEYS["miner-1"]: 65_534}
    found = failing(epochs=[epoch({name: lenient for name in VALIDATORS})])
    assert any("public record" in text for text in found)


def test_a_cheat_with_weight_is_told():
    paid = weights() | {HOTKEYS["miner-8"]: 3}
    rows = {name: paid for name in VALIDATORS}
    found = failing(epochs=[replace(epoch(rows), expected=paid)])
    assert [text for text in found if "miner-8 has 0.00%" in text]


def test_a_void_sample_of_an_honest_miner_is_told():
    figures = FIGURES | {HOTKEYS["miner-2"]: Figures(verified=10, void=1)}
    (told,) = failing(figures=figures)
    assert told.endswith("miner-2: 1")


def test_an_honest_miner_that_is_paid_for_more_or_less_than_its_work_is_told():
    unfair = weights() | {HOTKEYS["miner-4"]: 20_000}
    rows = {name: unfair for name in VALIDATORS}
    (told,) = failing(epochs=[replace(epoch(rows), expected=unfair)])
    assert "miner-4 did 18.4% of the work" in told


def test_lines_that_are_missing_are_told():
    (told,) = failing(orders=[ordered(), ordered("expired", 0)])
    assert told.endswith("order 1 is expired with 0 lines")
    assert failing(orders=[ordered(delivered=orders.LINES - 1)])


def test_nothing_seen_is_nothing_shown():
    assert len(failing(epochs=[], scored=None, orders=[], figures={})) == 6


def test_an_epochs_row_shows_every_miner_and_whether_validators_agree():
    console = Console(width=140, record=True, file=StringIO())
    odd = {name: weights() for name in VALIDATORS}
    odd["validator-3"] = {HOTKEYS["miner-1"]: 65_535}
    console.print(tables.epoch_heading(CAST))
    console.print(tables.epoch_row(epoch(), CAST, FIGURES, 3))
    console.print(tables.epoch_row(epoch(odd), CAST, FIGURES, 3))
    heading, same, different = console.export_text().splitlines()
    assert "identical" in same
    assert "DIFFERENT" in different
    assert "  26.3" in same
    # Each share stands under its miner's number.
    assert same.index("26.3") + 4 == heading.index(" 1 ") + 2


def test_the_account_tells_work_failures_and_pay():
    console = Console(width=160, record=True, file=StringIO())
    standing = {HOTKEYS["miner-6"]: "banned: convicted"}
    console.print(tables.account_table(CAST, [epoch()], FIGURES, standing))
    rows = {
        line.split("│")[1].strip(): line
        for line in console.export_text().splitlines()
        if "│" in line
    }
    assert "5,760" in rows["miner-1"]
    assert "26.3%" in rows["miner-1"]
    assert "banned: convicted" in rows["miner-6"]
    assert "0.0%" in rows["miner-6"]


def test_the_picture_is_drawn(tmp_path: Path):
    path = tmp_path / "network.png"
    picture.draw_network(CAST, [epoch(), replace(epoch(), number=2)], FIGURES, path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_every_order_is_another_and_good():
    first, second = orders.lines_of(1), orders.lines_of(2)
    assert len(first) == orders.LINES
    assert first != second
    assert len({row["custom_id"] for row in first}) == orders.LINES
    assert len({json.dumps(row["body"]["messages"]) for row in first}) == orders.LINES


class WatchOfRecords(WeightWatch):
    """A watch whose public records are those of this file, in place of a gateway's."""

    async def update_records(self) -> None:
        self.records = RECORDS


def test_weights_are_read_back_epoch_by_epoch(tmp_path: Path):
    now = 1_700_000_000.0
    chain = make_chain(tmp_path / "chain.sqlite", lambda: now)
    rules = asyncio.run(chain.parameters())
    validators = {name: keypair(20 + n) for n, name in enumerate(VALIDATORS)}
    for one in validators.values():
        chain.register(one.ss58_address, f"owner of {one.ss58_address}", validator_permit=True)
    for hotkey in HOTKEYS.values():
        chain.register(hotkey, f"owner of {hotkey}")
    hotkeys = {name: one.ss58_address for name, one in validators.items()}
    watch = WatchOfRecords(chain, "", "", hotkeys, tmp_path)
    assert asyncio.run(watch.look()) == []

    now += 10 * rules.tempo * BLOCK_SECONDS
    for name in VALIDATORS[:2]:
        asyncio.run(chain.set_weights(validators[name], weights(), 1))
    # One is missing, and the epoch is not over.
    assert asyncio.run(watch.look()) == []
    asyncio.run(chain.set_weights(validators[VALIDATORS[2]], weights(), 1))
    (found,) = asyncio.run(watch.look())
    assert found.agrees(3)
    assert found.expected == weights()
    assert (found.number, found.record) == (1, 7)
    assert asyncio.run(watch.look()) == []

    now += rules.tempo * BLOCK_SECONDS
    asyncio.run(chain.set_weights(validators[VALIDATORS[0]], weights(), 1))
    now += rules.tempo * BLOCK_SECONDS
    (late,) = asyncio.run(watch.look())
    assert not late.agrees(3)
    assert list(late.rows) == [VALIDATORS[0]]


@pytest.mark.parametrize("now", [1_700_000_000.0, 1_700_000_019.9, 1_700_000_007.3])
def test_epochs_of_the_chain_begin_once_a_record_is_settled(tmp_path: Path, now: float):
    chain = make_chain(tmp_path / "chain.sqlite", lambda: now)
    rules = asyncio.run(chain.parameters())
    assert rules.tempo * BLOCK_SECONDS == EPOCH_SECONDS
    begins = int(now // EPOCH_SECONDS + 1) * EPOCH_SECONDS + SETTLED_BLOCKS * BLOCK_SECONDS
    now = begins + cast.WRITING_SECONDS
    rules = asyncio.run(chain.parameters())
    assert rules.epoch_block == rules.block
    now -= 0.5
    assert asyncio.run(chain.parameters()).epoch < rules.epoch


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--network", "batch.jsonl"), "takes neither a file nor --engine"),
        (("--network", "--engine", "vllm"), "takes neither a file nor --engine"),
        (("--epochs", "3"), "--epochs goes with --network"),
        (("--network", "--epochs", "1"), "greater than or equal to 2"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments: tuple[str, ...], said: str):
    app = Typer()
    app.command()(demo)
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
