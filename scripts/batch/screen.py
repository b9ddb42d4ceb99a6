"""What a run shows on a terminal, and the line a step that it writes elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

SHOWN_ERRORS = 5


class TerminalScreen:
    """Shows quotes as text and progress as bars; where nobody looks, a line for each new state.

    Args:
        console: on standard error, so that standard output stays for results.
        accept: says whether a price, in USD, is accepted.
    """

    def __init__(self, console: Console, accept: Callable[[Decimal], bool]) -> None:
        self._console = console
        self._accept = accept
        self._bar: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._state = ""

    @contextmanager
    def shown(self) -> Iterator["TerminalScreen"]:
        """Show bars inside of the block."""
        try:
            yield self
        finally:
            self._stop()

    def uploaded(self, done: int, total: int) -> None:
        """Show how many bytes are uploaded."""
        self._advance("upload", done, total)

    def fetched(self, name: str, done: int, total: int) -> None:
        """Show how many bytes of a file are there."""
        self._advance(name, done, total)

    def accept(self, quote: dict[str, Any]) -> bool:
        """Show a quote and ask whether to order it."""
        self._stop()
        for line in quote_lines(quote):
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        return self._accept(Decimal(quote["price_usd"]))

    def resumed(self, order: dict[str, Any]) -> None:
        """Say that the order was placed by an earlier run."""
        self._say(
            f"{order['batch_id']}: ordered before, and not again; another --out makes a new order"
        )

    def progressed(self, order: dict[str, Any]) -> None:
        """Show how far an order is."""
        state, progress = order["state"], order["progress"]
        if state != self._state:
            self._state = state
            self._say(f"{order['batch_id']}: {state}{_queue(order)}")
        self._advance("samples", progress["samples_verified"], progress["samples_total"])

    def waits(self, reason: str) -> None:
        """Say that the gateway does not answer for now."""
        if self._state != "waiting":
            self._state = "waiting"
            self._say(f"{reason}; trying again")

    def _say(self, line: str) -> None:
        console = self._console if self._bar is None else self._bar.console
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _advance(self, name: str, done: int, total: int) -> None:
        if not self._console.is_terminal:
            return
        if self._bar is None:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
                TimeElapsedColumn(),
            )
            self._bar = Progress(*columns, console=self._console)
            self._bar.start()
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(name, total=total)
        self._bar.update(self._tasks[name], completed=done, total=total)

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._bar, self._tasks = None, {}


def quote_lines(quote: dict[str, Any]) -> Iterator[str]:
    """Yield what a customer needs to know of a quote before ordering it."""
    counts = quote["counts"]
    yield f"model      {quote['model']} @ {quote['revision']}"
    yield (
        f"lines      {counts['lines'] - counts['lines_refused']:,} usable, "
        f"{counts['lines_refused']:,} refused"
    )
    for error in quote["line_errors"][:SHOWN_ERRORS]:
        name = f" ({error['custom_id']})" if error["custom_id"] else ""
        yield f"             line {error['line']}{name}: {error['code']}: {error['message']}"
    yield (
        f"samples    {counts['samples']:,}, up to {quote['sampling']['max_tokens']:,} tokens each; "
        f"{counts['prompt_tokens']:,} prompt tokens"
    )
    if quote.get("grader"):
        yield f"grader     {quote['grader']}"
    yield f"window     {quote['completion_window']}"
    yield (
        f"price      at most {quote['price_usd']} USD; "
        f"{quote['estimate']['price_usd']} USD where half of max_tokens is used"
    )


def _queue(order: dict[str, Any]) -> str:
    queue = order.get("queue")
    return "" if not queue else f", place {queue['queue_position']} in line"


def console() -> Console:
    """Return a console on standard error."""
    return Console(file=sys.stderr)
