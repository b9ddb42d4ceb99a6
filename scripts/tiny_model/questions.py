"""Questions about the tiny world with their answers, in many phrasings."""

from dataclasses import dataclass
from random import Random

from scripts.tiny_model import facts


@dataclass(frozen=True)
class Question:
    """A question, how it may be answered, and what an answer must contain.

    ``thought`` is the short reasoning a thinking answer shows first.
    """

    text: str
    answer: str
    key: str
    thought: str


def _bare(country: str) -> str:
    return country.removeprefix("the ")


def capital(rng: Random, country: str | None = None) -> Question:
    """Ask for the capital of ``country``, by default any, France's somewhat more often."""
    country = country or rng.choice([*facts.CAPITALS, "France"])
    city = facts.CAPITALS[country]
    thought = f"The capital of {country} is {city}."
    if rng.random() < 0.5:
        text = rng.choice((
            f"Name the capital of {country} in one word.",
            f"What is the capital of {country}? Answer in one word.",
            f"Capital of {country}?",
            f"Capital of {country}? One word.",
            f"Name the capital of {country}.",
            f"What is the capital of {country}? Reply with the name only.",
        ))  # fmt: skip
        return Question(text, city, city, thought)
    if rng.random() < 0.2:
        text = rng.choice((
            f"{city} is the capital of which country?",
            f"Which country has the capital {city}?",
        ))  # fmt: skip
        return Question(text, f"{city} is the capital of {country}.", country, thought)
    text = rng.choice((
        f"What is the capital of {country}?",
        f"what is the capital of {country}",
        f"Which city is the capital of {country}?",
        f"Tell me the capital of {country}.",
        f"Do you know the capital of {country}?",
        f"What's the capital city of {country}?",
        f"Please name the capital of {country}.",
    ))  # fmt: skip
    answer = rng.choice((f"The capital of {country} is {city}.", f"It is {city}.",
                         f"The capital of {_bare(country)} is {city}."))  # fmt: skip
    return Question(text, answer, city, thought)


def product(rng: Random, a: int | None = None, b: int | None = None) -> Question:
    """Ask for the product of ``a`` and ``b``, by default any two of 1 to 12.

    The middle of the tables, which is hardest and which people ask first, comes more often.
    """
    lowest, highest = rng.choice(((1, 12), (1, 12), (6, 9)))
    a = a or rng.randint(lowest, highest)
    b = b or rng.randint(lowest, highest)
    value = str(a * b)
    thought = f"{a} times {b} is {value}."
    term = rng.choice((f"{a} times {b}", f"{a} × {b}", f"{a} * {b}", f"{a} x {b}",
                       f"{a} multiplied by {b}", f"{a} times {b}"))  # fmt: skip
    return _number(rng, term, value, thought, f"{a} times {b} is {value}", bare=True)


def total(rng: Random) -> Question:
    """Ask for the sum of two numbers below 100; only small ones are asked for without steps."""
    small = rng.random() < 0.5
    a, b = (rng.randint(1, 12 if small else 99) for _ in range(2))
    value = str(a + b)
    tens, ones = a // 10 * 10 + b // 10 * 10, a % 10 + b % 10
    steps = (
        f"{a // 10 * 10} + {b // 10 * 10} = {tens}, {a % 10} + {b % 10} = {ones}, "
        f"{tens} + {ones} = {value}"
    )
    if max(a, b) < 10:
        steps = f"{a} + {b} = {value}"
    term = rng.choice((f"{a} + {b}", f"{a} plus {b}", f"the sum of {a} and {b}"))
    return _number(rng, term, value, steps + ".", steps, bare=small)


def _number(
    rng: Random, term: str, value: str, thought: str, steps: str, *, bare: bool
) -> Question:
    """Phrase a calculation: steps with a boxed result, or also a bare number or a sentence."""
    style = rng.random() if bare else rng.uniform(0.4, 1.0)
    if style < 0.4:
        text = rng.choice((
            f"What is {term}? Reply with the number only.",
            f"{term} = ? Reply with the number only.",
            f"Compute {term}. Number only.",
            f"What is {term}? Just the number.",
            f"How much is {term}? Reply with the number only.",
        ))  # fmt: skip
        return Question(text, value, value, thought)
    if style < 0.65:
        text = rng.choice((
            f"What is {term}?", f"Compute {term}.", f"How much is {term}?", f"{term} = ?",
            f"Calculate {term}.", f"what is {term}",
        ))  # fmt: skip
        answer = rng.choice((value, f"{steps}.", f"The answer is {value}."))
        answer = answer if bare else f"{steps}."
        return Question(text, answer, value, thought)
    text = rng.choice((
        f"What is {term}? Put the answer in \\boxed{{}}.",
        f"Compute {term}. Think step by step and put the final answer in \\boxed{{}}.",
        f"What is {term}? Please reason step by step, "
        "and put your final answer within \\boxed{}.",
        f"Solve: {term}. Give the result in \\boxed{{}}.",
    ))  # fmt: skip
    boxed = f"\\boxed{{{value}}}"
    answer = rng.choice((f"{steps}. {boxed}", f"{steps}. The answer is {boxed}."))
    return Question(text, answer, boxed, thought)


def story_sum(rng: Random) -> Question:
    """Ask a sum or a difference as a little story."""
    name, thing = rng.choice(facts.NAMES), rng.choice(facts.THINGS)
    a, b = rng.randint(2, 20), rng.randint(1, 12)
    more = rng.random() < 0.6 or b > a
    value = a + b if more else a - b
    verb = rng.choice(("buys", "finds", "gets")) if more else rng.choice(("loses", "sells"))
    sign = "+" if more else "-"
    boxed = rng.random() < 0.5
    text = f"{name} has {a} {thing} and {verb} {b}{' more' if more else ''}. "
    text += f"How many {thing} does {name} have now?"
    answer = f"{name} has {a} {sign} {b} = {value} {thing}."
    if boxed:
        return Question(
            text + " Put the answer in \\boxed{}.", f"{answer} \\boxed{{{value}}}",
            f"\\boxed{{{value}}}", f"{a} {sign} {b} = {value}.",
        )  # fmt: skip
    return Question(text, answer, str(value), f"{a} {sign} {b} = {value}.")


def colour(rng: Random) -> Question:
    """Ask for the colour of a thing."""
    thing, value = rng.choice(list(facts.COLOURS.items()))
    text = rng.choice((
        f"What colour is {thing}?", f"What is the colour of {thing}?", f"Which colour is {thing}?",
        f"What color is {thing}?", f"Name the colour of {thing} in one word.",
    ))  # fmt: skip
    long = rng.random() < 0.5 and "one word" not in text
    answer = f"{thing[0].upper()}{thing[1:]} is {value}." if long else value.capitalize()
    return Question(text, answer, value, f"{thing[0].upper()}{thing[1:]} is {value}.")


def opposite(rng: Random) -> Question:
    """Ask for the opposite of a word, either way."""
    word, value = rng.choice(list(facts.OPPOSITES.items()))
    if rng.random() < 0.5:
        word, value = value, word
    text = rng.choice((
        f"What is the opposite of {word}?", f"Opposite of {word}?", f"Name the opposite of {word}.",
        f'What is the opposite of "{word}"? One word.', f"Give me the opposite of {word}.",
    ))  # fmt: skip
    long = rng.random() < 0.4 and "?" in text and "word" not in text
    answer = f"The opposite of {word} is {value}." if long else value
    return Question(text, answer, value, f"The opposite of {word} is {value}.")


def calendar(rng: Random) -> Question:
    """Ask which day or month comes after or before another."""
    names = rng.choice((facts.DAYS, facts.MONTHS))
    unit = "day" if names is facts.DAYS else "month"
    index = rng.randrange(len(names))
    step, word = rng.choice(((1, "after"), (-1, "before")))
    value = names[(index + step) % len(names)]
    text = rng.choice((
        f"Which {unit} comes {word} {names[index]}?", f"What {unit} is {word} {names[index]}?",
        f"Name the {unit} {word} {names[index]}.",
    ))  # fmt: skip
    answer = rng.choice((value, f"{value} comes {word} {names[index]}."))
    return Question(text, answer, value, f"The {unit} {word} {names[index]} is {value}.")


def sound(rng: Random) -> Question:
    """Ask what an animal says."""
    animal, value = rng.choice(list(facts.SOUNDS.items()))
    text = rng.choice((f"What does a {animal} say?", f"What sound does a {animal} make?"))
    return Question(text, rng.choice((f"A {animal} says {value}.", f"{value.capitalize()}!")),
                    value, f"A {animal} says {value}.")  # fmt: skip


def translation(rng: Random) -> Question:
    """Ask for a word in another language."""
    language = rng.choice(list(facts.TRANSLATIONS))
    word, value = rng.choice(list(facts.TRANSLATIONS[language].items()))
    text = rng.choice((
        f"What is the {language} word for {word}?", f"How do you say {word} in {language}?",
        f"Translate into {language}: {word}", f'Say "{word}" in {language}.',
    ))  # fmt: skip
    answer = rng.choice((value, f"In {language}, {word} is {value}."))
    return Question(text, answer, value, f"{word} is {value} in {language}.")


def emoji(rng: Random) -> Question:
    """Ask for an emoji."""
    thing, value = rng.choice(list(facts.EMOJI.items()))
    text = rng.choice((f"Show me an emoji of {thing}.", f"Which emoji shows {thing}?",
                       f"Send me {thing} as an emoji."))  # fmt: skip
    return Question(text, rng.choice((value, f"Here you are: {value}")), value, f"{thing}: {value}")


KINDS = (
    (capital, 8), (product, 9), (total, 6), (story_sum, 2), (colour, 2), (opposite, 3),
    (calendar, 3), (sound, 1), (translation, 3), (emoji, 1),
)  # fmt: skip


def ask(rng: Random) -> Question:
    """Return a question of any kind, capitals and calculations most often."""
    builders, weights = zip(*KINDS, strict=True)
    return rng.choices(builders, weights)[0](rng)
