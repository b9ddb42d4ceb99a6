"""The opinions of validators on a result, one for each owner, as their verdicts are stored."""

import asyncio
from collections.abc import Mapping, Sequence

from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.orders.counting import standing_verdicts
from gateway.orders.judges import is_distrusted
from gateway.orders.samples import VERIFIED, VOID
from gateway.store.engine import Store
from gateway.store.tables import Lease, Verdict
from protocol.messages import SampleVerdict, Verdicts
from scoring.opinions import Opinion, Seen

# What each verdict document shows of each sample, by the document's id.
Shown = Mapping[str, Sequence[Seen]]


def seen(samples: Sequence[SampleVerdict]) -> list[Seen]:
    """Return what verdicts show of their samples."""
    return [Seen(sample.tokens, tuple(sample.marks)) for sample in samples]


async def shown_before(store: Store, result_lease_id: str) -> dict[str, list[Seen]]:
    """Return what the standing verdicts on a result show, which are objects and may be large.

    Raises:
        ObjectMissing: one of them is gone.
    """
    async with store.glance() as session:
        verdicts = await standing_verdicts(session, result_lease_id)
    found: dict[str, list[Seen]] = {}
    for verdict in verdicts:
        document = await store.objects.get(verdict.object_key)
        found[verdict.id] = await asyncio.to_thread(_read, document)
    return found


def _read(document: bytes) -> list[Seen]:
    return seen(Verdicts.model_validate_json(document).samples)


async def opinions_on(
    session: AsyncSession, result_lease: Lease, shown: Shown
) -> dict[str, Opinion]:
    """Return the opinion of each owner on a result: its latest word on each sample.

    Args:
        shown: by what marks the verdicts were reached, of those of which that is known.
    """
    opinions: dict[str, Opinion] = {}
    for verdict in await standing_verdicts(session, result_lease.id):
        lease = await session.get(Lease, verdict.id)
        if lease is None:
            raise LookupError(f"verdict {verdict.id} has no lease")
        latest = Opinion(verdict.outcomes, _marks(verdict, shown))
        before = opinions.get(lease.coldkey, latest)
        opinions[lease.coldkey] = before.overlaid(latest)
    return opinions


def _marks(verdict: Verdict, shown: Shown) -> tuple[Seen | None, ...]:
    return tuple(shown.get(verdict.id) or [None] * len(verdict.outcomes))


async def believed_opinions(
    session: AsyncSession, result_lease: Lease, shown: Shown, now_ms: int
) -> dict[str, Opinion]:
    """Return the opinions on a result, without distrusted owners' where there are others."""
    opinions = await opinions_on(session, result_lease, shown)
    believed = {
        owner: opinion
        for owner, opinion in opinions.items()
        if not await is_distrusted(session, owner, now_ms)
    }
    return believed or opinions


async def is_alone(session: AsyncSession, result_lease: Lease, verdict: Verdict) -> bool:
    """Say whether nobody else could judge any sample of the result that ``verdict`` is on."""
    lease = await session.get(Lease, verdict.id)
    opinions = await opinions_on(session, result_lease, {})
    return not any(
        VERIFIED in opinion.letters or VOID in opinion.letters
        for owner, opinion in opinions.items()
        if lease is None or owner != lease.coldkey
    )
