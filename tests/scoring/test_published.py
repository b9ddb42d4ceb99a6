"""Which profile judges: the one that says most of the two stacks, and an exact one no other."""

import numpy as np
import pytest
from pydantic import ValidationError

from protocol.messages import Stack
from scoring.profile import BINS, Profile, Side
from scoring.published import chosen, published, side_of
from tests.support.profiles import ASSUMED, made_profile

STACK = Stack(
    engine="vllm",
    version="0.32.0",
    dtype="bfloat16",
    head_dtype="float32",
    device="cpu",
    kernels="torch 2.13.0+cpu, AVX512 avx512_bf16, CPU_ATTN eager",
)
MODEL = "reliquary/tiny-qwen3"
BENEATH = {"version": "0.31.0", "kernels": "torch 2.13.0+cpu, AVX2, CPU_ATTN eager"}


def of(miner: Side, validator: Side) -> Profile:
    made = made_profile([90_000], [np.eye(BINS)[0]])
    return made.model_copy(update={"family": MODEL, "miner": miner, "validator": validator})


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> tuple[Profile, Profile]:
    """Publish a profile of a kind of stacks and one of exact stacks, in that order."""
    kind, exact = (of(side_of(STACK, way), side_of(STACK, way)) for way in (False, True))
    monkeypatch.setattr("scoring.published.published", lambda: (kind, ASSUMED, exact))
    return kind, exact


def test_the_exact_profile_judges_its_own_stacks(both: tuple[Profile, Profile]) -> None:
    assert chosen(MODEL, STACK, STACK) == both[1]


@pytest.mark.parametrize(
    "change", [*({name: BENEATH[name]} for name in BENEATH), {"parallelism": 2}]
)
@pytest.mark.parametrize("side", [0, 1])
def test_any_other_build_is_judged_as_its_kind(
    both: tuple[Profile, Profile], change: dict, side: int
) -> None:
    stacks = [STACK, STACK]
    stacks[side] = STACK.model_copy(update=change)
    assert chosen(MODEL, *stacks) == both[0]


def test_other_engines_and_models_are_judged_as_assumed(both: tuple[Profile, Profile]) -> None:
    assert chosen(MODEL, STACK.model_copy(update={"engine": "transformers"}), STACK) == ASSUMED
    assert chosen("a-customer/model", STACK, STACK) == ASSUMED


def test_a_side_names_all_that_lies_beneath_or_nothing() -> None:
    words = {"engine": "vllm", "dtype": "bfloat16", "head_dtype": "float32", "device": "cpu"}
    assert Side.model_validate(words).model_dump() == words
    with pytest.raises(ValidationError, match="or none of them"):
        Side.model_validate({**words, "kernels": "some"})


def test_what_ships_is_read_as_it_was_measured() -> None:
    for profile in published():
        assert Profile.model_validate_json(profile.model_dump_json()) == profile
    kinds = [(one.family, one.miner, one.validator) for one in published()]
    assert len(set(kinds)) == len(kinds)
