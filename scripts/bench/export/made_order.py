"""An order whose generation is over, made without a network: its rows and objects are real.

A miner and a validator are keys that lease, sign and post through the gateway's own code; what is
generated is made from the draw keys, and the validator passes it without looking.
"""

import json
import shutil
import tempfile
from pathlib import Path

from gateway.accounts import create_account, credit_account
from gateway.catalog.prices import load_prices
from gateway.intake.file import run_intake
from gateway.intake.job import IntakeJob
from gateway.intake.outcome import Intake
from gateway.ledger.money import NANO
from gateway.orders import dispatch
from gateway.orders.placing import Placement, place
from gateway.orders.policy import Policy
from gateway.orders.quote import Quote
from gateway.orders.results import accept_result
from gateway.orders.verdicts import accept_verdicts
from gateway.store.engine import Store
from gateway.store.objects import open_objects
from gateway.store.tables import Dialect, File, FilePurpose, Order, OutputFormat, Record
from gateway.workers import WorkerPool
from protocol.documents import (
    work_keys,
)
from protocol.messages import (
    Announcement,
    AuditLease,
    Lease,
    LeaseRequest,
    LoadedModel,
    Result,
    Role,
    SampleVerdict,
    Verdicts,
)
from protocol.repository import read_facts
from protocol.results import signed_result
from protocol.verdicts import signed_verdicts
from scoring.profile import bin_of
from scoring.published import chosen
from scoring.sample_rule import RULE
from scripts.bench.made_receipts import CREATED_AT, STACK, Signers
from scripts.tiny_model import WEIGHTS

MODEL, REVISION = "reliquary/tiny-qwen3", "0123456789abcdef0123456789abcdef01234567"
PARAMETERS = 1_000_000_000
CHAT = "/v1/chat/completions"
SAMPLE_TOKENS = 128
NOW = CREATED_AT * 1000
POLICY = Policy(unit_samples=256)
INPUT = "file-input"
_LOADED = LoadedModel(model=MODEL, revision=REVISION)
_VERIFIED_BEFORE = 10_000_000


async def make_order(data: Path, lines: int, n: int) -> str:
    """Make a store in ``data`` with an order that waits for its export; return the order's id."""
    store = await open_store(data)
    readers = WorkerPool(1, 60, 60, "gateway_busy")
    try:
        order = await _placed(store, data, lines, n)
        await _generated(store, readers, order)
        return order.id
    finally:
        await readers.close()
        await store.close()


async def open_store(data: Path) -> Store:
    """Open the store in a folder."""
    return await Store.open(f"sqlite:///{data}/gateway.db", open_objects(f"file://{data}/objects"))


async def set_format(store: Store, order_id: str, output_format: OutputFormat | None) -> None:
    """Say how an order is delivered; None as a batch of the OpenAI dialects."""
    async with store.write() as session:
        order = await session.get_one(Order, order_id)
        order.output_format = output_format
        session.add(order)


async def _placed(store: Store, data: Path, lines: int, n: int) -> Order:
    account = await create_account(store, "bench", NOW)
    await credit_account(store, account.name, 10_000_000 * NANO, "bench", NOW)
    async with store.write() as session:
        session.add(
            File(
                id=INPUT,
                account_id=account.id,
                filename="in.jsonl",
                bytes=1,
                sha256="00" * 32,
                purpose=FilePurpose.BATCH,
                object_key="",
                created_at_ms=NOW,
            )
        )
    quote = _quote(data, lines, n)
    placement = Placement(
        input_file_id=INPUT,
        dialect=Dialect.OPENAI,
        completion_window_hours=24,
        metadata=None,
        idempotency_key=None,
        body_sha256="00",
        drawn_seed=7,
    )
    try:
        return await place(store, account.id, quote, placement, POLICY, NOW)
    finally:
        shutil.rmtree(quote.intake.folder)


def _quote(data: Path, lines: int, n: int) -> Quote:
    path = data / "in.jsonl"
    with path.open("w", encoding="ascii") as file:
        file.writelines(_row(number, n) for number in range(lines))
    facts = read_facts(WEIGHTS, MODEL, REVISION)
    job = IntakeJob(
        input_path=path,
        folder=Path(tempfile.mkdtemp(dir=data)),
        endpoint=CHAT,
        graded=False,
        model=MODEL,
        vocabulary_size=facts.vocabulary_size,
        context_length=facts.context_length,
        tokenizer_folder=WEIGHTS,
        template_time=CREATED_AT,
    )
    intake = run_intake(job)
    path.unlink()
    if not isinstance(intake, Intake):
        raise RuntimeError(intake.message)
    price = load_prices().price(
        PARAMETERS,
        prompt_tokens=intake.prompt_tokens,
        lines=intake.usable_lines,
        n=n,
        max_tokens=SAMPLE_TOKENS,
    )
    return Quote(intake, facts, price, NOW, CREATED_AT)


def _row(number: int, n: int) -> str:
    content = f"{number} " + "Tell me a story about a river. " * 5
    body = {
        "messages": [{"role": "user", "content": content}],
        "max_tokens": SAMPLE_TOKENS,
        "n": n,
        "seed": 7,
    }
    # Every tenth line is refused, so that errors are long, too.
    body |= {"stop": "x"} if number % 10 == 9 else {}
    row = {"custom_id": f"q{number}", "method": "POST", "url": CHAT, "body": body}
    return json.dumps(row) + "\n"


async def _generated(store: Store, readers: WorkerPool, order: Order) -> None:
    """Have all samples of an order generated and verified."""
    signers = Signers()
    miner, validator = signers.miner.ss58_address, signers.validator.ss58_address
    await _announce(store, miner, "miner", order)
    await _announce(store, validator, "validator", order)
    async with store.write() as session:
        session.add(
            Record(
                miner=miner,
                model=MODEL,
                revision=REVISION,
                owner=f"owner of {miner}",
                entries_json="[]",
                verified=_VERIFIED_BEFORE,
            )
        )
    while lease := await dispatch.lease_generation(
        store, signers.gateway, miner, _request("miner"), POLICY, NOW
    ):
        result = _result(signers, lease).model_dump_json().encode()
        await accept_result(store, readers, miner, lease.lease_id, result, NOW)
        granted = await dispatch.lease_audit(
            store, signers.gateway, validator, _request("validator"), POLICY, NOW
        )
        if granted is None:
            raise RuntimeError("there is nothing to audit")
        _, pieces = await granted.encoded(store.objects)
        audit = AuditLease.model_validate_json(b"".join([piece async for piece in pieces]))
        verdicts = _verdicts(signers, audit)
        await accept_verdicts(store, validator, audit.lease_id, verdicts, POLICY, NOW)


async def _announce(store: Store, hotkey: str, role: Role, order: Order) -> None:
    announcement = Announcement(
        role=role,
        stack=STACK,
        architectures=[order.architecture],
        loaded=_LOADED,
        max_samples=POLICY.unit_samples or 1,
    )
    await dispatch.announce(store, hotkey, f"owner of {hotkey}", announcement, NOW)


def _request(role: Role) -> LeaseRequest:
    return LeaseRequest(role=role, loaded=_LOADED, max_samples=POLICY.unit_samples or 1)


def _result(signers: Signers, lease: Lease) -> Result:
    keys = work_keys(lease.work)
    # No id of them ends a sample.
    samples = [[8 + byte for byte in (key * 4)[:SAMPLE_TOKENS]] for key in keys]
    return signed_result(signers.miner, lease, STACK, samples)


def _verdicts(signers: Signers, lease: AuditLease) -> Verdicts:
    samples = [
        SampleVerdict(
            outcome="verified",
            tokens=len(ids),
            mismatches=1,
            largest_margin_micro=1_000,
            marks=[(0, 0, bin_of(0.001))],
        )
        for ids in lease.result.samples
    ]
    profile = chosen(MODEL, lease.result.stack, STACK).digest
    return signed_verdicts(signers.validator, lease, RULE, profile, STACK, samples)
