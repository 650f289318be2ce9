"""Random communication patterns: correct by construction, with one thing broken.

A pattern is a list of steps in one global order. Each step is a message between two ranks, or a
collective call of a group, and all calls block. So the pattern cannot hang until one thing in it is
changed, and the change says who is the cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

BARRIER, BCAST, REDUCE, ALLREDUCE = "barrier", "bcast", "reduce", "allreduce"


@dataclass(frozen=True)
class Pattern:
    """A script for ``tests/why/pattern.c``, and the verdict that is expected."""

    script: str
    change: str
    kinds: tuple[str, ...]
    ranks: str = ""
    victims: str = ""


def broken(random: Random, size: int) -> Pattern:
    """Return a random pattern with one change; every fifth one has none and runs for ever."""
    before = [_step(random, size) for _ in range(random.randrange(3, 12))]
    after = [_step(random, size) for _ in range(random.randrange(0, 4))]
    if random.randrange(5) == 0:
        script = _script(size, [*before, *after], loops=True)
        return Pattern(script, "nothing", ("healthy",))
    change = random.choice(["tag", "source", "receive", "send", "function", "left", "loop"])
    first, second = random.sample(range(size), 2)
    third = random.choice([each for each in range(size) if each not in (first, second)])
    everybody = ",".join(map(str, range(size)))
    pair = ",".join(map(str, sorted((first, second))))
    lines: list[tuple[int, str]]
    match change:
        case "tag":
            lines = [(first, f"send {second} 5"), (second, f"recv {first} 6")]
            kinds, cause = ("unmatched-receive",), pair
        case "source":
            lines = [(first, f"send {second} 5"), (second, f"recv {third} 5")]
            kinds, cause = ("unmatched-receive",), pair
        case "receive":
            lines = [(first, f"send {second} 5")]
            kinds, cause = ("unmatched-send",), str(first)
        case "send":
            lines = [(second, f"recv {first} 5")]
            kinds, cause = ("unmatched-receive",), str(second)
        case "function":
            lines = [(each, BARRIER if each == first else ALLREDUCE) for each in range(size)]
            kinds, cause = ("different-collectives",), str(first)
        case "left":
            lines = [(first, "leave")]
            kinds, cause = ("rank-left",), str(first)
        case _:
            lines = [(first, "loop")]
            kinds, cause = ("missing-from-collective",), str(first)
    # All meet behind the change, so that all others are its victims.
    last = [[(each, BARRIER) for each in range(size)]]
    script = _script(size, [*before, lines, *last, *after], loops=False)
    causes = {*cause.split(",")}
    victims = ",".join(each for each in everybody.split(",") if each not in causes)
    return Pattern(script, change, kinds, cause, victims)


def _step(random: Random, size: int) -> list[tuple[int, str]]:
    kind = random.choice(["message", "message", "message", BARRIER, BCAST, REDUCE, ALLREDUCE])
    if kind == "message":
        first, second = random.sample(range(size), 2)
        tag = random.randrange(100)
        source = first if random.randrange(4) else -1
        return [(first, f"send {second} {tag}"), (second, f"recv {source} {tag}")]
    root = random.randrange(size)
    operand = f" {root}" if kind in (BCAST, REDUCE) else ""
    return [(each, f"{kind}{operand}") for each in range(size)]


def _script(size: int, steps: list[list[tuple[int, str]]], *, loops: bool) -> str:
    lines = [f"{rank} {text}" for step in steps for rank, text in step]
    lines += [f"{rank} {'again' if loops else 'end'}" for rank in range(size)]
    return "\n".join(lines) + "\n"
