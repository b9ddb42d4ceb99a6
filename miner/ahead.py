"""When a miner fetches its next lease while it still generates: pure policy."""

NEAR_END = 0.8


def is_near_end(tokens: int, samples: int, max_tokens: int, mean_tokens: float | None) -> bool:
    """Say whether a unit is so far that the next may be fetched.

    Sooner would keep work from miners that are free; later would leave the engine idle.

    Args:
        tokens: generated so far.
        samples, max_tokens: of the unit.
        mean_tokens: of a sample in earlier units; None where there were none.
    """
    longest = float(samples * max_tokens)
    expected = longest if mean_tokens is None else min(longest, samples * mean_tokens)
    return tokens >= NEAR_END * expected
