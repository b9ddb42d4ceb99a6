"""``reliquary fetch``: a delivery into a folder."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scripts.cli.failure import reported

if TYPE_CHECKING:
    from scripts.fetch import Progress


def fetch(
    batch_id: Annotated[str, typer.Argument(help="The batch, batch_...")],
    out: Annotated[Path, typer.Option(help="Folder of the delivery; made where there is none.")],
    base_url: Annotated[
        str | None,
        typer.Option(envvar="RELIQUARY_BASE_URL", help="As the openai client takes it."),
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="RELIQUARY_API_KEY", help="Of the batch's account.")
    ] = None,
    env: Annotated[
        Path | None,
        typer.Option(help="File with base URL and key; reliquary.env where it is found."),
    ] = None,
) -> None:
    """Fetch output, errors, receipts and manifest of an ended batch, with sizes and hashes checked.

    What is there already is kept. Then: reliquary verify OUT --input FILE.
    """
    from scripts.batch.access import find_access
    from scripts.batch.gateway import BatchError
    from scripts.fetch import FetchError, tell_of_no_try
    from scripts.fetch import fetch as fetch_delivery

    tell_of_no_try()
    with reported(BatchError, FetchError, OSError):
        access = find_access(base_url, api_key, env)
        with _progress() as progress:
            manifest = fetch_delivery(access.base_url, access.api_key, batch_id, out, progress)
    counts = manifest.statement.counts
    typer.echo(
        f"{out}: {counts.samples_delivered:,} samples of {counts.samples_total:,}, "
        f"{manifest.statement.status}, signed by {manifest.gateway}"
    )
    typer.echo(f"check it:  reliquary verify {out} --input YOUR_FILE.jsonl")


@contextmanager
def _progress() -> "Iterator[Progress | None]":
    """Show a bar a file on standard error where somebody looks at it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        tasks = {}

        def show(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done)

        yield show
