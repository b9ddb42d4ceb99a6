"""What the board offers a validator."""

from protocol.messages import Demand, DemandBoard, LoadedModel
from protocol.placement import Offer
from validator.placement import offers

ARCHITECTURES = ("Qwen3ForCausalLM",)


def demand(name: str, architecture: str = ARCHITECTURES[0], **values: int) -> Demand:
    return Demand(
        model=f"org/{name}",
        revision="a" * 40,
        architecture=architecture,
        waiting_samples=5,
        waiting_audits=3,
        deadline=9.0,
        **values,
    )


def commit(name: str) -> LoadedModel:
    return LoadedModel(model=f"org/{name}", revision="a" * 40)


def test_offers_are_of_what_it_computes_and_what_is_coming_counts():
    board = DemandBoard(
        demands=[
            demand("a", waiting_tokens=500, audit_tokens=7, leased_tokens=8, validators=2),
            demand("b", architecture="MambaForCausalLM"),
            demand("c"),
            demand("d"),
        ]
    )
    assert offers(board, ARCHITECTURES, {commit("c")}) == [
        Offer(commit("a"), ready=7, coming=508, holders=2, deadline=9.0),
        Offer(commit("d"), ready=3, coming=5, holders=0, deadline=9.0),
    ]
