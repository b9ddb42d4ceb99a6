"""Several miners on one engine, over a real socket. The engine is a fake: it answers with the
work's seed, and waits to be cancelled where that is ``ENDLESS``."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from miner.engines.base import (
    Cancelled,
    EngineError,
    EngineSettings,
    GenerationCancelled,
    Progress,
    UnitRefused,
)
from protocol.messages import SampleReference, Stack, Work
from protocol.sampling import Sampling
from scripts.shared_engine.client import VARIABLE, SharedEngine
from scripts.shared_engine.server import SharedEngines, accept

STACK = Stack(
    engine="transformers", version="0", dtype="float32", head_dtype="float32", device="cpu"
)
REFUSED, ENDLESS = 1, 2


class SeedEngine:
    at_work = 0
    most_at_work = 0
    loads = 0

    def load(self, folder: Path, model: str, revision: str, settings: EngineSettings) -> None:
        if model == "none":
            raise EngineError("no such model")
        SeedEngine.loads += 1

    def stack(self) -> Stack:
        return STACK

    def generate(self, work: Work, progress: Progress, cancelled: Cancelled) -> list[list[int]]:
        SeedEngine.at_work += 1
        SeedEngine.most_at_work = max(SeedEngine.most_at_work, SeedEngine.at_work)
        try:
            if work.seed == REFUSED:
                raise UnitRefused("too long")
            while work.seed == ENDLESS:
                if cancelled():
                    raise GenerationCancelled("the unit was given up")
                time.sleep(0.01)
            time.sleep(0.02)
            progress(64)
            return [[work.seed]]
        finally:
            SeedEngine.at_work -= 1

    def close(self) -> None:
        pass


Client = Callable[[str], SharedEngine]


@pytest.fixture
def client(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Client]:
    SeedEngine.loads = SeedEngine.most_at_work = 0
    made: list[SharedEngine] = []
    path = tmp_path_factory.mktemp("e") / "s"
    monkeypatch.setenv(VARIABLE, str(path))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        threading.Thread(
            target=accept, args=(SharedEngines(SeedEngine), listening), daemon=True
        ).start()

        def loaded(model: str) -> SharedEngine:
            engine = SharedEngine()
            made.append(engine)
            engine.load(path.parent, model, "a" * 40, EngineSettings())
            return engine

        yield loaded
        for engine in made:
            engine.close()


def generate(engine: SharedEngine, seed: int, cancelled: Cancelled = lambda: False) -> list:
    work = Work(
        unit_id="01234567-89ab-7def-8123-456789abcdef",
        model="reliquary/tiny-qwen3",
        revision="a" * 40,
        seed=seed,
        sampling=Sampling(max_tokens=64),
        vocabulary_size=100,
        end_ids=[90],
        prompts=[[1, 2, 3]],
        samples=[SampleReference(prompt=0, sample_index=0)],
    )
    return engine.generate(work, lambda tokens: None, cancelled)


def test_miners_share_one_copy_and_take_turns(client: Client):
    engines = [client("m") for _ in range(4)]
    answers: dict[int, list] = {}
    threads = [
        threading.Thread(target=lambda n=n, e=e: answers.update({n: generate(e, n)}))
        for n, e in enumerate(engines, 10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {seed: [[seed]] for seed in range(10, 14)}
    assert (SeedEngine.loads, SeedEngine.most_at_work) == (1, 1)
    assert engines[0].stack() == STACK


def test_what_the_engine_refuses_reaches_its_miner_alone(client: Client):
    with pytest.raises(EngineError, match="no such model"):
        client("none")
    engine = client("m")
    with pytest.raises(UnitRefused, match="too long"):
        generate(engine, REFUSED)
    assert generate(engine, 10) == [[10]]


def test_a_unit_that_is_given_up_frees_the_engine(client: Client):
    engine = client("m")
    with pytest.raises(GenerationCancelled):
        generate(engine, ENDLESS, lambda: True)
    assert generate(engine, 10) == [[10]]
    # A miner that is gone gives up too.
    gone = client("m")
    with pytest.raises((EngineError, OSError, ValueError)):
        generate(gone, ENDLESS, lambda: gone.close() or False)
    assert generate(engine, 11) == [[11]]


def test_without_a_shared_engine_the_miner_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv(VARIABLE, raising=False)
    load = (tmp_path, "m", "a" * 40, EngineSettings())
    with pytest.raises(EngineError, match=VARIABLE):
        SharedEngine().load(*load)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nobody"))
    with pytest.raises(EngineError, match="no shared engine answers"):
        SharedEngine().load(*load)
