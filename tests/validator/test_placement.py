"""Which model a validator holds, given the demand board."""

import pytest

from protocol.messages import Demand, DemandBoard, LoadedModel
from validator.placement import choose

ARCHITECTURES = ("Qwen3ForCausalLM",)


def demand(name: str, samples: int, audits: int, architecture: str = ARCHITECTURES[0]) -> Demand:
    return Demand(
        model=f"org/{name}",
        revision="a" * 40,
        architecture=architecture,
        waiting_samples=samples,
        waiting_audits=audits,
        deadline=0.0,
    )


def commit(name: str) -> LoadedModel:
    return LoadedModel(model=f"org/{name}", revision="a" * 40)


@pytest.mark.parametrize(
    ("demands", "loaded", "expected"),
    [
        ([], None, None),
        ([], "a", None),
        ([demand("a", 0, 0)], None, None),
        ([demand("a", 0, 3), demand("b", 0, 9)], None, "a"),
        ([demand("a", 0, 3), demand("b", 0, 9)], "b", "b"),
        ([demand("a", 5, 0), demand("b", 0, 1)], None, "b"),
        ([demand("a", 5, 0), demand("b", 0, 1)], "a", "b"),
        ([demand("a", 5, 0), demand("b", 5, 0)], None, "a"),
        ([demand("a", 5, 0), demand("b", 5, 0)], "b", "b"),
        ([demand("x", 5, 5, "MambaForCausalLM"), demand("b", 1, 0)], None, "b"),
    ],
)
def test_choice(demands: list[Demand], loaded: str | None, expected: str | None):
    held = None if loaded is None else commit(loaded)
    chosen = choose(DemandBoard(demands=demands), held, ARCHITECTURES, ())
    assert chosen == (None if expected is None else commit(expected))


def test_a_commit_that_could_not_be_loaded_waits():
    board = DemandBoard(demands=[demand("a", 0, 3), demand("b", 0, 1)])
    assert choose(board, None, ARCHITECTURES, {commit("a")}) == commit("b")
