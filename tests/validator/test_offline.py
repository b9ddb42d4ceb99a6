"""The offline audit on a real model: honest samples pass, cheats do not, failures blame nobody."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import torch

from protocol.messages import SampleVerdict, Stack, Work
from tests.support.profiles import ASSUMED, EXACT
from validator import judge as judging
from validator.forward import Claim, ForwardFailed, Rows
from validator.offline import audit
from validator.transformers_forward import TransformersForward

MakeWork = Callable[..., Work]
Generate = Callable[[Work], list[list[int]]]

SAMPLINGS = [
    {},
    {"temperature": 0.6, "top_k": 20, "top_p": 0.95},
    {"temperature": 1.4, "min_p": 0.05, "top_p": 0.8},
]


def outcomes(verdicts: Sequence[SampleVerdict]) -> list[str]:
    return [verdict.outcome for verdict in verdicts]


def resampled(work: Work, **changes: object) -> Work:
    return work.model_copy(update={"sampling": work.sampling.model_copy(update=changes)})


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_honest_samples_show_no_mismatch(
    sampling: dict, forward: TransformersForward, make_work: MakeWork, generate: Generate
):
    work = make_work(**sampling)
    samples = generate(work)
    verdicts = audit(work, samples, forward, ASSUMED)
    assert outcomes(verdicts) == ["verified"] * len(samples)
    assert [verdict.tokens for verdict in verdicts] == [len(ids) for ids in samples]
    assert all(verdict.mismatches == 0 for verdict in verdicts)
    assert all(verdict.largest_margin_micro == 0 for verdict in verdicts)


def test_packs_of_any_size_give_the_same_verdicts(
    forward: TransformersForward, make_work: MakeWork, generate: Generate
):
    work = make_work(prompts=4, per_prompt=3)
    samples = generate(work)
    samples[5] = generate(make_work(prompts=4, per_prompt=3, seed=8))[5]
    whole = audit(work, samples, forward, ASSUMED)
    assert outcomes(whole) == ["verified"] * 5 + ["void"] + ["verified"] * 6
    for pack_tokens in (64, 257):
        other = audit(work, samples, forward, ASSUMED, pack_tokens=pack_tokens)
        assert [verdict.model_copy(update={"largest_margin_micro": 0}) for verdict in other] == [
            verdict.model_copy(update={"largest_margin_micro": 0}) for verdict in whole
        ]


def wrong_seed(work: Work, generate: Generate) -> list[list[int]]:
    return generate(work.model_copy(update={"seed": work.seed + 1}))


def cooler(work: Work, generate: Generate) -> list[list[int]]:
    return generate(resampled(work, temperature=0.5))


def without_nucleus(work: Work, generate: Generate) -> list[list[int]]:
    return generate(resampled(work, top_p=1.0))


def another_prompt(work: Work, generate: Generate) -> list[list[int]]:
    prompts = [[1, *prompt] for prompt in work.prompts]
    return generate(work.model_copy(update={"prompts": prompts}))


def swapped(work: Work, generate: Generate) -> list[list[int]]:
    samples = generate(work)
    return samples[1:] + samples[:1]


def edited(work: Work, generate: Generate) -> list[list[int]]:
    random = np.random.default_rng(4)
    samples = generate(work)
    for ids in samples:
        for place in random.choice(len(ids) - 1, len(ids) // 8, replace=False):
            ids[place] = int(random.integers(0, 280))
    return samples


def never_ending(work: Work, generate: Generate) -> list[list[int]]:
    return generate(work.model_copy(update={"vocabulary_size": min(work.end_ids)}))


@pytest.mark.parametrize(
    ("cheat", "sampling", "share"),
    [
        (wrong_seed, {}, 1),
        (wrong_seed, {"temperature": 0.6, "top_k": 20, "top_p": 0.95}, 1),
        (cooler, {}, 1),
        (without_nucleus, {"top_p": 0.6}, 1),
        (another_prompt, {}, 1),
        (swapped, {}, 1),
        (edited, {}, 1),
        (never_ending, {"max_tokens": 250}, 0.8),
    ],
)
def test_cheats_are_void(
    cheat: Callable[[Work, Generate], list[list[int]]],
    sampling: dict,
    share: float,
    forward: TransformersForward,
    make_work: MakeWork,
    generate: Generate,
):
    # End ids that are never drawn leave every sample long enough for the fixed counts.
    work = make_work(prompts=3, per_prompt=2, **sampling)
    if cheat is not never_ending:
        work = work.model_copy(update={"end_ids": [VOID_END]})
    verdicts = audit(work, cheat(work, generate), forward, EXACT)
    assert outcomes(verdicts).count("void") >= share * len(verdicts)
    for verdict in verdicts:
        if verdict.outcome == "void":
            assert verdict.reason is not None
            assert verdict.position is not None
            assert verdict.position < verdict.tokens
            assert verdict.mismatches > 0
            assert verdict.largest_margin_micro > 250_000


VOID_END = 281


def test_an_early_end_is_the_last_position(
    forward: TransformersForward, make_work: MakeWork, generate: Generate
):
    work = make_work().model_copy(update={"end_ids": [VOID_END]})
    samples = [[*ids[: 40 + 7 * k], VOID_END] for k, ids in enumerate(generate(work))]
    verdicts = audit(work, samples, forward, ASSUMED)
    for ids, verdict in zip(samples, verdicts, strict=True):
        assert verdict.mismatches == 1
        if verdict.outcome == "void":
            assert verdict.position == len(ids) - 1
    # A single position judges an early end, and only a margin above 4 voids alone.
    assert outcomes(verdicts).count("void") >= 3


def test_structure_is_judged_before_arithmetic(
    forward: TransformersForward, make_work: MakeWork, generate: Generate
):
    work = make_work(prompts=3, per_prompt=1)
    samples = generate(work)
    samples[0] = [work.vocabulary_size, *samples[0]]
    samples[2] = samples[2][:-1]
    verdicts = audit(work, samples, forward, ASSUMED)
    assert outcomes(verdicts) == ["void", "verified", "void"]
    assert verdicts[0].reason == "an id outside the vocabulary"
    assert verdicts[2].reason == "fewer ids than max_tokens without an end id"
    short = audit(work, samples[:2], forward, ASSUMED)
    assert [verdict.reason for verdict in short] == ["a sample is missing"] * 3


def test_logits_that_are_not_finite_are_the_validators_fault(
    forward: TransformersForward, make_work: MakeWork, generate: Generate
):
    work = make_work(prompts=3, per_prompt=1)
    samples = generate(work)
    poisoned = work.prompts[1][0]
    assert all(poisoned not in [*work.prompts[k], *samples[k]] for k in (0, 2))
    with torch.inference_mode():
        forward._model.base_model.embed_tokens.weight.data = (
            forward._model.base_model.embed_tokens.weight.data.clone()
        )
        forward._model.base_model.embed_tokens.weight.data[poisoned] = float("nan")
    verdicts = audit(work, samples, forward, ASSUMED)
    assert outcomes(verdicts) == ["verified", "inconclusive", "verified"]
    assert verdicts[1].reason == judging.NOT_FINITE
    forward._weight = forward._weight.clone()
    forward._weight[3] = float("inf")
    assert outcomes(audit(work, samples, forward, ASSUMED)) == ["inconclusive"] * 3


def test_a_unit_that_does_not_fit_the_model_blames_nobody(
    forward: TransformersForward, make_work: MakeWork, generate: Generate
):
    work = make_work(prompts=2, per_prompt=1)
    samples = generate(work)
    foreign = work.model_copy(update={"prompts": [work.prompts[0], [5_000]]})
    verdicts = audit(foreign, samples, forward, ASSUMED)
    assert outcomes(verdicts) == ["inconclusive"] * 2
    assert "does not fit the model" in (verdicts[0].reason or "")


class Watched:
    """The real forward behind a fault: packs above ``limit`` tokens, or a prompt, do not pass.

    Stands for a device whose memory gives out; records the logits asked for.
    """

    def __init__(
        self, forward: TransformersForward, limit: int = 10**9, broken: Sequence[int] | None = None
    ) -> None:
        self._forward = forward
        self._limit = limit
        self._broken = broken
        self.tables: list[int] = []
        self.packs: list[int] = []

    @property
    def vocabulary_size(self) -> int:
        return self._forward.vocabulary_size

    @property
    def threads(self) -> int:
        return 3

    def stack(self) -> Stack:
        return self._forward.stack()

    def hidden(
        self, prompts: Sequence[Sequence[int]], claims: Sequence[Claim], pack_tokens: int
    ) -> Iterator[Rows]:
        self.packs.append(pack_tokens)
        if pack_tokens > self._limit:
            raise ForwardFailed("out of memory")
        if any(prompts[claim.prompt] == self._broken for claim in claims):
            raise ForwardFailed("broken")
        yield from self._forward.hidden(prompts, claims, pack_tokens)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        logits = self._forward.logits(hidden)
        self.tables.append(logits.nbytes)
        return logits


def test_the_table_of_logits_is_bounded(
    forward: TransformersForward,
    make_work: MakeWork,
    generate: Generate,
    monkeypatch: pytest.MonkeyPatch,
):
    work = make_work(prompts=2, per_prompt=2)
    samples = generate(work)
    watched = Watched(forward)
    whole = audit(work, samples, watched, ASSUMED)
    assert max(watched.tables) <= judging.LOGITS_BYTES["cpu"]
    bound = 7 * 4 * forward.vocabulary_size + 3
    monkeypatch.setitem(judging.LOGITS_BYTES, "cpu", bound)
    watched = Watched(forward)
    assert audit(work, samples, watched, ASSUMED) == whole
    assert max(watched.tables) <= bound
    tokens = sum(map(len, samples))
    assert sum(watched.tables) == tokens * 4 * forward.vocabulary_size


def test_a_lack_of_memory_is_tried_again_in_smaller_packs(
    forward: TransformersForward, make_work: MakeWork, generate: Generate
):
    work = make_work()
    watched = Watched(forward, limit=256)
    verdicts = audit(work, generate(work), watched, ASSUMED, pack_tokens=2_048)
    assert outcomes(verdicts) == ["verified"] * 6
    assert watched.packs == [2_048, 256, 256, 256]


def test_what_fails_again_is_inconclusive_alone(
    forward: TransformersForward, make_work: MakeWork, generate: Generate
):
    work = make_work()
    watched = Watched(forward, broken=work.prompts[1])
    verdicts = audit(work, generate(work), watched, ASSUMED)
    assert outcomes(verdicts) == ["verified"] * 2 + ["inconclusive"] * 2 + ["verified"] * 2
    assert verdicts[2].reason == "the forward failed: broken"
    assert verdicts[2].mismatches == 0


def test_progress_counts_every_token_once(
    forward: TransformersForward, make_work: MakeWork, generate: Generate
):
    work = make_work()
    samples = generate(work)
    seen: list[int] = []
    audit(work, samples, forward, ASSUMED, progress=seen.append)
    assert sum(seen) == sum(map(len, samples))
