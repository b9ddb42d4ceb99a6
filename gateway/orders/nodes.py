"""The nodes that have announced themselves, and which miners could take a unit instead."""

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeVar

import sqlalchemy
from sqlalchemy import bindparam
from sqlmodel import col, or_
from sqlmodel.ext.asyncio.session import AsyncSession

from gateway.errors import GatewayError
from gateway.orders.policy import Policy
from gateway.orders.rows import lock_node
from gateway.store.engine import Store
from gateway.store.tables import Node, NodeRole
from protocol.messages import Announcement, LoadedModel, Stack


class LiveNode(NamedTuple):
    """What is read of each live node: at every lease, of all of them, so without an object each.

    Its members are those of the columns of ``Node``.
    """

    hotkey: str
    coldkey: str
    stack_json: str
    architectures_json: str
    loaded_model: str | None
    loaded_revision: str | None
    loading_model: str | None
    loading_revision: str | None
    registered_at_ms: int
    tokens_per_second: float | None


AnyNode = Node | LiveNode
N = TypeVar("N", bound=AnyNode)

# Made once, for all queries. Of columns, not of an entity, which ``exec`` has no signature for.
_LIVE_MINERS: Any = sqlalchemy.select(*(getattr(Node, name) for name in LiveNode._fields)).where(
    col(Node.role) == bindparam("role"),
    col(Node.seen_at_ms) >= bindparam("since_ms"),
    col(Node.convicted_at_ms).is_(None),
)
_DISTRUSTED_UNTIL = col(Node.distrusted_until_ms)
_LIVE_VALIDATORS: Any = _LIVE_MINERS.where(
    or_(_DISTRUSTED_UNTIL.is_(None), bindparam("now_ms") >= _DISTRUSTED_UNTIL)
)


async def announce(
    store: Store, hotkey: str, coldkey: str, announcement: Announcement, now_ms: int
) -> None:
    """Note what a node is and can serve, and that it is alive. Its record stays.

    Its speed was that of the model that it held.
    """
    loaded, loading = announcement.loaded, announcement.loading
    values = {
        "coldkey": coldkey,
        "role": announcement.role,
        "stack_json": announcement.stack.model_dump_json(),
        "architectures_json": json.dumps(announcement.architectures),
        "loaded_model": loaded.model if loaded else None,
        "loaded_revision": loaded.revision if loaded else None,
        "loading_model": loading.model if loading else None,
        "loading_revision": loading.revision if loading else None,
        "max_samples": announcement.max_samples,
        "seen_at_ms": now_ms,
    }
    async with store.write() as session:
        node = await lock_node(session, hotkey)
        if node is None:
            node = Node(hotkey=hotkey, registered_at_ms=now_ms, **values)
        else:
            if loaded is None or not has_loaded(node, loaded):
                node.tokens_per_second = None
            node.sqlmodel_update(values)
        session.add(node)


async def known_node(
    session: AsyncSession, hotkey: str, role: NodeRole, loaded: LoadedModel
) -> Node:
    """Return a node that asks for work of its role and of the model commit it has loaded.

    Raises:
        GatewayError: 403 where it has not announced itself so, or is given no more work.
    """
    node = await session.get(Node, hotkey)
    if node is None or node.role != role:
        raise GatewayError(
            403, "not_announced", f"Announce this node as a {role} before it asks for leases."
        )
    # The stack that was announced is of what it held then, and its work is bound to that stack.
    stack = stack_of(node)
    if not has_loaded(node, loaded) or "auto" in (stack.dtype, stack.head_dtype):
        raise GatewayError(
            403,
            "not_announced",
            "Announce the model commit that this node has loaded, with the dtypes it has it in, "
            "before it asks for leases.",
        )
    if node.convicted_at_ms is not None:
        raise GatewayError(
            403,
            "miner_convicted",
            "What validators found in this miner's tokens is past what any honest engine shows; "
            "it is given no further work.",
        )
    return node


def stack_of(node: AnyNode) -> Stack:
    """Return the stack that a node announced last."""
    return _parsed(node.stack_json)


@lru_cache(maxsize=4_096)
def _parsed(stack_json: str) -> Stack:
    return Stack.model_validate_json(stack_json)


async def live_nodes(
    session: AsyncSession, role: NodeRole, policy: Policy, now_ms: int
) -> list[LiveNode]:
    """Return the nodes of a role that are alive, given work, and, as validators, believed."""
    values: dict[str, Any] = {"role": role, "since_ms": now_ms - policy.live_ms}
    statement = _LIVE_MINERS
    if role == NodeRole.VALIDATOR:
        statement = _LIVE_VALIDATORS
        values["now_ms"] = now_ms
    rows = await session.exec(statement, params=values)
    return [LiveNode._make(row) for row in rows.all()]


async def served_models(store: Store, policy: Policy, now_ms: int) -> dict[str, int]:
    """Return the models that live miners hold, by name, each with the time it was first known.

    The time is that at which the longest known of its miners came, in Unix milliseconds.
    """
    async with store.read() as session:
        miners = await live_nodes(session, NodeRole.MINER, policy, now_ms)
    served: dict[str, int] = {}
    for node in miners:
        if node.loaded_model is not None:
            known = served.get(node.loaded_model, node.registered_at_ms)
            served[node.loaded_model] = min(known, node.registered_at_ms)
    return dict(sorted(served.items()))


class OfCommit(Protocol):
    """Whatever is of one model commit."""

    @property
    def model(self) -> str:
        """The model's name."""
        ...

    @property
    def revision(self) -> str:
        """Its commit."""
        ...


class Ordered(OfCommit, Protocol):
    """What of an order makes a miner able to serve it."""

    @property
    def architecture(self) -> str:
        """The model's architecture."""
        ...


def has_loaded(node: AnyNode, wanted: OfCommit) -> bool:
    """Say whether the node holds a model commit."""
    return (node.loaded_model, node.loaded_revision) == (wanted.model, wanted.revision)


def holding(nodes: Iterable[N], wanted: OfCommit) -> list[N]:
    """Return those of nodes that hold a model commit."""
    model, revision = wanted.model, wanted.revision
    return [
        node for node in nodes if node.loaded_model == model and node.loaded_revision == revision
    ]


def can_serve(node: AnyNode, order: Ordered) -> bool:
    """Say whether the node holds the order's model commit or could load it."""
    return has_loaded(node, order) or order.architecture in json.loads(node.architectures_json)
