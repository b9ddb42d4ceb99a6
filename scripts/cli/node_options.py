"""The options that all commands of a node share."""

import os
from pathlib import Path
from typing import Annotated

import typer

from scripts.cli.failure import WRONG_USE, Failure, reported

Gateway = Annotated[
    str | None,
    typer.Option("--gateway", help="The gateway's origin; else it is found on --chain."),
]
Hotkey = Annotated[
    Path | None,
    typer.Option("--hotkey", help="The hotkey file, made where there is none; needed."),
]
OfGateway = Annotated[
    str | None,
    typer.Option("--gateway-hotkey", help="The hotkey that the gateway must have."),
]
ChainText = Annotated[
    str | None, typer.Option("--chain", help="local:PATH or bittensor:NETWORK:NETUID.")
]
Models = Annotated[
    Path | None,
    typer.Option("--models", help="Folder of downloaded models; Hugging Face's cache."),
]
Env = Annotated[
    Path | None,
    typer.Option("--env", help="File of variables that setup wrote; set ones come first."),
]


def take_environment(file: Path | None) -> None:
    """Set the variables of a file that are not set yet, before anything reads them.

    Raises:
        Failure: the file is not there, or cannot be read.
    """
    from scripts.env_file import EnvFileError, read_environment

    if file is None:
        return
    if not file.is_file():
        raise Failure(f"--env: {file} is no file", WRONG_USE)
    with reported(EnvFileError):
        for name, value in read_environment(file).items():
            os.environ.setdefault(name, value)


def refuse_options_of_both(context: typer.Context) -> None:
    """Refuse options that stand before a command of the group, which would not see them.

    Raises:
        Failure: there are some.
    """
    given = [name for name, value in context.params.items() if value is not None]
    if given:
        option = given[0].replace("_", "-")
        command = context.invoked_subcommand
        raise Failure(f"--{option}: give the options of {command} after the word", WRONG_USE)
