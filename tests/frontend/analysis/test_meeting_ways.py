"""Ways that bring ranks to one place."""

from __future__ import annotations

import pytest

from pgdb.frontend.analysis.meeting_ways import (
    ANYWHERE,
    MOST_FRAMES,
    OF_SEVERAL_ITERATIONS,
    way_together,
)
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Failure, Frame, Record, Stack


def stacks(*texts: str) -> list[EquivalenceClass[Record]]:
    """Return stacks of ranks 0, 1, …, such as ``act:36 main:77``; innermost frame first."""
    found: list[EquivalenceClass[Record]] = []
    for rank, text in enumerate(texts):
        frames = []
        for level, word in enumerate(text.split()):
            function, _, line = word.partition(":")
            file = "a.c" if line else ""
            frames.append(Frame(level, function, file=file, line=int(line or 0)))
        found.append(EquivalenceClass(RankSet([rank]), Stack(frames=tuple(frames))))
    return found


@pytest.mark.parametrize(
    ("ranks", "way"),
    [
        (
            ("solve:58 main:75", "solve:56 main:75"),
            "'finish --lockstep' brings them together, or 'until LINE --lockstep' with a line of "
            "solve that is ahead of all",
        ),
        (
            ("main:75", "main:78"),
            "'until LINE --lockstep' with a line of main that is ahead of all brings them "
            "together; " + OF_SEVERAL_ITERATIONS,
        ),
        (
            ("usual:22 solve:58 main:75", "unusual:27 solve:56 main:75"),
            "'frame function solve' and then 'finish --lockstep' brings them together, or "
            "'until LINE --lockstep' with a line of solve that is ahead of all",
        ),
        (
            ("usual:22 solve:58 main:75", "solve:58 main:75"),
            "'frame function solve' and then 'finish --lockstep' brings them together, or "
            "'until LINE --lockstep' with a line of solve that is ahead of all",
        ),
        # The functions return to several lines of main.
        (
            ("solve:58 main:75", "solve:56 main:80"),
            "'frame function main' and then 'until LINE --lockstep' with a line of main that is "
            "ahead of all brings them together; " + OF_SEVERAL_ITERATIONS,
        ),
        (
            ("PMPI_Recv act:36 main:77", "main:74"),
            "'frame function main' and then 'until LINE --lockstep' with a line of main that is "
            "ahead of all brings them together; " + OF_SEVERAL_ITERATIONS,
        ),
        (
            ("blind work:9 main:4", "blind work:9 main:4"),
            "'finish --lockstep' brings them together",
        ),
    ],
)
def test_ranks_meet_at_the_end_of_their_innermost_common_call(
    ranks: tuple[str, ...], way: str
) -> None:
    assert way_together(stacks(*ranks)) == way


@pytest.mark.parametrize(
    "ranks",
    [
        ("start:3 clone:1", "main:4"),
        ("?? main:4", "main:5"),
        ("main", "main"),
        # 'frame function' would select another frame of the function.
        ("walk:9 walk:8 walk:7 main:4", "leaf:2 walk:7 main:4"),
        (" ".join(["walk:9"] * MOST_FRAMES), "walk:8 walk:9 main:4"),
    ],
)
def test_ranks_without_a_common_call_meet_at_a_barrier(ranks: tuple[str, ...]) -> None:
    assert way_together(stacks(*ranks)) == ANYWHERE


def test_python_frames_and_failures_are_no_common_call() -> None:
    python = Stack(frames=(Frame(0, "step", language="python"),))
    gone = Failure(message="it runs")
    for record in (python, gone):
        assert way_together([EquivalenceClass(RankSet([0]), record)]) == ANYWHERE
