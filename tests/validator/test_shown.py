"""What rows show is the same wherever it is computed."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import numpy as np
import pytest
import torch

from protocol.draw.key import key_words
from protocol.messages import SampleReference, Stack, Work
from protocol.sampling import Sampling
from tests.support.profiles import ASSUMED
from validator import judge as judging
from validator.forward import Claim, ForwardFailed, Rows
from validator.judge import judge
from validator.shown import Shown, drawn_on_device, shown, shown_on_device
from validator.vllm_forward import VllmForward

ROWS, VOCABULARY = 24, 700
SAMPLINGS = [
    Sampling(),
    Sampling(temperature=0.6, top_k=20, top_p=0.95),
    Sampling(temperature=1.3, min_p=0.02),
]


def case() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits with four columns of padding, draw keys and positions."""
    random = np.random.default_rng(5)
    logits = (2 * random.standard_normal((ROWS, VOCABULARY + 4))).astype(np.float32)
    logits[3, 7] = np.nan
    keys = np.stack([key_words(sha256(b"%d" % row).digest()) for row in range(ROWS)])
    return logits, keys, np.arange(ROWS, dtype=np.uint32)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_tensor_forms_draw_the_same_ids(sampling: Sampling) -> None:
    logits, keys, positions = case()
    drawn = drawn_on_device(torch.from_numpy(logits), keys, positions, sampling, VOCABULARY)
    there = shown(torch.from_numpy(logits), np.abs(drawn), keys, positions, sampling, VOCABULARY)
    np.testing.assert_array_equal(drawn, there.drawn)
    assert drawn[3] == -1
    assert np.isnan(there.margins[3])
    assert not np.delete(there.margins, 3).any()
    assert not there.entropies.any()


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_rows_that_travel_show_the_same(sampling: Sampling, monkeypatch) -> None:
    # Three at once, two a thread.
    monkeypatch.setattr("validator.shown.TRAVEL_BYTES", 3 * 4 * VOCABULARY + 100)
    monkeypatch.setattr("validator.shown.TRAVEL_ROWS", 2)
    logits, keys, positions = case()
    claimed = np.argmax(np.nan_to_num(logits[:, :VOCABULARY], nan=-9), axis=1)
    rest = (torch.from_numpy(logits), claimed, keys, positions, sampling, VOCABULARY)
    here = shown(*rest)
    with ThreadPoolExecutor(2) as pool:
        there = shown_on_device(*rest, pool)
    assert (here.margins > 0).sum() > 6
    np.testing.assert_array_equal(here.drawn, there.drawn)
    np.testing.assert_array_equal(here.margins, there.margins)
    np.testing.assert_array_equal(here.entropies, there.entropies)


class Elsewhere:
    """A forward whose logits lie on a device of which nothing can be read."""

    vocabulary_size, threads = 8, 2

    def stack(self) -> Stack:
        return Stack(
            engine="transformers",
            version="1",
            dtype="float32",
            head_dtype="float32",
            device="cuda",
        )

    def hidden(
        self, prompts: Sequence[Sequence[int]], claims: Sequence[Claim], pack_tokens: int
    ) -> Iterator[Rows]:
        yield Rows(np.empty((3, 2)), np.zeros(3, np.int64), np.arange(3))

    def logits(self, hidden: np.ndarray) -> torch.Tensor:
        return torch.empty((len(hidden), self.vocabulary_size), device="meta")


WORK = Work(
    unit_id="00000000-0000-7000-8000-000000000001",
    model="reliquary/tiny-qwen3",
    revision="a" * 40,
    seed=7,
    sampling=Sampling(max_tokens=3),
    vocabulary_size=8,
    end_ids=[7],
    prompts=[[1]],
    samples=[SampleReference(prompt=0, sample_index=0)],
)


def judged() -> list:
    return list(judge(Elsewhere(), WORK, {0: [1, 2, 3]}, ASSUMED, 64, lambda _: None))


def test_a_device_that_gives_out_while_it_draws_fails_the_forward() -> None:
    with pytest.raises(ForwardFailed, match="meta"):
        judged()


def test_a_device_is_asked_in_the_thread_that_computed_there(monkeypatch) -> None:
    # vLLM gives each thread a stream of its own, which waits for no other thread's.
    asked = []

    def shown_there(_: torch.Tensor, claimed: np.ndarray, *__: object, **___: object) -> Shown:
        asked.append(threading.get_ident())
        return Shown(claimed, np.zeros(len(claimed)), np.zeros(len(claimed), np.float32))

    monkeypatch.setattr(judging, "shown_on_device", shown_there)
    ((_, verdict),) = judged()
    assert (verdict.outcome, verdict.mismatches) == ("verified", 0)
    assert asked == [threading.get_ident()]


def test_logits_lie_where_the_head_lies() -> None:
    # vLLM hands out the states of a GPU on the CPU.
    forward = VllmForward(None, torch.empty((5, 3), device="meta"))  # pyright: ignore[reportArgumentType]
    logits = forward.logits(torch.ones((2, 3), dtype=torch.bfloat16))
    assert (logits.device.type, logits.shape, logits.dtype) == ("meta", (2, 5), torch.float32)


@pytest.mark.gpu
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_gpu_shows_what_the_cpu_shows(sampling: Sampling) -> None:
    logits, keys, positions = case()
    claimed = np.argmax(np.nan_to_num(logits[:, :VOCABULARY], nan=-9), axis=1)
    rest = (claimed, keys, positions, sampling, VOCABULARY)
    here = shown(torch.from_numpy(logits), *rest)
    with ThreadPoolExecutor(2) as pool:
        there = shown_on_device(torch.from_numpy(logits).cuda(), *rest, pool)
    np.testing.assert_array_equal(here.drawn, there.drawn)
    np.testing.assert_array_equal(here.margins, there.margins)
    np.testing.assert_array_equal(here.entropies, there.entropies)
