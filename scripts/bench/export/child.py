"""One export in a process of its own, which tells what it took."""

import asyncio
import json
import logging
import os
import resource
import sys
from pathlib import Path

import structlog
from sqlmodel import col, func, select

from gateway.graders.pool import GraderPool
from gateway.memory import give_back_freed
from gateway.orders.export import export
from gateway.store.tables import DeliveredFile, OutputFormat, new_id
from scripts.bench.export.made_order import NOW, POLICY, open_store, set_format
from scripts.bench.intake.processes import peak_bytes
from scripts.bench.made_receipts import Signers
from scripts.tiny_model import WEIGHTS


async def run(data: Path, order_id: str, kind: str) -> int:
    """Export an order; return the bytes of its delivery."""
    store = await open_store(data)
    try:
        await set_format(store, order_id, None if kind == "batch" else OutputFormat(kind))
        done = await export(
            store,
            order_id,
            new_id(),
            lambda model, revision: WEIGHTS,
            Signers().gateway,
            GraderPool(1),
            data,
            POLICY,
            lambda: NOW / 1000,
        )
        if not done:
            raise RuntimeError("the order does not wait for an export")
        mine = col(DeliveredFile.order_id) == order_id
        async with store.read() as session:
            return (await session.exec(select(func.sum(DeliveredFile.bytes)).where(mine))).one()
    finally:
        await store.close()


def main() -> None:
    """Export and print what it took as JSON."""
    # As the gateway's own process does.
    give_back_freed()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    data, order_id, kind = sys.argv[1:]
    written = asyncio.run(run(Path(data), order_id, kind))
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "peak_bytes": peak_bytes(os.getpid()),
                "cpu_seconds": used.ru_utime + used.ru_stime,
                "written_bytes": int(written),
            }
        )
    )


if __name__ == "__main__":
    main()
