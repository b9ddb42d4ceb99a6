"""What must hold of grades whatever the answer is."""

from contextlib import suppress
from fractions import Fraction
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.graders.answers import last_box
from gateway.graders.boxed_math import grade
from gateway.graders.brackets import nesting, wrapping
from gateway.graders.latex import plain
from gateway.graders.numbers import read_number
from gateway.graders.structured import Unreadable, structured

WORDS = r"""
\{ \} \frac \sqrt \boxed{ \text{ \left \pm \cup \in \le \, \circ \\ \ \begin{pmatrix} \end{pmatrix}
cm and − ½ °
"""
LATEX = st.lists(
    st.sampled_from([*"0123456789+-*/^_=<>|()[]{}.,;:%$&~!xyzABe '", *WORDS.split()]), max_size=40
).map("".join)
NUMBERS = st.fractions(max_denominator=10**6)


def no_expression(reference: str, answer: str) -> bool:
    """Stands for the algebra system where none must be needed."""
    return False


def boxed(answer: str) -> str:
    return rf"\boxed{{{answer}}}"


@given(NUMBERS)
def test_a_number_is_itself_however_written(number: Fraction) -> None:
    above, below = number.numerator, number.denominator
    sign, size = "-" if above < 0 else "", abs(number)
    whole, rest = divmod(size, 1)
    forms = [
        f"{above}/{below}",
        rf"\frac{{{above}}}{{{below}}}",
        rf"{sign}\dfrac{{{abs(above)}}}{{{below}}}",
    ]
    if rest:
        forms.append(rf"{sign}{whole}\frac{{{rest.numerator}}}{{{rest.denominator}}}")
    if below == 1:
        forms += [
            f"{above:,}",
            f"{above}.00",
            f"x = {above}",
            rf"{above}\text{{ cm}}",
            f"{100 * above}\\%",
        ]
    for form in forms:
        assert grade(f"{above}/{below}", boxed(form), no_expression), form


@given(NUMBERS, NUMBERS)
def test_other_numbers_are_other_answers(left: Fraction, right: Fraction) -> None:
    assert grade(f"{left}", boxed(f"{right}"), no_expression) == (left == right)


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=4, min_value=-(10**9), max_value=10**9
    )
)
def test_decimals_are_read_exactly(value: object) -> None:
    written = read_number(str(value))
    assert written is not None
    assert written.value == Fraction(str(value))
    assert written.places == 4


@given(st.lists(NUMBERS, min_size=2, max_size=6), st.randoms())
def test_the_order_of_a_set_says_nothing(values: list[Fraction], random: Random) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)
    one, other = (", ".join(map(str, some)) for some in (values, shuffled))
    assert grade(rf"\{{{one}\}}", boxed(rf"\{{{other}\}}"), no_expression)
    assert grade(f"({one})", boxed(f"({other})"), no_expression) == (values == shuffled)


@given(LATEX)
@settings(max_examples=300)
def test_any_text_is_graded(text: str) -> None:
    shown = plain(text)
    with suppress(Unreadable):
        structured(shown)
    assert nesting(shown) >= 0
    wrapped = wrapping(shown)
    assert wrapped is None or shown.startswith(wrapped[0])
    assert isinstance(grade("5", text, no_expression), bool)
    assert isinstance(grade(text or "x", boxed(text), no_expression), bool)


@given(LATEX)
def test_an_answer_is_right_by_its_own_words(text: str) -> None:
    held = last_box(boxed(text))
    if held is not None and held.strip() and last_box(held) is None:
        assert grade(held, boxed(text), no_expression)
