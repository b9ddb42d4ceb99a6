"""``docs/wire.md`` says what the code does: its messages parse, its numbers recompute."""

import json
import re
from pathlib import Path

import pytest
from bittensor import http_auth
from bittensor_core import Keypair

from protocol import documents, merkle, messages
from protocol.canonical import canonical_json
from protocol.keys import verify_statement
from scoring.weighing import judged_by, weighing_fault

DOCUMENT = (Path(__file__).parents[2] / "docs" / "wire.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```(?:json|text) ([^\n]+)\n(.*?)\n```$", DOCUMENT, re.M | re.S))
KINDS = [
    kind
    for name, kind in vars(messages).items()
    if isinstance(kind, type) and issubclass(kind, messages.Message) and name in BLOCKS
]
LEASE = messages.Lease.model_validate_json(BLOCKS["Lease"])
RESULT = messages.Result.model_validate_json(BLOCKS["Result"])
VERDICTS = messages.Verdicts.model_validate_json(BLOCKS["Verdicts"])
KEYS = documents.work_keys(LEASE.work)
GATEWAY, MINER, VALIDATOR = (
    Keypair.create_from_uri(f"//{name}").ss58_address for name in ("gateway", "miner", "validator")
)
LEASE_STATEMENT = documents.lease_statement(
    LEASE.lease_id, LEASE.attempt, MINER, LEASE.issued_at, LEASE.work
)
RESULT_STATEMENT = documents.statement_of_result(RESULT)
VERDICT_STATEMENT = documents.statement_of_verdicts(VERDICTS)


def lines(block: str) -> list[str]:
    return BLOCKS[block].splitlines()


def test_every_message_of_the_routes_is_shown() -> None:
    named = set(re.findall(r"`([A-Z][A-Za-z]+)`", DOCUMENT)) & set(vars(messages))
    assert named == {kind.__name__ for kind in KINDS}
    assert len(named) == 11


@pytest.mark.parametrize("kind", KINDS)
def test_messages_parse_and_show_every_member(kind: type[messages.Message]) -> None:
    shown = json.loads(BLOCKS[kind.__name__])
    assert kind.model_validate_json(BLOCKS[kind.__name__]).model_dump(mode="json") == shown


def test_hotkeys() -> None:
    assert [line.split()[1] for line in lines("hotkeys")] == [GATEWAY, MINER, VALIDATOR]


def test_signed_request() -> None:
    body = BLOCKS["LeaseRequest body"].encode()
    messages.LeaseRequest.model_validate_json(body)
    headers = dict(line.split(": ") for line in lines("headers"))
    nonce = int(headers["X-Bittensor-Nonce"])
    payload = http_auth.build_payload(
        scheme="sr25519",
        method="POST",
        path="/nodes/v1/leases",
        body=body,
        nonce_ns=nonce,
        sender_ss58=MINER,
        receiver_ss58=GATEWAY,
    )
    assert payload == BLOCKS["payload"].encode()
    caller = http_auth.verify(
        headers,
        body,
        method="POST",
        path="/nodes/v1/leases",
        self_hotkey_ss58=GATEWAY,
        now_ns=nonce,
        nonce_store=http_auth.InMemoryNonceStore(),
    )
    assert caller.hotkey_ss58 == MINER


def test_keys_leaves_and_roots() -> None:
    assert [key.hex() for key in KEYS] == lines("keys")
    leaves = [
        documents.sample_leaf(key, ids) for key, ids in zip(KEYS, RESULT.samples, strict=True)
    ]
    assert [leaf.hex() for leaf in leaves] == lines("leaves of the result")
    hashes = [merkle.leaf_hash(leaf).hex() for leaf in leaves]
    assert hashes == lines("leaf hashes of the result")
    assert documents.result_root(KEYS, RESULT.samples) == BLOCKS["root of the result"]
    assert BLOCKS["root of the result"] == RESULT.root == VERDICTS.result_root
    leaf = documents.verdict_leaf(KEYS[1], VERDICTS.samples[1])
    assert leaf == KEYS[1] + BLOCKS["second verdict"].encode()
    assert documents.verdict_root(KEYS, VERDICTS.samples) == BLOCKS["root of the verdicts"]
    assert BLOCKS["root of the verdicts"] == VERDICTS.root


@pytest.mark.parametrize(
    ("name", "statement", "signer", "signature"),
    [
        ("lease", LEASE_STATEMENT, GATEWAY, LEASE.signature),
        ("result", RESULT_STATEMENT, MINER, RESULT.signature),
        ("verdicts", VERDICT_STATEMENT, VALIDATOR, VERDICTS.signature),
    ],
)
def test_statements(name: str, statement: dict, signer: str, signature: str) -> None:
    assert canonical_json(statement) == BLOCKS[f"statement of the {name}"].encode()
    assert documents.digest(statement).hex() == BLOCKS[f"digest of the {name}"]
    assert verify_statement(signer, statement, signature)
    row = next(line for line in DOCUMENT.splitlines() if f"| `{statement['type']}`" in line)
    assert set(re.findall(r"`([a-z_]+)`", row)) == set(statement) - {"type"}


def test_audit_lease_is_of_this_result() -> None:
    audit = messages.AuditLease.model_validate_json(BLOCKS["AuditLease"])
    assert (audit.result, audit.work, audit.miner) == (RESULT, LEASE.work, MINER)
    assert documents.audited_statement(audit) == LEASE_STATEMENT
    assert (audit.record.gateway, audit.record.signature) == (GATEWAY, LEASE.signature)
    terms = BLOCKS["digest of the lease"]
    assert RESULT.lease_digest == VERDICTS.lease_digest == terms


@pytest.mark.parametrize(
    "mark", [[0, 12, 1], [0, 0, 0], [0, 0, 14], [-1, 0, 1], [0, 1], [0, 0, 1.0]]
)
def test_marks_out_of_range_are_none(mark: list) -> None:
    shown = {**json.loads(BLOCKS["second verdict"]), "marks": [mark]}
    with pytest.raises(ValueError, match=r"marks\.0"):
        messages.SampleVerdict.model_validate_json(json.dumps(shown))


def test_verdicts_are_by_the_rule_and_weigh_what_they_say() -> None:
    stacks = (RESULT.stack, VERDICTS.stack)
    model = LEASE.work.model
    profile = judged_by(VERDICTS.rule, VERDICTS.profile, model, *stacks)
    assert [weighing_fault(one, profile) for one in VERDICTS.samples] == [None] * 3
