"""The ``reliquary`` command line. Importing it imports no torch, vllm, bittensor or fastapi."""

from scripts.cli.app import main

__all__ = ["main"]
