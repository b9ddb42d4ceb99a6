"""How fast models of a size are generated with, and whether an order can be done in its window."""

from gateway.errors import GatewayError

# Completion tokens a second of one node with 8 GPUs and full batches, by parameters up to which.
SPEEDS = (
    (2 * 10**9, 60_000.0),
    (5 * 10**9, 40_000.0),
    (10 * 10**9, 25_000.0),
    (35 * 10**9, 10_000.0),
    (80 * 10**9, 5_000.0),
)
SLOWEST = 2_000.0
_HOUR_SECONDS = 3_600


def speed_of(parameters: int) -> float:
    """Return the tokens a second that a model of so many parameters is expected to give."""
    return next((speed for most, speed in SPEEDS if parameters <= most), SLOWEST)


def check_deadline(model: str, samples: int, max_tokens: int, speed: float, hours: int) -> None:
    """Refuse an order whose worst case does not fit its window.

    Args:
        model: its name, for the error.
        samples: of the whole order, each of which may come to ``max_tokens``.
        speed: tokens a second.
        hours: the completion window.

    Raises:
        GatewayError: 422 ``exceeds_generation_deadline``.
    """
    most = samples * max_tokens
    needed = most / speed / _HOUR_SECONDS
    if needed > hours:
        raise GatewayError(
            422,
            "exceeds_generation_deadline",
            f"{samples:,} samples of up to {max_tokens:,} tokens each may come to {most:,} tokens, "
            f"which take {needed:,.1f} hours with {model}; the completion window is {hours} hours. "
            "Order fewer lines or samples, a smaller max_tokens or a longer window.",
        )
