"""A tiny Qwen3 that the project trains itself, so that the whole network runs on any laptop."""
