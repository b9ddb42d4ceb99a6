"""Profiles for tests: with given honest masses, and the one that is assumed."""

from collections.abc import Sequence

import numpy as np

from protocol.messages import Stack
from scoring.profile import BINS, Profile, Stratum
from scoring.published import chosen
from scripts.calibrate.bounds import tail_bounds


def made_profile(tokens: Sequence[int], masses: Sequence[np.ndarray]) -> Profile:
    """Return a profile of one stratum a row, each with so many tokens spread as ``masses``."""
    strata = []
    for place, (total, row) in enumerate(zip(tokens, masses, strict=True)):
        counts = np.floor(np.array(row) * total).astype(int)
        counts[0] += total - counts.sum()
        strata.append(
            Stratum(
                entropy_below_micro=None if place == len(tokens) - 1 else (place + 1) * 500_000,
                tokens=total,
                counts=tuple(counts.tolist()),
                tails=tuple(tail_bounds(counts.tolist(), 0.01 / len(tokens))),
            )
        )
    return Profile(
        family="*",
        miner=None,
        validator=None,
        measured="2026-01-01",
        model="made up",
        confidence_percent=99,
        strata=tuple(strata),
    )


# What judges where nothing was measured: any model, any pair of stacks.
_ANY = Stack(engine="transformers", version="0", dtype="auto", head_dtype="auto", device="cpu")
ASSUMED = chosen("nobody/nothing", _ANY, _ANY)
# Float32 on both sides: no margin in so many tokens.
EXACT = made_profile([200_000], [np.eye(BINS)[0]])
