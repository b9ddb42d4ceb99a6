"""The model's process: real children, one of them killed in the middle of an audit."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from protocol.messages import SampleVerdict, Work
from scripts.hub.server import HubServer
from scripts.hub.store import publish
from tests.support.profiles import ASSUMED
from validator.audit import audit_by
from validator.forward import UnsupportedModel
from validator.model_process import AuditCancelled, ModelProcess
from validator.worker import Load

MakeWork = Callable[..., Work]
Generate = Callable[[Work], list[list[int]]]
NAME = "reliquary/random"


@pytest.fixture(scope="module")
def hub(random_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    """Serve the random model on a local hub; yield how a process is told to load it."""
    folder = tmp_path_factory.mktemp("hub")
    with HubServer(folder / "hub") as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_ENDPOINT", server.url)
        revision = publish(folder / "hub", NAME, random_model)
        yield Load(NAME, revision, folder / "models", "transformers", "float32", "cpu", 1)


@pytest.fixture(scope="module")
def process(hub: Load) -> Iterator[ModelProcess]:
    """Return a running process; it survives whatever a test does to its child."""
    process = ModelProcess(hub)
    process.start()
    yield process
    process.close()


def test_a_child_audits_and_counts(process: ModelProcess, make_work: MakeWork, generate: Generate):
    assert process.stack is not None
    assert (process.stack.dtype, process.stack.head_dtype) == ("float32", "float32")
    work = make_work()
    samples = generate(work)
    process.begin()
    verdicts = audit_by(
        work,
        samples,
        process.vocabulary,
        lambda part, budget: process.judged(work, part, ASSUMED, budget),
    )
    assert [verdict.outcome for verdict in verdicts] == ["verified"] * 6
    assert process.tokens == sum(map(len, samples))


def test_a_killed_child_is_replaced_and_nobody_blamed(
    process: ModelProcess, make_work: MakeWork, generate: Generate
):
    work = make_work()
    first = process._child
    assert first is not None

    def judged(part: dict, budget: int) -> Iterator[tuple[int, SampleVerdict]]:
        for number, found in enumerate(process.judged(work, part, ASSUMED, budget)):
            if number == 0 and process._child is first:
                assert first.pid is not None
                os.kill(first.pid, signal.SIGKILL)
            yield found

    process.begin()
    verdicts = audit_by(work, generate(work), process.vocabulary, judged, pack_tokens=128)
    # A quick child may have answered all before it died; then the next unit meets the dead one.
    short = make_work(prompts=1, per_prompt=1)
    verdicts += audit_by(short, generate(short), process.vocabulary, judged)
    assert [verdict.outcome for verdict in verdicts] == ["verified"] * 7
    assert process._child is not first


def test_a_child_that_always_dies_leaves_inconclusive(
    process: ModelProcess, make_work: MakeWork, generate: Generate
):
    work = make_work(prompts=1, per_prompt=2)

    process.begin()
    # A pack of no tokens stands for whatever a child cannot survive.
    verdicts = audit_by(
        work,
        generate(work),
        process.vocabulary,
        lambda part, budget: process.judged(work, part, ASSUMED, 0),
    )
    assert [verdict.outcome for verdict in verdicts] == ["inconclusive"] * 2
    assert verdicts[0].reason == "the forward failed: the model's process ended with 1"
    assert verdicts[0].mismatches == 0


def test_cancel_ends_an_audit(process: ModelProcess, make_work: MakeWork, generate: Generate):
    work = make_work()
    process.begin()
    found = process.judged(work, dict(enumerate(generate(work))), ASSUMED, 64)
    next(found)
    process.cancel()
    with pytest.raises(AuditCancelled):
        list(found)
    process.begin()
    again = process.judged(work, dict(enumerate(generate(work))), ASSUMED, 4_096)
    assert len(list(again)) == 6


def test_a_model_that_is_not_there_is_refused(hub: Load):
    absent = ModelProcess(replace(hub, model="reliquary/absent"))
    with pytest.raises(UnsupportedModel, match="absent"):
        absent.start()
    absent.close()


def test_close_ends_the_child_for_good(process: ModelProcess, make_work: MakeWork):
    child = process._child
    process.close()
    assert child is None or not child.is_alive()
    with pytest.raises(AuditCancelled):
        list(process.judged(make_work(), {0: [290]}, ASSUMED, 64))
