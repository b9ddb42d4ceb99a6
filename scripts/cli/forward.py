"""Commands that read their own options: the rest of the command line goes on unread."""

import sys
from importlib import import_module

import typer

# For ``app.command(..., context_settings=REST)``: everything behind the command is its own.
REST = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def forward(module: str, context: typer.Context) -> None:
    """Run the ``main`` of ``module`` with the arguments behind the command."""
    sys.argv = [context.command_path, *context.args]
    import_module(module).main()
