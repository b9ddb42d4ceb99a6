"""Which model a miner holds."""

import pytest

from miner.placement import choose
from protocol.messages import Demand, LoadedModel

ARCHITECTURES = ("Qwen3ForCausalLM",)


def model(name: str) -> LoadedModel:
    return LoadedModel(model=f"org/{name}", revision="a" * 40)


def demand(name: str, samples: int = 5, architecture: str = "Qwen3ForCausalLM") -> Demand:
    return Demand(
        model=f"org/{name}",
        revision="a" * 40,
        architecture=architecture,
        waiting_samples=samples,
        waiting_audits=3,
        deadline=0.0,
    )


@pytest.mark.parametrize(
    ("board", "loaded", "avoided", "may_switch", "chosen"),
    [
        ([], None, [], False, None),
        ([demand("a"), demand("b")], None, [], False, "a"),
        # Sticky: the loaded model stays while work for it waits, however urgent the others are.
        ([demand("a"), demand("b")], "b", [], False, "b"),
        ([demand("a"), demand("b")], "b", [], True, "a"),
        # Its work may be meant for others: with nothing else to do it stays.
        ([demand("b")], "b", [], True, "b"),
        # Without work for it, it is given time before another is loaded.
        ([demand("a")], "b", [], False, None),
        ([demand("a")], "b", [], True, "a"),
        ([demand("a"), demand("b")], None, ["a"], False, "b"),
        ([demand("a")], None, ["a"], False, None),
        ([demand("a", samples=0), demand("b")], None, [], False, "b"),
        ([demand("a", architecture="Other"), demand("b")], None, [], False, "b"),
    ],
)
def test_choice(board, loaded, avoided, may_switch, chosen):
    held = None if loaded is None else model(loaded)
    avoided = [model(name) for name in avoided]
    expected = None if chosen is None else model(chosen)
    assert choose(board, held, ARCHITECTURES, avoided, may_switch) == expected
