"""Exporting an order under a lease on its row: whoever dies in it is taken over by another."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import structlog
from bittensor_core import Keypair
from sqlmodel import col, or_, select, update
from tokenizers import Tokenizer

from gateway.graders.pool import GraderPool
from gateway.orders import transitions
from gateway.orders.content import object_key
from gateway.orders.delivery import Delivery, Written, write_delivery
from gateway.orders.delivery_lines import Decoder
from gateway.orders.failing import EXPORTED
from gateway.orders.manifest import manifest_statement
from gateway.orders.native_delivery import NativeDelivery, Tools, deliver_natively
from gateway.orders.policy import Policy
from gateway.orders.rows import lock_order
from gateway.orders.shards import Bounds
from gateway.orders.stored_files import file_row, put_once
from gateway.store.engine import Store
from gateway.store.objects import Objects
from gateway.store.tables import (
    DeliveredFile,
    Ending,
    File,
    FileKind,
    Order,
)
from protocol.manifest import (
    ERRORS,
    GRADES,
    MANIFEST,
    OUTPUT,
    RECEIPTS,
    REPORT,
    signed_manifest,
)

log = structlog.get_logger("gateway.export")

ModelFolder = Callable[[str, str], Path]
_KINDS = {
    OUTPUT: FileKind.OUTPUT,
    ERRORS: FileKind.ERRORS,
    RECEIPTS: FileKind.RECEIPTS,
    GRADES: FileKind.GRADES,
    REPORT: FileKind.REPORT,
}


class ExportLost(Exception):
    """Another exporter has taken the order over."""


@dataclass(frozen=True)
class _Made:
    """What an export made: the files of the delivery, and output and errors as a batch has them.

    ``receipts_key`` is of the receipts, or of the manifest where those are many files.
    """

    files: list[DeliveredFile]
    output: File | None
    errors: File | None
    receipts_key: str


async def waiting(store: Store, now_ms: int) -> list[str]:
    """Return the orders whose generation is over and that nobody exports, oldest first."""
    statement = (
        select(Order.id).where(*_waits(now_ms)).order_by(col(Order.created_at_ms), col(Order.id))
    )
    async with store.glance() as session:
        return list((await session.exec(statement)).all())


async def export(
    store: Store,
    order_id: str,
    holder: str,
    model_folder: ModelFolder,
    keypair: Keypair,
    graders: GraderPool,
    scratch: Path,
    policy: Policy,
    clock: Callable[[], float],
) -> bool:
    """Export an order and end it; say whether it was free to be exported.

    Its files become visible in the transaction that ends it, never before.

    Args:
        holder: names this try, as no other is named.
        model_folder: returns the folder of a model's files at a commit, downloading them; blocking.
        keypair: the gateway's hotkey, which leases were signed with.
        graders: grade an evaluation.
        scratch: folder for files at work.
        clock: seconds since the epoch.
    """
    order = await _claim(store, order_id, holder, policy, _ms(clock))
    if order is None:
        return False
    async with _kept(store, order_id, holder, policy, clock):
        with tempfile.TemporaryDirectory(prefix="export-", dir=scratch) as folder:
            decoder = await asyncio.to_thread(_decoder, model_folder, order)
            bounds = Bounds(policy.shard_rows, policy.shard_bytes)
            tools = Tools(decoder, keypair, graders, Path(folder), bounds)
            if order.output_format is None:
                made = await _made_for_batch(store, order, tools, _ms(clock))
            else:
                made = _made_natively(
                    order, await deliver_natively(store, order, tools), _ms(clock)
                )
    await _deliver(store, order, holder, made, _ms(clock))
    return True


def _ms(clock: Callable[[], float]) -> int:
    return int(clock() * 1000)


def _waits(now_ms: int) -> tuple:
    free = or_(col(Order.export_until_ms).is_(None), col(Order.export_until_ms) <= now_ms)
    return (col(Order.status).in_(EXPORTED), col(Order.ending).is_not(None), free)


async def _claim(
    store: Store, order_id: str, holder: str, policy: Policy, now_ms: int
) -> Order | None:
    statement = (
        select(Order)
        .where(col(Order.id) == order_id, *_waits(now_ms))
        .with_for_update(skip_locked=True, key_share=True)
    )
    async with store.write() as session:
        order = (await session.exec(statement)).one_or_none()
        if order is not None:
            order.export_holder = holder
            order.export_until_ms = now_ms + policy.export_lease_ms
            session.add(order)
    return order


@asynccontextmanager
async def _kept(
    store: Store, order_id: str, holder: str, policy: Policy, clock: Callable[[], float]
) -> AsyncIterator[None]:
    """Renew the exporter's lease while the block runs.

    Raises:
        ExportLost: another has it, so the block is broken off.
    """

    async def renew() -> None:
        while True:
            await asyncio.sleep(policy.export_lease_ms / 3 / 1000)
            statement = (
                update(Order)
                .where(col(Order.id) == order_id, col(Order.export_holder) == holder)
                .values(export_until_ms=_ms(clock) + policy.export_lease_ms)
            )
            async with store.write() as session:
                if (await session.exec(statement)).rowcount != 1:
                    raise ExportLost(order_id)

    try:
        async with asyncio.TaskGroup() as tasks:
            renewal = tasks.create_task(renew())
            yield
            renewal.cancel()
    except BaseExceptionGroup as group:
        # One thing went wrong; the group around it says nothing more.
        raise group.exceptions[0] from group


def _decoder(model_folder: ModelFolder, order: Order) -> Decoder:
    if not order.samples_verified:
        # Without a single id nothing of the model is needed, which may be gone by now.
        return _NoText()
    folder = model_folder(order.model, order.revision)
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


class _NoText:
    """The decoder of an order of which nothing was verified."""

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Refuse: there are no ids."""
        raise LookupError(f"{len(ids)} ids of an order of which nothing was verified")


async def _manifest(store: Store, order: Order, delivery: Delivery, keypair: Keypair) -> bytes:
    async with store.read() as session:
        ordered = await session.get_one(File, order.input_file_id)
    return signed_manifest(keypair, manifest_statement(order, ordered, delivery)).encoded()


async def _upload(objects: Objects, order_id: str, delivery: Delivery, manifest: bytes) -> None:
    for written in delivery.files():
        key = object_key(order_id, written.path.name)
        await put_once(objects, key, written.path, written.bytes)
    # The last, so that whoever sees a manifest sees all that it names.
    await put_once(objects, object_key(order_id, MANIFEST), manifest, len(manifest))


async def _made_for_batch(store: Store, order: Order, tools: Tools, now_ms: int) -> _Made:
    """Write and store the delivery of a batch of the OpenAI dialects."""
    hotkey = tools.keypair.ss58_address
    delivery = await write_delivery(
        store, order, tools.decoder, hotkey, tools.graders, tools.folder
    )
    manifest = await _manifest(store, order, delivery, tools.keypair)
    await _upload(store.objects, order.id, delivery, manifest)
    output, errors = (
        file_row(order, kind, name, written, object_key(order.id, written.path.name), now_ms)
        for kind, name, written in (
            ("out", "output", delivery.output),
            ("err", "errors", delivery.errors),
        )
    )
    files = [_delivered(order, _KINDS[made.path.name], made) for made in delivery.files()]
    files.append(await _stored_manifest(store.objects, order))
    receipts_key = object_key(order.id, delivery.receipts.path.name)
    return _Made(files, *_kept_files(order, output, errors), receipts_key)


def _made_natively(order: Order, delivery: NativeDelivery, now_ms: int) -> _Made:
    """Return what a native delivery is; it has the whole files of a batch too, but for Parquet.

    Those have no objects of their own: their bytes are the delivery's files, one after another.
    """
    receipts_key = delivery.files[-1].object_key
    output = None
    if delivery.output is not None:
        output = file_row(order, "out", "output", delivery.output, "", now_ms)
    errors = file_row(order, "err", "errors", delivery.errors, "", now_ms)
    return _Made(delivery.files, *_kept_files(order, output, errors), receipts_key)


def _kept_files(order: Order, output: File | None, errors: File) -> tuple[File | None, File | None]:
    """Return output and errors of a batch, each None where there is nothing to have it for."""
    if output is not None and not output.bytes and order.ending != Ending.COMPLETED:
        output = None
    return output, errors if errors.bytes > 0 else None


async def _stored_manifest(objects: Objects, order: Order) -> DeliveredFile:
    """Return the manifest as it is stored: an exporter that died may have signed it."""
    key = object_key(order.id, MANIFEST)
    content = await objects.get(key)
    return DeliveredFile(
        order_id=order.id,
        name=MANIFEST,
        kind=FileKind.MANIFEST,
        bytes=len(content),
        sha256=sha256(content).hexdigest(),
        object_key=key,
    )


async def _deliver(store: Store, order: Order, holder: str, made: _Made, now_ms: int) -> None:
    async with store.write() as session:
        locked = await lock_order(session, order.id)
        if locked is None or locked.export_holder != holder:
            raise ExportLost(order.id)
        session.add_all([file for file in (made.output, made.errors) if file is not None])
        session.add_all(made.files)
        await transitions.deliver(
            session,
            order,
            now_ms,
            output_file_id=made.output and made.output.id,
            error_file_id=made.errors and made.errors.id,
            receipts_key=made.receipts_key,
        )


def _delivered(order: Order, kind: FileKind, written: Written) -> DeliveredFile:
    return DeliveredFile(
        order_id=order.id,
        name=written.path.name,
        kind=kind,
        bytes=written.bytes,
        sha256=written.sha256,
        object_key=object_key(order.id, written.path.name),
    )
