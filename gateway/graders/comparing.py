"""Whether two answers of any structure are the same (``docs/graders.md``, section 9). Pure."""

from collections.abc import Callable, Sequence

from gateway.graders.structure import Answer, Bag, Grid, Row, Union, Value

SameValue = Callable[[Value, Value], bool]
"""Says whether a single value of an answer is that of its reference, which comes first."""


def same(reference: Answer, answer: Answer, same_value: SameValue) -> bool:
    """Say whether an answer is its reference; ``same_value`` compares the single values."""

    def equal(left: Answer, right: Answer) -> bool:
        return same(left, right, same_value)

    match reference, answer:
        case Value(), Value():
            named_apart = reference.name and answer.name and reference.name != answer.name
            return not named_apart and same_value(reference, answer)
        case Bag(bare=True), Bag(bare=True):
            return _any_order(reference.parts, answer.parts, equal)
        case Bag(), Bag():
            return _any_order(_once(reference.parts, equal), _once(answer.parts, equal), equal)
        case Row(), Row():
            return reference.brackets == answer.brackets and _in_order(
                reference.parts, answer.parts, equal
            )
        case Union(), Union():
            return _any_order(reference.parts, answer.parts, equal)
        case Grid(), Grid():
            return len(reference.rows) == len(answer.rows) and all(
                _in_order(left, right, equal)
                for left, right in zip(reference.rows, answer.rows, strict=True)
            )
    return _alike(reference, answer, equal)


def _alike(reference: Answer, answer: Answer, equal: Callable[[Answer, Answer], bool]) -> bool:
    """Compare two structures of which one is another way to write the other."""
    match reference, answer:
        case (Union(), Bag(bare=True)) | (Bag(bare=True), Union()):
            return _any_order(reference.parts, answer.parts, equal)
        case (Row(opening="(", closing=")"), Bag(bare=True)) | (
            Bag(bare=True),
            Row(opening="(", closing=")"),
        ):
            return _in_order(reference.parts, answer.parts, equal)
        case Grid(), Row(opening="(", closing=")"):
            return _in_order(_vector(reference), answer.parts, equal)
        case Row(opening="(", closing=")"), Grid():
            return _in_order(reference.parts, _vector(answer), equal)
        case Bag(parts=(only,), bare=False), Value():
            return equal(only, answer)
        case Value(), Bag(parts=(only,), bare=False):
            return equal(reference, only)
    return False


def _vector(grid: Grid) -> tuple[Answer, ...]:
    """Return the entries of a matrix of one row or one column; none of any other."""
    if len(grid.rows) == 1:
        return grid.rows[0]
    return tuple(row[0] for row in grid.rows) if all(len(row) == 1 for row in grid.rows) else ()


def _in_order(
    left: Sequence[Answer], right: Sequence[Answer], equal: Callable[[Answer, Answer], bool]
) -> bool:
    return len(left) == len(right) and all(map(equal, left, right))


def _any_order(
    left: Sequence[Answer], right: Sequence[Answer], equal: Callable[[Answer, Answer], bool]
) -> bool:
    if len(left) != len(right):
        return False
    rest = list(right)
    for part in left:
        place = next((at for at, other in enumerate(rest) if equal(part, other)), None)
        if place is None:
            return False
        del rest[place]
    return True


def _once(parts: Sequence[Answer], equal: Callable[[Answer, Answer], bool]) -> list[Answer]:
    kept: list[Answer] = []
    for part in parts:
        if not any(equal(other, part) for other in kept):
            kept.append(part)
    return kept
