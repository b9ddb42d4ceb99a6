"""What the network can serve: the architectures that nodes announced, and their measured speed."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.errors import GatewayError
from gateway.orders.nodes import AnyNode, live_nodes
from gateway.orders.policy import HOUR, SECOND, Policy
from gateway.store.engine import Store
from gateway.store.tables import Lease, LeaseKind, LeaseState, Node, NodeRole, Order

# Leases of fewer tokens measure how long a unit is under way more than how fast a miner is.
TELLING_TOKENS = 10_000
MEASURED_MS = 24 * HOUR
_RETRY_SECONDS = 30


@dataclass(frozen=True)
class Capacity:
    """The network's capacity, asked for each order.

    Args:
        store: knows the nodes.
        policy: says which of them count as alive.
        architectures: the operator's list; where it is empty, the nodes' announcements count.
        node_bytes: GPU memory of one node.
    """

    store: Store
    policy: Policy
    architectures: tuple[str, ...]
    node_bytes: int

    async def supported(self, now_ms: int) -> tuple[str, ...]:
        """Return the supported ``architectures[0]``, sorted where they are the nodes'.

        A model must be generated and audited: where nodes of both roles are known it is what
        both serve. Live nodes count; where none of a role is alive, all of it that are known.

        Raises:
            GatewayError: 503 ``architecture_list_unavailable``: no node has announced what it
                serves, and no list is configured.
        """
        if self.architectures:
            return self.architectures
        async with self.store.read() as session:
            miners = await self._announced(session, NodeRole.MINER, now_ms)
            validators = await self._announced(session, NodeRole.VALIDATOR, now_ms)
        served = miners & validators if miners and validators else miners | validators
        if not served:
            raise GatewayError(
                503,
                "architecture_list_unavailable",
                "The nodes have not announced yet which models they serve; try again shortly.",
                retry_after=_RETRY_SECONDS,
            )
        return tuple(sorted(served))

    async def speed(self, model: str, revision: str, now_ms: int) -> float | None:
        """Return the tokens a second that the live miners of a model commit give together.

        Measured over what they generated with it of late; None where that is too little to tell.
        """
        async with self.store.read() as session:
            miners = await live_nodes(session, NodeRole.MINER, self.policy, now_ms)
            holders = [
                node.hotkey
                for node in miners
                if (node.loaded_model, node.loaded_revision) == (model, revision)
            ]
            duration = col(Lease.ended_at_ms) - col(Lease.granted_at_ms)
            statement = (
                select(func.sum(Lease.tokens), func.sum(duration))
                .join(Order, col(Order.id) == col(Lease.order_id))
                .where(
                    col(Lease.hotkey).in_(holders),
                    col(Lease.ended_at_ms) > now_ms - MEASURED_MS,
                    col(Lease.kind) == LeaseKind.GENERATE,
                    col(Lease.state) == LeaseState.ANSWERED,
                    col(Lease.tokens) >= TELLING_TOKENS,
                    col(Order.model) == model,
                    col(Order.revision) == revision,
                )
                .group_by(col(Lease.hotkey))
            )
            rows = (await session.exec(statement)).all()
        speeds = [SECOND * int(tokens) / int(time) for tokens, time in rows if time]
        return sum(speeds) or None

    async def _announced(self, session: AsyncSession, role: NodeRole, now_ms: int) -> set[str]:
        """Return the architectures that nodes of a role announced."""
        nodes: Iterable[AnyNode] = await live_nodes(session, role, self.policy, now_ms)
        if not nodes:
            nodes = (await session.exec(select(Node).where(col(Node.role) == role))).all()
        return {name for node in nodes for name in json.loads(node.architectures_json)}
