"""vLLM's prefill as the audit's forward: a real vLLM in a process of its own."""

from collections.abc import Iterator

import pytest

from protocol.documents import work_keys
from protocol.draw.reference import draw
from protocol.messages import SampleReference, Work
from protocol.repository import read_facts
from protocol.sampling import Sampling
from scripts.hub.server import HubServer
from scripts.hub.store import publish
from scripts.tiny_model import WEIGHTS
from tests.support.profiles import ASSUMED
from validator.audit import audit_by
from validator.forward import Claim
from validator.model_process import ModelProcess
from validator.transformers_forward import load
from validator.worker import Load

NAME = "reliquary/tiny-qwen3"
LENGTH = 40


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelProcess]:
    """Yield the tiny model in a running process on vLLM."""
    folder = tmp_path_factory.mktemp("vllm-forward")
    with HubServer(folder / "hub") as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_ENDPOINT", server.url)
        revision = publish(folder / "hub", NAME, WEIGHTS)
        process = ModelProcess(Load(NAME, revision, folder / "models", "vllm", "float32", "cpu", 1))
        process.start()
        yield process
        process.close()


@pytest.fixture(scope="module")
def work() -> Work:
    """Two prompts, one of a single id, with three samples each."""
    facts = read_facts(WEIGHTS, NAME, "a" * 40)
    return Work(
        unit_id="00000000-0000-7000-8000-000000000001",
        model=NAME,
        revision="a" * 40,
        seed=7,
        sampling=Sampling(temperature=0.8, top_k=50, max_tokens=LENGTH),
        vocabulary_size=facts.vocabulary_size,
        # Samples here end where the test ends them.
        end_ids=[facts.vocabulary_size - 1],
        prompts=[[5], list(range(20, 60))],
        samples=[SampleReference(prompt=p, sample_index=k) for p in range(2) for k in range(3)],
    )


@pytest.fixture(scope="module")
def samples(work: Work) -> list[list[int]]:
    """Return honest samples, drawn by the reference from transformers' logits."""
    forward, found = load(WEIGHTS, "float32"), []
    for key, sample in zip(work_keys(work), work.samples, strict=True):
        ids: list[int] = []
        while len(ids) < work.sampling.max_tokens:
            # The last of the rows predicts the id that is claimed after all that stand.
            (rows,) = forward.hidden(work.prompts, [Claim(sample.prompt, [*ids, 0])], 4_096)
            logits = forward.logits(rows.hidden)[-1, : work.vocabulary_size].numpy()
            ids.append(draw(logits, key, len(ids), work.sampling))
        found.append(ids)
    return found


def judged(process: ModelProcess, work: Work, samples: list[list[int]], pack: int) -> list[str]:
    process.begin()
    verdicts = audit_by(
        work,
        samples,
        process.vocabulary,
        lambda part, budget: process.judged(work, part, ASSUMED, budget),
        pack,
    )
    assert all(verdict.tokens == len(ids) for verdict, ids in zip(verdicts, samples, strict=True))
    return [verdict.outcome for verdict in verdicts]


# In one batch, and each sample a batch of its own.
@pytest.mark.parametrize("pack", [4_096, 16])
def test_honest_samples_pass_and_one_changed_id_does_not(
    process: ModelProcess, work: Work, samples: list[list[int]], pack: int
):
    assert process.stack is not None
    assert (process.stack.engine, process.stack.head_dtype) == ("vllm", "float32")
    assert judged(process, work, samples, pack) == ["verified"] * 6

    changed = [list(ids) for ids in samples]
    changed[4][11] = (changed[4][11] + 1_000) % work.vocabulary_size
    assert judged(process, work, changed, pack) == ["verified"] * 4 + ["void", "verified"]
