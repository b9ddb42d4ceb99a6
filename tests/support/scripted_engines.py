"""Engines for tests of the node. Fake: no model; every sample counts 0, 1, 2, ... at a set pace."""

import os
import time
from pathlib import Path

from miner.engines.base import Cancelled, EngineSettings, GenerationCancelled, Progress
from protocol.messages import Stack, Work

TOKEN_SECONDS = 0.02


class Counting:
    def load(self, folder: Path, model: str, revision: str, settings: EngineSettings) -> None:
        assert (folder / "model.safetensors").is_file()

    def stack(self) -> Stack:
        return Stack(
            engine="transformers", version="0", dtype="float32", head_dtype="float32", device="cpu"
        )

    def generate(self, work: Work, progress: Progress, cancelled: Cancelled) -> list[list[int]]:
        for token in range(work.sampling.max_tokens):
            if cancelled():
                raise GenerationCancelled("given up")
            time.sleep(TOKEN_SECONDS)
            progress(token * len(work.samples))
        return [list(range(work.sampling.max_tokens)) for _ in work.samples]

    def close(self) -> None:
        pass


class CrashingOnce(Counting):
    """Dies in its first generation; the mark that it did lies at ``CRASH_MARK``."""

    def generate(self, work: Work, progress: Progress, cancelled: Cancelled) -> list[list[int]]:
        mark = Path(os.environ["CRASH_MARK"])
        if not mark.exists():
            mark.touch()
            os._exit(3)
        return super().generate(work, progress, cancelled)
