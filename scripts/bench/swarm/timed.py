"""The gateway as it is served, with an account of what its event loop's processor time goes to.

The account is of what lies between two signals: ``USR1`` begins it, ``USR2`` ends it and writes it
to the path in ``RELIQUARY_BENCH_ACCOUNT``. Every step of the event loop is timed by the processor
clock of its thread and counted for the request in whose context it runs.
"""

import asyncio
import json
import os
import re
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from fastapi import FastAPI
from sqlalchemy import event
from sqlalchemy.engine import Engine
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway import serve
from gateway.orders import background
from gateway.orders.waiting import WaitingRoom
from scripts.bench.swarm.account import OUTSIDE, VARIABLE
from scripts.cli.app import main

_LEASE_ID = re.compile(r"/leases/[0-9a-f-]{36}/")
T = TypeVar("T")
_ROUTE: ContextVar[str] = ContextVar("route", default=OUTSIDE)


class Accountant:
    """Counts by route: requests, SQL statements, and processor seconds of the event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.begin()

    def begin(self, *_: object) -> None:
        """Forget what was counted."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.requests: Counter[str] = Counter()
        self.statements: Counter[str] = Counter()
        self._began = (time.thread_time(), time.process_time())

    def end(self, *_: object) -> None:
        """Write what was counted; called in the event loop's thread."""
        loop, process = time.thread_time() - self._began[0], time.process_time() - self._began[1]
        written = {
            "seconds": self.seconds,
            "requests": self.requests,
            "statements": self.statements,
            "loop": loop,
            "threads": process - loop,
        }
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(written))
        part.replace(self._path)

    def install(self) -> None:
        """Time all steps of event loops, count all statements, and listen to the signals."""
        run: Any = asyncio.Handle._run  # pyright: ignore[reportAttributeAccessIssue]

        def timed(handle: Any) -> None:
            started = time.thread_time()
            run(handle)
            # Read afterwards: a request's first step tells which it is.
            self.seconds[handle._context.get(_ROUTE, OUTSIDE)] += time.thread_time() - started

        setattr(asyncio.Handle, "_run", timed)  # noqa: B010 - the type checker knows no such name
        event.listen(Engine, "before_cursor_execute", self._count_statement)
        signal.signal(signal.SIGUSR1, self.begin)
        signal.signal(signal.SIGUSR2, self.end)

    def _count_statement(self, *_: object) -> None:
        self.statements[_ROUTE.get()] += 1


class Named:
    """Middleware that names the route in the request's context; leases by who asks for them."""

    def __init__(self, app: ASGIApp, accountant: Accountant) -> None:
        self._app = app
        self._accountant = accountant

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        route = _LEASE_ID.sub("/leases/ID/", scope["path"])
        if not route.endswith("/leases"):
            self._name(route)
            await self._app(scope, receive, send)
            return

        async def receive_named() -> Message:
            message = await receive()
            if message.get("body"):
                asked = json.loads(message["body"])
                waits = "waiting" if asked["wait_seconds"] else "at once"
                self._name(f"{route}, {asked['role']}, {waits}")
            return message

        await self._app(scope, receive_named, send)

    def _name(self, route: str) -> None:
        _ROUTE.set(route)
        self._accountant.requests[route] += 1


def install() -> None:
    """Let the gateway that this process serves keep an account."""
    accountant = Accountant(Path(os.environ[VARIABLE]))
    accountant.install()
    create_app = serve.create_app

    def create_named(*args: Any, **options: Any) -> FastAPI:
        app = create_app(*args, **options)
        app.add_middleware(Named, accountant=accountant)
        return app

    serve.create_app = create_named
    background.run = _named("background work", background.run)
    WaitingRoom.attend = _named("looks for those that wait", WaitingRoom.attend)


def _named(name: str, work: Callable[..., Coroutine[Any, Any, T]]) -> Any:
    async def named(*args: Any) -> T:
        _ROUTE.set(name)
        return await work(*args)

    return named


if __name__ == "__main__":
    install()
    main()
