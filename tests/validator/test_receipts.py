"""Receipts made with real keys and real samples, audited from their file alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protocol import merkle
from protocol.documents import (
    digest,
    lease_statement,
    result_root,
    result_statement,
    sample_leaf,
    verdict_leaf,
    verdict_root,
    verdict_statement,
    work_keys,
)
from protocol.keys import load_or_create_hotkey, sign_statement
from protocol.messages import Work
from protocol.receipts import LeasePart, ResultPart, SampleReceipt, VerdictPart
from scoring.sample_rule import RULE
from tests.support.profiles import ASSUMED
from validator.offline import audit
from validator.receipts import audit_receipts
from validator.transformers_forward import TransformersForward

MakeWork = Callable[..., Work]
Generate = Callable[[Work], list[list[int]]]
Receipts = list[SampleReceipt]


@pytest.fixture
def receipts(
    tmp_path: Path, forward: TransformersForward, make_work: MakeWork
) -> Callable[[Work, list[list[int]]], Receipts]:
    """Return a function that makes the receipts of a unit as a gateway would export them.

    The validator it fakes signs ``verified`` whatever the samples are.
    """
    gateway, miner, validator = (load_or_create_hotkey(tmp_path / name) for name in "gmv")

    def made(work: Work, samples: list[list[int]]) -> Receipts:
        keys, stack, unit = work_keys(work), forward.stack(), work.unit_id
        statement = lease_statement("l" * 36, 1, miner.ss58_address, 1, work)
        terms = digest(statement).hex()
        root = result_root(keys, samples)
        passed = [
            verdict.model_copy(update={"outcome": "verified", "reason": None, "position": None})
            for verdict in audit(work, samples, forward, ASSUMED)
        ]
        verdicts_root = verdict_root(keys, passed)
        signed = verdict_statement(unit, 1, terms, RULE, ASSUMED.digest, stack, root, verdicts_root)
        return [
            SampleReceipt(
                custom_id=f"line-{work.samples[at].prompt}",
                prompt_index=work.samples[at].prompt,
                choice=work.samples[at].sample_index,
                prompt_ids=work.prompts[work.samples[at].prompt],
                sample_index=work.samples[at].sample_index,
                draw_key=key.hex(),
                token_ids=samples[at],
                unit_id=unit,
                attempt=1,
                miner=miner.ss58_address,
                result=ResultPart(
                    stack=stack,
                    root=root,
                    signature=sign_statement(miner, result_statement(unit, 1, terms, stack, root)),
                    leaf_index=at,
                    leaf_count=len(keys),
                    path=path([sample_leaf(*pair) for pair in zip(keys, samples, strict=True)], at),
                ),
                verdict=VerdictPart(
                    validator=validator.ss58_address,
                    sample=passed[at],
                    rule=RULE,
                    profile=ASSUMED.digest,
                    stack=stack,
                    root=verdicts_root,
                    signature=sign_statement(validator, signed),
                    path=path([verdict_leaf(*pair) for pair in zip(keys, passed, strict=True)], at),
                ),
                lease=LeasePart(
                    statement=statement,
                    gateway=gateway.ss58_address,
                    signature=sign_statement(gateway, statement),
                    path=path(keys, at),
                ),
            )
            for at, key in enumerate(keys)
        ]

    return made


def path(leaves: list[bytes], at: int) -> list[str]:
    return [node.hex() for node in merkle.path(leaves, at)]


def written(folder: Path, receipts: Receipts, *more: str) -> Path:
    lines = [receipt.model_dump_json() for receipt in receipts]
    (folder / "receipts.jsonl").write_text("\n".join([*lines, *more]) + "\n")
    return folder / "receipts.jsonl"


def test_honest_receipts_hold(
    tmp_path: Path,
    forward: TransformersForward,
    make_work: MakeWork,
    generate: Generate,
    receipts: Any,
):
    plain = make_work(prompts=2, per_prompt=3)
    filtered = make_work(prompts=1, per_prompt=1, temperature=0.6, top_k=20, top_p=0.95)
    filtered = filtered.model_copy(update={"seed": filtered.seed + 1})
    samples = [generate(plain), generate(filtered)]
    mixed = receipts(plain, samples[0]) + receipts(filtered, samples[1])
    found = audit_receipts(written(tmp_path, mixed), forward)
    assert found.findings == []
    assert (found.samples, found.mismatches) == (7, 0)
    assert found.tokens == sum(len(ids) for unit in samples for ids in unit)


def test_a_validator_that_signs_anything_is_found(
    tmp_path: Path,
    forward: TransformersForward,
    make_work: MakeWork,
    generate: Generate,
    receipts: Any,
):
    work = make_work().model_copy(update={"end_ids": [281]})
    other = generate(work.model_copy(update={"seed": 99}))
    samples = [*generate(work)[:5], other[5]]
    found = audit_receipts(written(tmp_path, receipts(work, samples)), forward)
    assert [(one.line, one.sample) for one in found.findings] == [(6, "line-2 #1")]
    assert found.findings[0].reason.startswith("void: ")
    assert found.mismatches > 0


def test_what_was_changed_afterwards_is_named(
    tmp_path: Path,
    forward: TransformersForward,
    make_work: MakeWork,
    generate: Generate,
    receipts: Any,
):
    work = make_work(prompts=1, per_prompt=2)
    first, second = receipts(work, generate(work))
    changed = first.model_copy(update={"token_ids": [5, *first.token_ids[1:]]})
    broken = json.dumps({**json.loads(second.model_dump_json()), "attempt": 1.5})
    found = audit_receipts(written(tmp_path, [changed, second], broken, "{"), forward)
    assert [one.line for one in found.findings] == [3, 4, 1]
    assert found.findings[0].reason.startswith("attempt: ")
    assert (
        found.findings[2].reason
        == "result.path: does not lead from the sample to the result's root"
    )
    assert found.samples == 4


@pytest.mark.parametrize("terms", [{"sampling": None}, {"vocabulary_size": None}])
def test_terms_that_are_missing_are_named(
    terms: dict,
    tmp_path: Path,
    forward: TransformersForward,
    make_work: MakeWork,
    generate: Generate,
    receipts: Any,
):
    work = make_work(prompts=1, per_prompt=1)
    (receipt,) = receipts(work, generate(work))
    gateway = load_or_create_hotkey(tmp_path / "g")
    statement = {**receipt.lease.statement, **terms}
    lease = receipt.lease.model_copy(
        update={"statement": statement, "signature": sign_statement(gateway, statement)}
    )
    found = audit_receipts(
        written(tmp_path, [receipt.model_copy(update={"lease": lease})]), forward
    )
    assert len(found.findings) == 1
    assert found.tokens == 0


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        ({"type": "reliquary-result/1"}, "lease.statement.type: is not reliquary-lease/1"),
        ({"seed": 7.0}, "lease.statement: names no usable revision and seed"),
        ({"revision": ["a"] * 40}, "lease.statement: names no usable revision and seed"),
    ],
)
def test_a_gateways_statement_that_is_no_lease_is_named(
    terms: dict,
    reason: str,
    tmp_path: Path,
    forward: TransformersForward,
    make_work: MakeWork,
    generate: Generate,
    receipts: Any,
):
    work = make_work(prompts=1, per_prompt=1)
    (receipt,) = receipts(work, generate(work))
    statement = {**receipt.lease.statement, **terms}
    signature = "0" * 128
    if "type" in terms:
        signature = sign_statement(load_or_create_hotkey(tmp_path / "g"), statement)
    lease = receipt.lease.model_copy(update={"statement": statement, "signature": signature})
    found = audit_receipts(
        written(tmp_path, [receipt.model_copy(update={"lease": lease})]), forward
    )
    assert [one.reason for one in found.findings] == [reason]


def test_a_sample_that_stands_for_two_is_named(
    tmp_path: Path,
    forward: TransformersForward,
    make_work: MakeWork,
    generate: Generate,
    receipts: Any,
):
    work = make_work(prompts=1, per_prompt=2)
    first, _ = receipts(work, generate(work))
    twin = first.model_copy(update={"choice": 1})
    found = audit_receipts(written(tmp_path, [first, twin]), forward)
    assert [(one.line, one.reason) for one in found.findings] == [
        (2, "the same sample as on line 1")
    ]
