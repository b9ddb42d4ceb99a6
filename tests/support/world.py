"""A small world for tests of orders: a store, a clock set by hand, and nodes that fake a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bittensor_core import Keypair
from books import check_money
from made_quotes import ARCHITECTURE, END, MODEL, REVISION, made_quote
from sqlmodel import select
from stored_batches import check_stored, input_of

from gateway.accounts import credit_account
from gateway.graders.pool import GraderPool
from gateway.ledger.money import nano_of
from gateway.orders import dispatch
from gateway.orders.placing import Placement, place
from gateway.orders.policy import Policy
from gateway.orders.quote import Quote
from gateway.orders.reading import get_order
from gateway.orders.results import accept_result
from gateway.orders.verdicts import accept_verdicts
from gateway.store.engine import Store
from gateway.store.tables import Account, Dialect, File, FilePurpose, Order, Record, Table
from gateway.workers import WorkerPool
from protocol.documents import (
    audited_statement,
    digest,
    lease_statement,
    result_root,
    statement_of_result,
    statement_of_verdicts,
    verdict_root,
    work_keys,
)
from protocol.keys import sign_statement
from protocol.messages import (
    Announcement,
    AuditLease,
    Lease,
    LeaseRequest,
    LoadedModel,
    Outcome,
    Receipt,
    Result,
    Role,
    SampleVerdict,
    Stack,
    Verdicts,
    Work,
)
from scoring.profile import BINS
from scoring.published import chosen
from scoring.sample_rule import RULE

Row = TypeVar("Row", bound=Table)

NOW = 1_762_685_000_000
INPUT_FILE = "file-x"
LOADED = LoadedModel(model=MODEL, revision=REVISION)
STACK = Stack(
    engine="transformers", version="1", dtype="float32", head_dtype="float32", device="cpu"
)


@dataclass(frozen=True)
class Node:
    """A node's key, owner, stack and model; ``World`` makes up what it generates or judges."""

    keypair: Keypair
    role: Role
    owner: str | None = None
    stack: Stack = STACK
    holds: LoadedModel = LOADED

    @property
    def hotkey(self) -> str:
        return self.keypair.ss58_address

    @property
    def coldkey(self) -> str:
        return self.owner or f"owner of {self.hotkey}"


class World:
    """A store with one account, a clock set by hand, and fake nodes that sign with real keys.

    The fake miner answers every draw key with legal ids made from that key, whoever asks: as if
    there were a model. The fake validator votes as the test tells it, without looking.
    """

    def __init__(self, store: Store, folder: Path, policy: Policy) -> None:
        self.store = store
        self.folder = folder
        self.policy = policy
        self.now = NOW
        self.keypair = new_keypair()
        # Its worker starts with the first large result, of which there is none here.
        self.readers = WorkerPool(1, 60, 60, "gateway_busy")
        # So does its with the first answer that takes computing to compare.
        self.graders = GraderPool(1)
        self.account_id = "account"
        self.inputs: dict[str, bytes] = {}
        # Money is checked at the end, unless a test moves orders by hand.
        self.settles = True

    async def open_account(self, account_id: str = "account", usd: str | None = "1000000") -> str:
        """Open an account, whose name is its id, and top it up."""
        async with self.store.write() as session:
            session.add(Account(id=account_id, name=account_id, created_at_ms=self.now))
            await session.flush()
            if account_id == self.account_id:
                session.add(self.input_file())
        if usd is not None:
            await credit_account(self.store, account_id, nano_of(usd), account_id, self.now)
        return account_id

    def input_file(self) -> File:
        """Return the row of the file that orders read, of which there are no bytes."""
        return File(
            id=INPUT_FILE,
            account_id=self.account_id,
            filename="in.jsonl",
            bytes=5,
            sha256="cd" * 32,
            purpose=FilePurpose.BATCH,
            object_key="files/x",
            created_at_ms=self.now,
        )

    def quote(self, prompts: Sequence[Sequence[int]], **options: Any) -> Quote:
        """Return a quote of these prompts; see ``made_quote`` for the options."""
        return made_quote(self.folder, self.now, prompts, **options)

    async def place(
        self,
        prompts: Sequence[Sequence[int]] = ((1, 2, 3),),
        *,
        key: str | None = None,
        body: str = "00",
        account_id: str | None = None,
        hours: int = 24,
        input_file_id: str = INPUT_FILE,
        metadata: dict[str, str] | None = None,
        **options: Any,
    ) -> Order:
        placement = Placement(
            input_file_id=input_file_id,
            dialect=Dialect.OPENAI,
            completion_window_hours=hours,
            metadata=metadata or {"a": "b"},
            idempotency_key=key,
            body_sha256=body,
            drawn_seed=4_242,
        )
        quote = self.quote(prompts, **options)
        owner = account_id or self.account_id
        order = await place(self.store, owner, quote, placement, self.policy, self.now)
        n, refused = options.get("n", 1), options.get("refused", 0)
        self.inputs.setdefault(order.id, input_of(len(prompts), n, refused))
        return order

    async def node(
        self,
        role: Role,
        *,
        loaded: bool = True,
        able: bool = True,
        owner: str | None = None,
        stack: Stack = STACK,
    ) -> Node:
        """Make and announce a node, by default of an owner of its own."""
        node = Node(new_keypair(), role, owner, stack)
        await self.announce(node, loaded=loaded, able=able)
        return node

    async def prove(self, node: Node, verified: int = 10_000) -> None:
        """Make it that so many samples of a miner were verified before."""
        async with self.store.write() as session:
            session.add(proven(node.hotkey, node.coldkey, MODEL, REVISION, verified))

    async def announce(self, node: Node, *, loaded: bool = True, able: bool = True) -> None:
        announcement = Announcement(
            role=node.role,
            stack=node.stack,
            architectures=[ARCHITECTURE] if able else [],
            loaded=node.holds if loaded else None,
            max_samples=256,
        )
        await dispatch.announce(self.store, node.hotkey, node.coldkey, announcement, self.now)

    def request(self, node: Node, max_samples: int = 256) -> LeaseRequest:
        return LeaseRequest(role=node.role, loaded=node.holds, max_samples=max_samples)

    async def lease(self, miner: Node, max_samples: int = 256) -> Lease | None:
        return await dispatch.lease_generation(
            self.store,
            self.keypair,
            miner.hotkey,
            self.request(miner, max_samples),
            self.policy,
            self.now,
        )

    async def lease_audit(self, validator: Node) -> AuditLease | None:
        granted = await dispatch.lease_audit(
            self.store,
            self.keypair,
            validator.hotkey,
            self.request(validator),
            self.policy,
            self.now,
        )
        if granted is None:
            return None
        size, pieces = await granted.encoded(self.store.objects)
        encoded = b"".join([piece async for piece in pieces])
        assert len(encoded) == size
        return AuditLease.model_validate_json(encoded)

    def result(self, miner: Node, lease: Lease, **changes: Any) -> Result:
        """Return a signed legal result; ``samples`` and others may be set, before signing."""
        samples = changes.pop("samples", None)
        if samples is None:
            samples = self.answers(lease.work)
        keys = work_keys(lease.work)
        fields: dict[str, Any] = {
            "unit_id": lease.work.unit_id,
            "attempt": lease.attempt,
            "lease_digest": digest(
                lease_statement(
                    lease.lease_id, lease.attempt, miner.hotkey, lease.issued_at, lease.work
                )
            ).hex(),
            "stack": miner.stack,
            "samples": samples,
            "root": result_root(keys, samples) if len(samples) == len(keys) else "00" * 32,
            "signature": "00" * 64,
            **changes,
        }
        unsigned = Result(**fields)
        if "signature" in changes:
            return unsigned
        signature = sign_statement(miner.keypair, statement_of_result(unsigned))
        return unsigned.model_copy(update={"signature": signature})

    async def post(self, miner: Node, lease: Lease, result: Result | None = None) -> Receipt:
        posted = result or self.result(miner, lease)
        body = posted.model_dump_json().encode()
        return await accept_result(
            self.store, self.readers, miner.hotkey, lease.lease_id, body, self.now
        )

    async def generate(self, miner: Node) -> Lease | None:
        """Lease a unit and post a legal result."""
        lease = await self.lease(miner)
        if lease is not None:
            await self.post(miner, lease)
        return lease

    def verdicts(
        self, validator: Node, lease: AuditLease, votes: Sequence[Outcome], **changes: Any
    ) -> Verdicts:
        samples = [
            SampleVerdict(
                outcome=vote,
                reason=None if vote == "verified" else "as told",
                tokens=len(ids),
                mismatches=int(vote == "void"),
                largest_margin_micro=5_000_000 if vote == "void" else 0,
                position=0 if vote == "void" else None,
                marks=[(0, 0, BINS - 1)] if vote == "void" else [],
            )
            for vote, ids in zip(votes, lease.result.samples, strict=True)
        ]
        fields: dict[str, Any] = {
            "unit_id": lease.work.unit_id,
            "attempt": lease.attempt,
            "lease_digest": digest(audited_statement(lease)).hex(),
            "result_root": lease.result.root,
            "rule": RULE,
            "profile": chosen(lease.work.model, lease.result.stack, validator.stack).digest,
            "stack": validator.stack,
            "samples": samples,
            "root": "00" * 32,
            "signature": "00" * 64,
            **changes,
        }
        unsigned = Verdicts(**fields)
        if "root" in changes or len(unsigned.samples) != len(lease.work.samples):
            return self._signed(validator, unsigned)
        return self.signed_again(validator, lease, unsigned)

    def signed_again(self, validator: Node, lease: AuditLease, verdicts: Verdicts) -> Verdicts:
        """Return verdicts with the root and the signature that their samples need."""
        root = verdict_root(work_keys(lease.work), verdicts.samples)
        return self._signed(validator, verdicts.model_copy(update={"root": root}))

    def _signed(self, validator: Node, verdicts: Verdicts) -> Verdicts:
        signature = sign_statement(validator.keypair, statement_of_verdicts(verdicts))
        return verdicts.model_copy(update={"signature": signature})

    def truth(self, lease: AuditLease) -> list[Outcome]:
        """Return what an honest validator finds."""
        pairs = zip(lease.result.samples, self.answers(lease.work), strict=True)
        return ["verified" if claimed == honest else "void" for claimed, honest in pairs]

    def answers(self, work: Work) -> list[list[int]]:
        """Return what an honest miner generates."""
        return [fake_ids(key, work.sampling.max_tokens) for key in work_keys(work)]

    async def audit(
        self, validator: Node, votes: Sequence[Outcome] | Outcome = "verified"
    ) -> AuditLease | None:
        """Lease the next result and vote on its samples, all alike where one vote is given."""
        lease = await self.lease_audit(validator)
        if lease is not None:
            told = [votes] * len(lease.work.samples) if isinstance(votes, str) else votes
            posted = self.verdicts(validator, lease, told)
            await self.judge(validator, lease, posted)
        return lease

    async def judge(self, validator: Node, lease: AuditLease, verdicts: Verdicts) -> Receipt:
        return await accept_verdicts(
            self.store, validator.hotkey, lease.lease_id, verdicts, self.policy, self.now
        )

    async def finish(self, miner: Node, validator: Node) -> None:
        """Generate and verify until nothing is left."""
        while await self.generate(miner) or await self.audit(validator):
            pass

    async def order(self, order: Order) -> Order:
        """Read an order again."""
        return await get_order(self.store, order.account_id, order.id)

    async def check(self) -> None:
        """Check all that ended, and the books."""
        await check_stored(self.store, self.inputs)
        if self.settles:
            await check_money(self.store)

    async def order_of(self, order_id: str) -> Order:
        """Read an order by its id."""
        return await get_order(self.store, self.account_id, order_id)

    async def rows(self, table: type[Row], *conditions: Any) -> list[Row]:
        async with self.store.read() as session:
            return list((await session.exec(select(table).where(*conditions))).all())


def proven(hotkey: str, coldkey: str, model: str, revision: str, verified: int) -> Record:
    """Return the record of a miner that has been at it for long."""
    return Record(
        miner=hotkey,
        model=model,
        revision=revision,
        owner=coldkey,
        entries_json="[]",
        verified=verified,
    )


def new_keypair() -> Keypair:
    return Keypair.create_from_mnemonic(Keypair.generate_mnemonic())


def fake_ids(key: bytes, limit: int) -> list[int]:
    """Return legal ids made from a draw key: some end by themselves, some at the limit."""
    length = 1 + key[0] % (limit + 1)
    ids = [1 + byte % (END - 1) for byte in key[1 : 1 + min(length, limit)]]
    return ids if length > limit else [*ids[:-1], END]
