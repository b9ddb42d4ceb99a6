r"""``boxed_math_v1``: the last box of a completion has the value of the reference.

The rule is ``docs/graders.md``; what needs the computer algebra system is given as an argument.
"""

from gateway.graders.answers import after_thinking, last_box
from gateway.graders.comparing import same
from gateway.graders.latex import plain
from gateway.graders.structured import Unreadable, structured
from gateway.graders.values import SameExpression, ValueRule, squeezed

MAX_CHARACTERS = 1_000


def grade(reference: str, completion: str, same_expression: SameExpression) -> bool:
    """Say whether a completion's last box answers its reference."""
    decided = by_text(reference, completion)
    return same_answer(*decided, same_expression) if isinstance(decided, tuple) else decided


def by_text(reference: str, completion: str) -> bool | tuple[str, str]:
    """Grade a completion by its text alone where that is enough.

    Returns:
        The grade; or the reference and the answer, which ``same_answer`` has to compare.
    """
    answer = last_box(after_thinking(completion))
    if answer is None or not answer.strip():
        return False
    boxed = last_box(reference)
    wanted = reference if boxed is None else boxed
    if squeezed(wanted) == squeezed(answer):
        return True
    if max(len(wanted), len(answer)) > MAX_CHARACTERS:
        return False
    return wanted, answer


def same_answer(reference: str, answer: str, same_expression: SameExpression) -> bool:
    """Say whether an answer of at most ``MAX_CHARACTERS`` has the value of its reference."""
    wanted, found = plain(reference), plain(answer)
    if not wanted or not found:
        return False
    try:
        pair = structured(wanted), structured(found)
    except Unreadable:
        return squeezed(wanted) == squeezed(found)
    return same(*pair, ValueRule(same_expression).same)
