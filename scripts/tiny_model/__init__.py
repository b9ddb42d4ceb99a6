"""A tiny Qwen3 that the project trains itself, so that the whole network runs on any laptop."""

from pathlib import Path

WEIGHTS = Path(__file__).parent / "weights"
