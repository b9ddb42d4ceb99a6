"""The job of a grading process: answers compared with their references, each within limits."""

from collections.abc import Sequence
from functools import partial

from gateway.graders.boxed_math import same_answer
from gateway.graders.limits import bound_memory, within_limits


def compare_answers(pairs: Sequence[tuple[str, str]]) -> list[bool]:
    """Say of each reference and answer, as they stand in their boxes, whether they are the same."""
    # Takes a second and much memory, which the gateway's own process need not spend.
    from gateway.graders.expressions import same_expression

    bound_memory()
    return [within_limits(partial(same_answer, *pair, same_expression)) for pair in pairs]
