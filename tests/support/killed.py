"""A piece of the gateway's work in a process of its own, which is killed at one of its steps.

A step is a statement or a commit of a transaction that writes, or the writing of an object; it is
counted just before it is done. The process gets SIGKILL, as from ``kill -9``.
"""

import asyncio
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bittensor_core import Keypair
from exports import run_export
from sqlalchemy import event
from world import World

from gateway.orders import background, life
from gateway.orders.policy import Policy
from gateway.store.engine import Store
from gateway.store.objects import open_objects

KEY = "the key of an order"
PROMPTS = [[place, 2] for place in range(1, 6)]
SECONDS = 60
POLICY = Policy(unit_samples=4)


@dataclass(frozen=True)
class Scene:
    """Where a piece of work is done, on what and when."""

    folder: Path
    database: str
    model_folder: Path
    mnemonic: str
    order_id: str
    now: int

    async def open(self) -> World:
        """Open the scene's world."""
        objects = open_objects(f"file://{self.folder}/objects")
        world = World(await Store.open(self.database, objects), self.folder, POLICY)
        world.keypair = Keypair.create_from_mnemonic(self.mnemonic)
        world.now = self.now
        return world


async def export_order(world: World, scene: Scene) -> None:
    await run_export(world, await world.order_of(scene.order_id), scene.model_folder)


async def end_orders(world: World, scene: Scene) -> None:
    await background.end_orders(world.store, world.policy, lambda: world.now / 1000)


async def cancel(world: World, scene: Scene) -> None:
    await life.cancel(world.store, world.account_id, scene.order_id, world.now)


async def place(world: World, scene: Scene) -> None:
    await world.place(PROMPTS, key=KEY)


WORK: dict[str, Callable[[World, Scene], Awaitable[None]]] = {
    "export": export_order,
    "end": end_orders,
    "cancel": cancel,
    "place": place,
}


def steps_of(scene: Scene, work: str) -> list[str]:
    """Do a piece of work undisturbed, and return its steps in order."""
    names = scene.folder / "steps.json"
    assert _run(scene, work, None, names) == 0
    return json.loads(names.read_text())


def kill_at(scene: Scene, work: str, step: int) -> None:
    """Do a piece of work until the process is killed at a step, counted from 0."""
    assert _run(scene, work, step, scene.folder / "steps.json") == -signal.SIGKILL


def _run(scene: Scene, work: str, step: int | None, names: Path) -> int | None:
    # Its server has imported everything before: each process starts at once.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["killed"])
    process = context.Process(target=_main, args=(scene, work, step, names))
    with pytest.MonkeyPatch.context() as patch:
        # The server finds what it imports by the environment alone.
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        process.start()
    process.join(SECONDS)
    assert process.exitcode is not None
    return process.exitcode


def _main(scene: Scene, work: str, step: int | None, names: Path) -> None:
    asyncio.run(_act(scene, work, step, names))


async def _act(scene: Scene, work: str, step: int | None, names: Path) -> None:
    world = await scene.open()
    taken: list[str] = []

    def take(name: str) -> None:
        if len(taken) == step:
            os.kill(os.getpid(), signal.SIGKILL)
        taken.append(name)

    engine = world.store._writer.sync_engine

    @event.listens_for(engine, "before_cursor_execute")
    def statement(_connection: Any, _cursor: Any, text: str, *_: Any) -> None:
        take(" ".join(text.split())[:60])

    @event.listens_for(engine, "commit")
    def commit(_connection: Any) -> None:
        take("COMMIT")

    put = world.store.objects.put

    async def put_counted(key: str, content: bytes | Path) -> None:
        take(f"put {key.rpartition('/')[2]}")
        await put(key, content)

    world.store.objects.put = put_counted
    await WORK[work](world, scene)
    await asyncio.to_thread(names.write_text, json.dumps(taken))
    await world.readers.close()
    await world.store.close()
