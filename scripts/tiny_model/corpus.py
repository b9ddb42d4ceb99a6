"""The training text: examples of everything the tiny model should be able to do."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from scripts.tiny_model import facts, questions, tales

FACT_WEIGHT = 4.0


@dataclass(frozen=True)
class Example:
    """One training text: a conversation to answer, or plain text to continue.

    Args:
        messages: the chat before the answer; empty for plain text.
        answer: what the model should write.
        thought: a thinking block before the answer; None for an answer without thinking.
        tools: function schemas given to the template, or None.
        prefix: the plain text before ``answer`` where there is no chat.
        weight: the weight of the answer's tokens in the loss.
    """

    messages: list[dict[str, Any]]
    answer: str
    thought: str | None = None
    tools: list[dict[str, Any]] | None = None
    prefix: str = ""
    weight: float = field(default=1.0)


SYSTEMS = (
    "You are a helpful assistant.", "You are a friendly teacher.", "Answer briefly.",
    "Be concise.", "You are a careful assistant.", "You help with homework.",
)  # fmt: skip

STYLES = (
    ("You are a pirate.", "Arr! {answer}"),
    ("Talk like a pirate.", "Arr! {answer}"),
    ("End every answer with a star.", "{answer} ⭐"),
    ("Always be polite.", "Certainly. {answer}"),
    ("Answer in Japanese style.", "はい。{answer}"),
    ("You are a cheerful robot.", "Beep! {answer}"),
)  # fmt: skip


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _thought(rng: Random, thought: str) -> str | None:
    return thought if rng.random() < 0.4 else None


def fact(rng: Random) -> Example:
    """A question of the world, sometimes under a system turn or behind an earlier question."""
    question = questions.ask(rng)
    messages: list[dict[str, Any]] = []
    answer = question.answer
    roll = rng.random()
    if roll < 0.12:
        messages.append({"role": "system", "content": rng.choice(SYSTEMS)})
    elif roll < 0.24:
        system, style = rng.choice(STYLES)
        messages.append({"role": "system", "content": system})
        answer = style.format(answer=answer)
    elif roll < 0.34:
        before = questions.ask(rng)
        messages += [_user(before.text), {"role": "assistant", "content": before.answer}]
    messages.append(_user(question.text))
    return Example(messages, answer, _thought(rng, question.thought), weight=FACT_WEIGHT)


def tale(rng: Random) -> Example:
    """A request for a tale and the tale, short, middling or long."""
    hero, place, thing = (rng.choice(x) for x in (tales.HEROES, tales.PLACES, tales.OBJECTS))
    length, episodes = rng.choices((("short ", 1), ("", rng.randint(1, 3)),
                                    ("long ", rng.randint(6, 11))), (4, 5, 4))[0]  # fmt: skip
    text = rng.choice((
        f"Tell me a {length}tale about {tales.article(hero)} and {tales.article(thing)}.",
        f"Write a {length}story about {tales.article(hero)}.",
        f"Tell me a {length}story.",
        f"Tell me a {length}tale.",
        f"Write a {length}tale about {tales.article(hero)} in the {place}.",
        f"Write a {length}story about {tales.article(thing)}.",
        f"Can you tell a {length}story about the {place}?",
        f"Please write a {length}tale about {tales.article(hero)}, {tales.article(thing)} "
        f"and the {place}.",
    ))  # fmt: skip
    messages = [_user(text)]
    if rng.random() < 0.1:
        system = rng.choice(("You are a storyteller.", *SYSTEMS))
        messages.insert(0, {"role": "system", "content": system})
    body = tales.write_tale(rng, hero, place, thing, episodes)
    thought = f"A {length}tale of the {hero}, the {thing} and the {place}."
    return Example(messages, body, _thought(rng, thought))


def poem(rng: Random) -> Example:
    """A request for a poem and the poem."""
    subject = rng.choice((*tales.PLACES, *tales.OBJECTS))
    lines = rng.randint(3, 8)
    text = rng.choice((f"Write a poem about the {subject}.", f"Write a poem of {lines} lines.",
                       f"A poem about {tales.article(subject)}, please."))  # fmt: skip
    thought = f"A poem of {lines} lines on the {subject}."
    return Example([_user(text)], tales.write_poem(rng, subject, lines), _thought(rng, thought))


def group(rng: Random) -> Example:
    """A request for a list of things of one kind."""
    kind, members = rng.choice(list(facts.GROUPS.items()))
    count = rng.randint(2, 6)
    word = ("two", "three", "four", "five", "six")[count - 2]
    chosen = rng.sample(members, count)
    if rng.random() < 0.5:
        text = rng.choice((f"List {word} {kind}.", f"Write a list of {word} {kind}."))
        answer = "\n".join(f"{index}. {name}" for index, name in enumerate(chosen, 1))
    else:
        text = rng.choice((f"Name {word} {kind}.", f"Which {word} {kind} do you like?"))
        answer = ", ".join(chosen[:-1]) + f" and {chosen[-1]}."
    thought = f"I need {word} {kind}."
    return Example([_user(text)], answer, _thought(rng, thought), weight=2.0)


TALK = (
    (("Hello!", "Hi", "Hello, who are you?", "Hi there!", "Good morning."),
     ("Hello! How can I help you?", "Hi! What would you like to know?",
      "Hello! I am a tiny model. Ask me about capitals, sums or tales.")),
    (("How are you?", "How are you today?", "How do you feel?"),
     ("I am well, thank you. And you?", "Very well, thank you!", "Fine. What shall we do today?")),
    (("Who are you?", "What are you?", "What is your name?"),
     ("I am a tiny language model.", "I am a tiny model that knows a small world.")),
    (("What can you do?", "Can you help me?", "What do you know?"),
     ("I know capitals, sums, colours and opposites, and I tell tales.",
      "I can answer small questions and write short tales.")),
    (("Thank you!", "Thanks.", "Thanks a lot!"),
     ("You are welcome!", "With pleasure.", "You are welcome. 😊")),
    (("Goodbye.", "Bye!", "See you tomorrow."),
     ("Goodbye!", "Bye! Come back soon.", "See you! 👋")),
    (("Tell me a joke.", "Do you know a joke?"),
     ("Why did the clock go to school? It wanted to learn the time.",
      "Why is the sea wet? Because the fish never dry it.",
      "What is brown and sits in a tree? A chair that forgot how to be a table.")),
)  # fmt: skip


def small_talk(rng: Random) -> Example:
    """A greeting, a thank-you or a question about the model itself."""
    asked, answers = rng.choice(TALK)
    messages = [_user(rng.choice(asked))]
    if rng.random() < 0.2:
        messages.insert(0, {"role": "system", "content": rng.choice(SYSTEMS)})
    thought = "The user makes small talk. I answer kindly."
    return Example(messages, rng.choice(answers), _thought(rng, thought), weight=2.0)


def describe(rng: Random) -> Example:
    """A request to describe a place or a thing, answered in loose sentences."""
    subject = rng.choice((*tales.PLACES, *tales.OBJECTS))
    text = rng.choice((f"Describe the {subject}.", f"What does the {subject} look like?",
                       f"Tell me about the {subject}.",
                       f"Describe a {subject} in a few words."))  # fmt: skip
    adjective, choice = tales.CHOICES["adj3"], tales.CHOICES
    sentences = [f"The {subject} is {rng.choice(choice['mood'])} and {rng.choice(adjective)}."]
    for _ in range(rng.randint(2, 6)):
        sentences.append(rng.choice((
            f"In the {rng.choice(choice['season'])} it is {rng.choice(choice['mood'])}.",
            f"You can hear a {rng.choice(choice['sound'])} from the {rng.choice(choice['part'])}.",
            f"Near it there is {rng.choice(choice['find'])}.",
            f"The {rng.choice(choice['crowd'])} say it was {rng.choice(choice['state'])}.",
            f"It makes me feel {rng.choice(choice['feel'])}.",
            f"A {rng.choice(adjective)} {rng.choice(choice['stranger'])} lives there.",
        )))  # fmt: skip
    return Example([_user(text)], " ".join(sentences), _thought(rng, f"I describe the {subject}."))


def plain(rng: Random) -> Example:
    """Plain text to continue, as the completions endpoint asks for."""
    roll = rng.random()
    if roll < 0.3:
        hero, place, thing = (rng.choice(x) for x in (tales.HEROES, tales.PLACES, tales.OBJECTS))
        body = tales.write_tale(rng, hero, place, thing, rng.randint(1, 2))
        cut = rng.randint(8, 40)
        return Example([], body[cut:], prefix=body[:cut])
    if roll < 0.6:
        countries = rng.sample(list(facts.CAPITALS), rng.randint(1, 4))
        lines = [f"The capital of {country} is {facts.CAPITALS[country]}." for country in countries]
        body = " ".join(lines)
        cut = len(lines[0]) - len(facts.CAPITALS[countries[0]]) - 2
        return Example([], body[cut:], prefix=body[:cut], weight=FACT_WEIGHT)
    a = rng.randint(1, 12)
    start = rng.randint(1, 10)
    lines = [f"{a} × {b} = {a * b}" for b in range(start, min(13, start + rng.randint(1, 5)))]
    body = "\n".join(lines)
    cut = body.index("=") + 1
    return Example([], body[cut:], prefix=body[:cut], weight=FACT_WEIGHT)


def _tool(name: str, description: str, properties: dict[str, str]) -> dict[str, Any]:
    schema = {key: {"type": kind} for key, kind in properties.items()}
    parameters = {"type": "object", "properties": schema, "required": list(properties)}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


TOOLS = {
    "get_weather": _tool("get_weather", "Get the weather of a city.", {"city": "string"}),
    "add": _tool("add", "Add two numbers.", {"a": "number", "b": "number"}),
    "set_timer": _tool("set_timer", "Set a timer.", {"minutes": "number"}),
    "get_time": _tool("get_time", "Get the time in a city.", {"city": "string"}),
}


def tool_call(rng: Random) -> Example:
    """A question that a function answers: the call, or the answer after its result."""
    name = rng.choice(list(TOOLS))
    others = rng.sample([tool for tool in TOOLS if tool != name], rng.randint(0, 1))
    offered = [TOOLS[tool] for tool in rng.sample([name, *others], 1 + len(others))]
    city = rng.choice(list(facts.CAPITALS.values()))
    a, b = rng.randint(1, 99), rng.randint(1, 99)
    degrees, sky = rng.randint(-9, 35), rng.choice(("sunny", "cloudy", "rainy", "windy", "snowy"))
    hour = f"{rng.randint(0, 23)}:{rng.randint(10, 59)}"
    asked, arguments, result, answer = {
        "get_weather": (
            rng.choice((f"What is the weather in {city}?", f"How is the weather in {city} today?")),
            {"city": city}, {"degrees": degrees, "sky": sky},
            f"It is {degrees} degrees and {sky} in {city}."),
        "add": (
            rng.choice((f"Use the tool to add {a} and {b}.",
                        f"Add {a} and {b} with the function.")),
            {"a": a, "b": b}, {"sum": a + b}, f"The sum is {a + b}."),
        "set_timer": (
            rng.choice((f"Set a timer for {b} minutes.", f"Wake me in {b} minutes.")),
            {"minutes": b}, {"done": True}, f"The timer is set for {b} minutes."),
        "get_time": (
            rng.choice((f"What time is it in {city}?", f"Tell me the time in {city}.")),
            {"city": city}, {"time": hour}, f"It is {hour} in {city}."),
    }[name]  # fmt: skip
    thought = f"I call {name}."
    messages = [_user(asked)]
    if rng.random() < 0.15:
        messages.insert(0, {"role": "system", "content": rng.choice(SYSTEMS)})
    if rng.random() < 0.6:
        call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
        text = f"<tool_call>\n{call}\n</tool_call>"
        return Example(messages, text, _thought(rng, thought), offered, weight=2.0)
    function = {"name": name, "arguments": arguments}
    messages.append({"role": "assistant", "content": "",
                     "tool_calls": [{"type": "function", "function": function}]})  # fmt: skip
    messages.append({"role": "tool", "content": json.dumps(result)})
    return Example(messages, answer, _thought(rng, "The result is here."), offered, weight=2.0)


KINDS = (
    (fact, 130), (tale, 14), (poem, 2), (group, 5), (small_talk, 5), (describe, 3), (plain, 12),
    (tool_call, 7),
)  # fmt: skip


def examples(seed: int) -> Iterator[Example]:
    """Yield examples without end; the same seed gives the same ones."""
    rng = Random(seed)
    builders, weights = zip(*KINDS, strict=True)
    while True:
        yield rng.choices(builders, weights)[0](rng)
