"""The closed vocabulary and the small grammar of the command speech, and the two lists that are drawn from it.

The test list is drawn first; the training list is drawn after it and leaves out every sentence that is in the test
list. Both depend on the seeds below alone, so the lists can be made, and compared, without any audio.
"""

from __future__ import annotations

from random import Random

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# Pairs that are easily taken for each other are in on purpose: thirteen and thirty, fifteen and fifty.
NUMBERS = (*DIGITS[2:], "ten", "thirteen", "fifteen", "twenty", "thirty", "forty", "fifty")
TENS = ("twenty", "thirty", "forty", "fifty")
PLACES = ("kitchen", "bedroom", "hall", "garden")
SWITCHED = ("light", "lamp", "heating", "radio", "fan")
DIRECTIONS = ("left", "right", "up", "down", "forward", "back")
SINGLE = ("yes", "no", "cancel", "next", "start", "stop", "go", "again")
GLUE = ("the", "in", "to", "for", "by", "on", "off", "and", "please")
VERBS = ("turn", "set", "call", "open", "close", "play", "pause")
THINGS = ("door", "window", "music", "timer", "alarm", "volume", "steps", "minutes", "seconds", "degrees", "percent")
VOCABULARY = tuple(
    sorted({*DIGITS, *NUMBERS, *PLACES, *SWITCHED, *DIRECTIONS, *SINGLE, *GLUE, *VERBS, *THINGS}),
)
SHORTEST, LONGEST = 2, 8  # words in a sentence
FREE_SHARE = 0.35  # of sentences that are words in any order: what a decoder cannot guess from the words before

TEST_SEED = 2027
TRAINING_SEED = 4


def _number(random: Random) -> list[str]:
    if random.random() < 0.35:
        return [random.choice(TENS), random.choice(DIGITS[1:])]
    return [random.choice(NUMBERS)]


def _place(random: Random) -> list[str]:
    return [random.choice(PLACES)] if random.random() < 0.6 else []


def _digits(random: Random) -> list[str]:
    opening = ["call"] if random.random() < 0.4 else []
    return opening + [random.choice(DIGITS) for _ in range(random.randint(3, 7))]


def _switch(random: Random) -> list[str]:
    state, thing = random.choice(("on", "off")), ["the", *_place(random), random.choice(SWITCHED)]
    return ["turn", *thing, state] if random.random() < 0.5 else ["turn", state, *thing]


def _open(random: Random) -> list[str]:
    return [random.choice(("open", "close")), "the", *_place(random), random.choice(("door", "window"))]


def _set(random: Random) -> list[str]:
    return random.choice(
        (
            ["set", "the", "timer", "for", *_number(random), random.choice(("minutes", "seconds"))],
            ["set", "the", *_place(random), "heating", "to", *_number(random), "degrees"],
            ["set", "the", "volume", "to", *_number(random), "percent"],
            ["turn", "the", "volume", random.choice(("up", "down")), "by", *_number(random), "percent"],
            ["set", "the", "alarm", "for", *_number(random)],
        )
    )


def _go(random: Random) -> list[str]:
    words = ["go", random.choice(DIRECTIONS), *_number(random), "steps"]
    return [*words, "and", random.choice(("stop", "turn"))] if random.random() < 0.4 else words


def _play(random: Random) -> list[str]:
    words = [random.choice(("play", "pause", "stop", "start")), "the", random.choice(("music", "radio"))]
    return [*words, "in", "the", random.choice(PLACES)] if random.random() < 0.5 else words


def _free(random: Random) -> list[str]:
    return [random.choice(VOCABULARY) for _ in range(random.randint(SHORTEST, 7))]


def sentence(random: Random) -> str:
    """One sentence of the grammar."""
    if random.random() < FREE_SHARE:
        words = _free(random)
    else:
        words = random.choice((_digits, _switch, _open, _set, _go, _play))(random)
        if random.random() < 0.15 and len(words) < LONGEST:
            words = [*words, "please"]
    return " ".join(words)


def draw(count: int, seed: int, without: frozenset[str] = frozenset()) -> list[str]:
    """Different sentences, none of them in `without`."""
    random = Random(seed)
    found: dict[str, None] = {}  # a set that keeps the order
    while len(found) < count:
        candidate = sentence(random)
        if candidate not in without:
            found.setdefault(candidate)
    return list(found)


def draw_test(count: int) -> list[str]:
    return draw(count, TEST_SEED)


def draw_training(count: int, test: list[str]) -> list[str]:
    return draw(count, TRAINING_SEED, without=frozenset(test))
