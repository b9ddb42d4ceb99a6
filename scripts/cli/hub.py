"""``reliquary hub`` and ``reliquary tiny-model``."""

from pathlib import Path
from typing import Annotated

import typer

from scripts.cli.failure import reported
from scripts.cli.forward import forward


def hub(
    data: Annotated[Path, typer.Option(help="Folder of <org>/<name>/ repositories.")],
    port: Annotated[int, typer.Option(min=0, max=65_535)] = 8_790,
    host: Annotated[str, typer.Option()] = "127.0.0.1",
) -> None:
    """Serve models from a folder as the Hugging Face hub would; HF_ENDPOINT points here."""
    from scripts.hub import HubError, serve

    with reported(HubError, OSError):
        serve(data, host, port)


def tiny_model(context: typer.Context) -> None:
    """Train the tiny model; --help shows its options."""
    forward("scripts.tiny_model.train", context)
