"""What an order's rows and objects show of its verified samples, read one root unit at a time."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders.content import unit_work
from gateway.orders.counting import standing_verdicts
from gateway.orders.leases import statement_of
from gateway.orders.samples import VERIFIED, ordinals
from gateway.orders.stored_results import sample_ids, without_samples
from gateway.store.engine import Store
from gateway.store.tables import Lease, Order, Unit, Verdict
from protocol import merkle
from protocol.documents import sample_leaf, verdict_leaf, work_keys
from protocol.messages import Result, Verdicts, Work
from protocol.receipts import LeasePart, ResultPart, SampleReceipt, VerdictPart


@dataclass(frozen=True)
class Judged:
    """One verdict document on a result, and the lease of the validator that signed it."""

    validator: str
    document: Verdicts


@dataclass(frozen=True)
class Delivered:
    """A verified sample with all of its receipt but its line and choice (``SampleReceipt``)."""

    prompt_ids: list[int]
    sample_index: int
    draw_key: str
    token_ids: list[int]
    unit_id: str
    attempt: int
    miner: str
    result: ResultPart
    verdict: VerdictPart
    lease: LeasePart

    def receipt(self, custom_id: str, prompt_index: int, choice: int) -> SampleReceipt:
        """Return the sample's receipt."""
        return SampleReceipt(
            custom_id=custom_id, prompt_index=prompt_index, choice=choice, **vars(self)
        )


async def root_units(session: AsyncSession, order_id: str) -> Sequence[Unit]:
    """Return an order's root units, by their lines."""
    statement = (
        select(Unit)
        .where(col(Unit.order_id) == order_id, col(Unit.parent_id).is_(None))
        .order_by(col(Unit.first_line))
    )
    return (await session.exec(statement)).all()


async def delivered_samples(
    store: Store, order: Order, root: Unit, gateway_hotkey: str
) -> dict[int, Delivered]:
    """Return the verified samples of a root unit and its descendants, by ordinal.

    Raises:
        ObjectMissing: an object that the rows name is gone.
    """
    found: dict[int, Delivered] = {}
    async with store.read() as session:
        chain = select(Unit).where(col(Unit.root_id) == root.id).order_by(col(Unit.id))
        units = [unit for unit in (await session.exec(chain)).all() if VERIFIED in unit.outcomes]
        sources = [await _sources(session, unit) for unit in units]
    for unit, (lease, verdicts) in zip(units, sources, strict=True):
        work = await unit_work(store.objects, order, unit)
        result = await store.objects.get(lease.object_key or "")
        judged = [
            (verdict.validator, await store.objects.get(verdict.object_key)) for verdict in verdicts
        ]
        found |= await asyncio.to_thread(
            _samples, order, unit, lease, work, result, judged, gateway_hotkey
        )
    return found


async def _sources(session: AsyncSession, unit: Unit) -> tuple[Lease, Sequence[Verdict]]:
    lease = await session.get(Lease, unit.result_lease_id)
    if lease is None:
        raise LookupError(f"unit {unit.id} is verified but has no result")
    return lease, await standing_verdicts(session, lease.id)


def _samples(
    order: Order,
    unit: Unit,
    lease: Lease,
    work: Work,
    result_bytes: bytes,
    judged_bytes: Sequence[tuple[str, bytes]],
    gateway_hotkey: str,
) -> dict[int, Delivered]:
    """Return one unit's verified samples by ordinal, each with its receipt."""
    result = Result.model_validate_json(without_samples(result_bytes))
    claimed = sample_ids(result_bytes)
    judged = [
        Judged(validator, Verdicts.model_validate_json(content))
        for validator, content in judged_bytes
    ]
    keys = work_keys(work)
    result_paths = _paths([sample_leaf(*pair) for pair in zip(keys, claimed, strict=True)])
    key_paths = _paths(keys)
    verdict_paths = [
        _paths([verdict_leaf(*pair) for pair in zip(keys, one.document.samples, strict=True)])
        for one in judged
    ]
    statement = statement_of(lease, work)
    found: dict[int, Delivered] = {}
    for place, ordinal in enumerate(ordinals(unit, order.n).tolist()):
        if unit.outcomes[place] != VERIFIED:
            continue
        at = _first_verified(judged, place)
        found[ordinal] = Delivered(
            prompt_ids=work.prompts[work.samples[place].prompt],
            sample_index=work.samples[place].sample_index,
            draw_key=keys[place].hex(),
            token_ids=claimed[place],
            unit_id=unit.id,
            attempt=result.attempt,
            miner=lease.hotkey,
            result=ResultPart(
                stack=result.stack,
                root=result.root,
                signature=result.signature,
                leaf_index=place,
                leaf_count=len(keys),
                path=result_paths[place],
            ),
            verdict=_verdict_part(judged[at], place, verdict_paths[at][place]),
            lease=LeasePart(
                statement=statement,
                gateway=gateway_hotkey,
                signature=lease.signature or "",
                path=key_paths[place],
            ),
        )
    return found


def _first_verified(judged: Sequence[Judged], place: int) -> int:
    return next(
        at for at, one in enumerate(judged) if one.document.samples[place].outcome == "verified"
    )


def _verdict_part(judged: Judged, place: int, path: list[str]) -> VerdictPart:
    document = judged.document
    return VerdictPart(
        validator=judged.validator,
        sample=document.samples[place],
        rule=document.rule,
        profile=document.profile,
        stack=document.stack,
        root=document.root,
        signature=document.signature,
        path=path,
    )


def _paths(leaves: list[bytes]) -> list[list[str]]:
    return [[node.hex() for node in path] for path in merkle.paths(leaves)]
