"""Public records: what they hold is bound, and what scores they give."""

from typing import Any

import pytest
from bittensor_core import Keypair
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from protocol.canonical import canonical_json
from protocol.epochs import (
    EpochRecord,
    EpochStatement,
    RecordFault,
    check_chain,
    signed_record,
)
from scoring.epochs import epoch_of, scores_at
from scoring.pay import Convict, PayRule, Work

GATEWAY, OTHER = (Keypair.create_from_seed(bytes([byte]) * 32) for byte in (1, 2))
MINERS = [Keypair.create_from_seed(bytes([byte]) * 32).ss58_address for byte in (3, 4)]
UNIT = "00000000-0000-7000-8000-000000000001"


def verdict(miner: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "verdict_id": UNIT,
        "document": "0" * 64,
        "unit_id": UNIT,
        "attempt": 1,
        "model": "reliquary/tiny",
        "validator": MINERS[1],
        "miner": MINERS[miner],
        "coldkey": f"owner of {miner}",
        "verified": 4,
        "void": 0,
        "tokens": 100,
        "prompt_tokens": 50,
        "token_nano": 200,
        "prompt_token_nano": 20,
    } | changes


def record(
    number: int, previous: EpochRecord | None = None, key: Keypair = GATEWAY, **changes: Any
) -> EpochRecord:
    statement = {
        "number": number,
        "starts_at": number * 1_000,
        "ends_at": number * 1_000 + 1_000,
        "block": number * 10,
        "block_hash": f"{number:064x}",
        "previous": None if previous is None else previous.digest,
        "emission_nano": None,
        "verdicts": [],
        "lapses": [],
        "convictions": [],
    } | changes
    return signed_record(key, EpochStatement.model_validate(statement))


def test_a_record_gives_each_miner_its_work() -> None:
    lapse = {"lease_id": UNIT, "unit_id": UNIT, "miner": MINERS[0], "coldkey": "owner of 0"}
    made = record(
        7,
        verdicts=[verdict(), verdict(1, void=2), verdict(tokens=1, prompt_tokens=0)],
        lapses=[lapse],
        convictions=[{"miner": MINERS[1], "coldkey": "owner of 1", "epoch": 5}],
        emission_nano=10**9,
    )
    epoch = epoch_of(made.statement)
    assert epoch.number == 7
    assert sorted(epoch.work, key=lambda work: work.coldkey) == [
        Work(MINERS[0], "owner of 0", 101 * 200 + 50 * 20, 8, 0, 1),
        Work(MINERS[1], "owner of 1", 100 * 200 + 50 * 20, 4, 2, 0),
    ]
    assert epoch.convicted == (Convict(MINERS[1], "owner of 1", 5),)
    assert epoch.emission_nano == 10**9


def test_scores_at_a_block_use_no_newer_record() -> None:
    records = [record(1, verdicts=[verdict()]), record(2, verdicts=[verdict(tokens=10**6)])]
    assert scores_at(records, 9, PayRule()) is None
    early = scores_at(records, 19, PayRule())
    assert early is not None
    assert early.shares() == {MINERS[0]: 21_000}
    late = scores_at(records, 20, PayRule())
    assert late is not None
    assert late.shares()[MINERS[0]] > 10**8


def test_a_record_is_read_as_it_was_written() -> None:
    made = record(3, verdicts=[verdict()])
    read = EpochRecord.model_validate_json(made.encoded())
    assert read == made
    assert read.encoded() == made.encoded()
    assert read.is_signed()


def test_a_chain_holds() -> None:
    first = record(1, record(0))
    check_chain([first, second := record(2, first), record(5, second)], GATEWAY.ss58_address)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (record(2), "epoch 2 does not name the one before it"),
        (record(2, record(1, verdicts=[verdict()])), "epoch 2 does not name the one before it"),
        (record(1, record(1)), "epoch 1 follows epoch 1"),
        (record(2, record(1), OTHER), "epoch 2 is not signed by"),
    ],
)
def test_what_breaks_a_chain_is_named(second: EpochRecord, said: str) -> None:
    with pytest.raises(RecordFault, match=said):
        check_chain([record(1), second], GATEWAY.ss58_address)


@given(st.data())
def test_every_changed_member_breaks_the_signature(data: st.DataObject) -> None:
    made = record(3, verdicts=[verdict()], emission_nano=5).model_dump()
    place = data.draw(st.sampled_from([*sorted(made["statement"]), "verdicts.0"]))
    if place == "verdicts.0":
        inner = made["statement"]["verdicts"][0]
        name = data.draw(st.sampled_from(sorted(inner)))
        inner[name] = inner[name] + 1 if isinstance(inner[name], int) else inner[name][::-1]
        changed = inner[name] != verdict()[name]
    else:
        value = made["statement"][place]
        made["statement"][place] = value + 1 if isinstance(value, int) else []
        changed = made["statement"][place] != value
    try:
        read = EpochRecord.model_validate_json(canonical_json(made))
    except ValidationError:
        return
    assert read.is_signed() != changed
