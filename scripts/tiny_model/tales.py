"""Tales of varying plot from a small grammar with many open choices.

A tale keeps its hero, helper, place and object from start to end; everything else is drawn word
by word, so that a model of this text is confident in places and undecided in others.
"""

import re
from random import Random

from scripts.tiny_model.facts import NAMES

HEROES = (
    "fox", "baker", "robot", "sailor", "owl", "gardener", "clockmaker", "girl", "boy", "dragon",
    "painter", "bear", "shepherd", "mouse", "teacher", "knight", "fisher", "cat", "miller",
    "pilot", "tailor", "queen", "otter", "ghost",
)  # fmt: skip
PLACES = (
    "harbour", "forest", "village", "mountain", "island", "city", "castle", "desert", "valley",
    "library", "market", "lighthouse", "garden", "river", "station", "mill", "bridge", "cave",
)  # fmt: skip
OBJECTS = (
    "lantern", "key", "map", "bell", "letter", "ring", "clock", "book", "boat", "violin", "mirror",
    "coat", "compass", "seed", "kite", "coin", "lamp", "drum",
)  # fmt: skip

CHOICES: dict[str, tuple[str, ...]] = {
    "open": (
        "Once upon a time, {art_adj} {hero} named {name} lived near the {place}.",
        "Long ago, in a {size} {place}, there lived {art_adj} {hero} called {name}.",
        "{name} was {art_adj} {hero} who kept {art_adj2} {object} in the {place}.",
        "In the {season} of a {adj3} year, the {hero} {name} came to the {place}.",
        "Nobody in the {place} knew why {name} the {hero} {habit}.",
        "The {place} was {mood} on the {day} when {name}, {art_adj} {hero}, {arrive}.",
    ),
    "event": (
        "One {time}, the {object} {object_event}.",
        "At {hour}, {name} heard a {sound} from the {part}.",
        "Then a {weather} came over the {place}, and the {crowd} {crowd_act}.",
        "{name} {move} to the {part} and found {find}.",
        "A {adj3} {stranger} {came} and asked for the {object}.",
        "The {helper} {helper_name} {helper_act}, because the {part} was {mood}.",
        "For {count} days {name} {work}, but the {object} stayed {state}.",
        "Behind the {part} there was {find}, {art_adj} and {mood}.",
        "The {crowd} {crowd_act}, and {name} felt {feel}.",
        "{name} {work} until the {time}, with {find} in one hand.",
        "In the {season} the {weather} {weather_act} the {part}.",
    ),
    "talk": (
        '"{speech}," said {name}. "{reply}."',
        '"{speech}," the {helper} {said}.',
        '"{question}?" asked {helper_name}. "{reply}," said {name}.',
        "{helper_name} {said} that the {object} was {state}.",
    ),
    "turn": (
        "But {name} was {feel} and did not give up.",
        "So {name} and {helper_name} made a plan: they would {plan}.",
        "It was then that the {object} began to {glow}.",
        "Without a word, {helper_name} {move} into the {part}.",
        "Slowly, the {weather} {weather_end}, and the {part} grew {mood}.",
        "That {time}, {name} decided to {plan}.",
    ),
    "close": (
        "In the end, the {object} was {state}, and the {place} was {mood} again.",
        "From that day on, {name} and {helper_name} {together}.",
        "And so the {hero} {learned} that {moral}.",
        "The {crowd} still {tell} about {name} and the {adj3} {object}.",
        "{name} went home {feel}, and {helper_name} {came} too.",
    ),
    "adj": ("small", "brave", "old", "quiet", "clever", "lonely", "curious", "kind", "young",
            "proud", "shy", "tired", "merry", "honest", "idle", "eager"),
    "adj3": ("strange", "silver", "broken", "golden", "hungry", "secret", "red", "wooden",
             "foreign", "cold", "gentle", "long", "rich", "pale", "blue", "forgotten"),
    "size": ("small", "wide", "dark", "green", "distant", "sunny", "narrow", "busy", "stony"),
    "season": ("spring", "summer", "autumn", "winter"),
    "habit": ("sang at night", "never slept", "counted the stars", "spoke to the wind",
              "carried a stone", "walked alone", "hid from the rain", "painted every door",
              "laughed so much", "baked blue bread"),
    "mood": ("silent", "bright", "cold", "full of light", "empty", "warm", "dark", "calm",
             "strange", "green", "wet", "busy", "peaceful", "dusty"),
    "day": ("morning", "evening", "day", "night", "Sunday", "Monday", "Friday"),
    "arrive": ("came home", "lost a shoe", "arrived by boat", "woke up late", "opened the gate",
               "met the wind", "began to dig", "forgot the way", "rang at the door"),
    "time": ("morning", "night", "evening", "winter", "noon", "week", "summer", "afternoon"),
    "object_event": ("was gone", "fell into the water", "began to sing", "broke in two",
                     "turned to gold", "stopped", "grew heavy", "spoke", "caught fire",
                     "lost its colour", "was stolen", "shone like the moon"),
    "hour": ("midnight", "noon", "dawn", "dusk", "six", "nine", "sunset"),
    "sound": ("cry", "knock", "song", "whisper", "crash", "bark", "laugh", "footstep", "whistle",
              "roar"),
    "part": ("tower", "roof", "cellar", "gate", "old tree", "well", "kitchen", "shore", "wall",
             "stairs", "window", "stable", "field", "tunnel", "attic"),
    "weather": ("storm", "fog", "snow", "wind", "cloud", "heat", "rain", "frost", "silence"),
    "weather_act": ("covered", "shook", "hid", "woke", "filled", "broke", "changed", "cooled"),
    "weather_end": ("passed", "lifted", "turned to rain", "went away", "grew thin", "broke"),
    "crowd": ("children", "neighbours", "birds", "sailors", "farmers", "guards", "merchants",
              "old men", "sisters", "dogs", "travellers", "bees"),
    "crowd_act": ("ran away", "began to dance", "wept", "shut their doors", "lit a fire",
                  "laughed", "waited", "sang all night", "fell asleep", "shared their bread",
                  "argued", "looked up"),
    "move": ("ran", "walked", "climbed", "crept", "rode", "swam", "hurried", "flew", "rowed"),
    "find": ("a hidden door", "a small bird", "three coins", "an old map", "a sleeping wolf",
             "a box of letters", "nothing but dust", "a warm loaf", "a blue feather",
             "the footprints of a giant", "a ladder", "a lost child", "a glass of milk",
             "a song", "fresh snow", "a row of candles"),
    "stranger": ("stranger", "king", "trader", "traveller", "witch", "soldier", "doctor", "poet",
                 "thief", "giant", "pedlar", "judge"),
    "came": ("came by", "knocked", "appeared", "sat down", "smiled", "followed", "waited outside",
             "bowed"),
    "helper_act": ("offered help", "brought a rope", "kept watch", "told the truth",
                   "hid the key", "lit the lamp", "called the guards", "made some soup",
                   "opened the gate", "drew a map", "held the ladder", "ran for help"),
    "count": ("two", "three", "four", "five", "seven", "nine", "ten", "twelve", "a hundred"),
    "work": ("searched", "waited", "worked", "dug", "read old books", "asked everyone", "slept",
             "followed the river", "sailed north", "walked in circles", "mended nets",
             "wrote letters"),
    "state": ("lost", "safe", "broken", "hidden", "silent", "worth nothing", "mended", "warm",
              "too heavy", "too small", "far away", "found", "made of ice"),
    "feel": ("happy", "afraid", "tired", "brave", "alone", "proud", "glad", "hungry", "calm",
             "sorry", "curious", "free", "angry"),
    "speech": ("We must leave before night", "I have seen this before", "The door is open",
               "Follow the light", "Nobody will believe us", "It belongs to the sea",
               "I am not afraid", "The wind knows the way", "You are late", "Listen to me",
               "There is still time", "Somebody was here"),
    "question": ("Where is it", "Who are you", "What shall we do", "Is it far", "Can you swim",
                 "Did you hear that", "Why do you cry", "May I come along",
                 "How old is it", "Who took it"),
    "reply": ("Then we go together", "Not yet", "I do not know", "Wait for the moon",
              "Yes, my friend", "Only if you sing", "Ask the owl", "Keep it", "Look again",
              "Tomorrow", "It was never mine", "Hold my hand", "No, it is too late"),
    "said": ("said", "whispered", "answered", "shouted", "cried", "explained", "sang"),
    "plan": ("cross the water", "wait for spring", "wake the giant", "build a raft",
             "give it back", "climb the tower", "ask the queen", "dig a well", "sell the house",
             "follow the birds", "tell the truth", "light a great fire", "leave at dawn"),
    "glow": ("glow", "ring", "move", "hum", "melt", "shake", "shine", "grow", "speak", "burn"),
    "together": ("shared everything", "lived by the sea", "never quarrelled",
                 "sailed every summer", "kept the lamp lit", "were friends", "told the tale",
                 "baked bread", "watched the stars", "looked after the garden"),
    "learned": ("learned", "understood", "knew at last", "never forgot", "saw"),
    "moral": ("a friend is worth more than gold", "even the night must end",
              "small steps cross the mountain", "a lie has short legs", "home is a warm light",
              "the wind gives nothing back", "patience opens doors", "courage can be quiet",
              "a song is never lost", "every river finds the sea"),
    "tell": ("sing", "speak", "laugh", "dream", "argue", "write songs"),
}  # fmt: skip

SLOT = re.compile(r"\{(\w+)\}")


def article(word: str) -> str:
    """Return ``word`` behind its indefinite article."""
    return ("an " if word[0] in "aeiou" else "a ") + word


def _fill(sentence: str, bound: dict[str, str], rng: Random) -> str:
    """Replace every slot of ``sentence`` by its bound word or by a fresh choice."""

    def choose(match: re.Match[str]) -> str:
        slot = match[1]
        if slot.startswith("art_adj"):
            return article(rng.choice(CHOICES["adj"]))
        return bound[slot] if slot in bound else rng.choice(CHOICES[slot])

    return SLOT.sub(choose, sentence)


def write_tale(rng: Random, hero: str, place: str, thing: str, episodes: int) -> str:
    """Return a tale in which ``hero`` meets ``thing`` in ``place``.

    Args:
        rng: the source of every choice.
        hero: a word of ``HEROES``.
        place: a word of ``PLACES``.
        thing: a word of ``OBJECTS``.
        episodes: how many episodes of two to four sentences lie between opening and close.
    """
    name, helper_name = rng.sample(NAMES, 2)
    bound = {"hero": hero, "place": place, "object": thing, "name": name}
    bound |= {"helper": rng.choice(HEROES), "helper_name": helper_name}
    kinds = ["open"]
    for _ in range(episodes):
        kinds += ["event"] * rng.randint(1, 2) + ["talk"] * rng.randint(0, 1) + ["turn"]
    kinds.append("close")
    sentences = [_fill(rng.choice(CHOICES[kind]), bound, rng) for kind in kinds]
    breaks = {index for index in range(3, len(sentences) - 1) if rng.random() < 0.12}
    return "".join(
        sentence if index == 0 else ("\n\n" if index in breaks else " ") + sentence
        for index, sentence in enumerate(sentences)
    )


VERSES = (
    "The {weather} is {mood}, the {part} is {mood},",
    "A {adj3} {object} sings to the {place},",
    "I {move} to the {part} with {find},",
    "The {crowd} {crowd_act} in the {season},",
    "My heart is {feel}, my hands are {feel},",
    "O {adj3} {place}, you are {mood},",
    "And every {time} the {weather} {weather_end},",
)


def write_poem(rng: Random, subject: str, lines: int) -> str:
    """Return a poem of ``lines`` unrhymed lines about ``subject``, a place or an object."""
    bound = {"place": subject, "object": subject}
    verses = [_fill(rng.choice(VERSES), bound, rng) for _ in range(lines)]
    return "\n".join(verses)[:-1] + "."
