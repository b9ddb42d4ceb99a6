"""The profiles that ship with this version, and which of them judges a sample.

A miner's declared stack can only choose among these. Where none was measured for a model and a pair
of stacks, one that is assumed stands in: its bounds are wider than any that were measured, so that
it voids less than a measured one would, and it never convicts.
"""

from collections.abc import Hashable
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib.resources import files
from typing import cast

from protocol.messages import Stack
from scoring.profile import Profile, Side

ANY = "*"


@cache
def published() -> tuple[Profile, ...]:
    """Return every profile of this version."""
    folder = files("scoring") / "profiles"
    texts = [file.read_text() for file in folder.iterdir() if file.name.endswith(".json")]
    return tuple(Profile.model_validate_json(text) for text in texts)


def chosen(model: str, miner: Stack, validator: Stack) -> Profile:
    """Return the profile that judges what ``miner`` claims of ``model`` before ``validator``.

    The one that says most of model and stacks; names of families are patterns as a shell has them.
    """
    fitting = [one for one in published() if _fits(one, model, miner, validator)]
    return max(fitting, key=_says)


def is_measured(model: str, miner: Stack, validator: Stack) -> bool:
    """Say whether honest samples of these stacks were measured, in number enough to convict by."""
    return chosen(model, miner, validator).convicts


def is_vouched_for(model: str) -> bool:
    """Say whether enough was measured of a model's family, under whatever stacks.

    Then its weights are known to be well-conditioned, which no customer's choice of a model is.
    """
    return any(one.convicts and fnmatchcase(model, one.family) for one in published())


def assumed() -> Profile:
    """Return the profile that stands in where none was measured."""
    return next(one for one in published() if one.tokens == 0)


def side_of(stack: Stack, exact: bool = False) -> Side:
    """Return what of a stack tells its arithmetic from others'.

    Args:
        stack: as a node declares it.
        exact: down to the build and the kernels, so that it is of no other stack.
    """
    side = Side(
        engine=stack.engine,
        dtype=stack.dtype,
        head_dtype=stack.head_dtype,
        device="cpu" if stack.device == "cpu" else "gpu",
    )
    if not exact:
        return side
    beneath = {"version": stack.version, "kernels": stack.kernels, "parallelism": stack.parallelism}
    return side.model_copy(update=beneath)


def _fits(profile: Profile, model: str, miner: Stack, validator: Stack) -> bool:
    return (
        fnmatchcase(model, profile.family)
        and _covers(profile.miner, miner)
        and _covers(profile.validator, validator)
    )


def _covers(side: Side | None, stack: Stack) -> bool:
    return side is None or side in _sides(cast(Hashable, stack))


# Of every lease all miners are asked for, whose stacks are few.
@lru_cache(maxsize=4_096)
def _sides(stack: Hashable) -> tuple[Side, Side]:
    declared = cast(Stack, stack)
    return side_of(declared), side_of(declared, exact=True)


def _says(profile: Profile) -> tuple[int, int, int, str]:
    """Rank a profile by how much it says; ties, which nobody should publish, go by digest."""
    sides = (profile.miner, profile.validator)
    return (
        len(profile.family.replace(ANY, "")),
        sum(0 if side is None else 1 + side.is_exact for side in sides),
        profile.tokens,
        profile.digest,
    )
