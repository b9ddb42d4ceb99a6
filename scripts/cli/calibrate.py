"""``reliquary calibrate``: what margins the honest miners of a stack show."""

import typer

from scripts.cli.forward import forward


def calibrate(context: typer.Context) -> None:
    """Measure the honest margins of an engine before this machine's validator."""
    forward("scripts.calibrate.__main__", context)
