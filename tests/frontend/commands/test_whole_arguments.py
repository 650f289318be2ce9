"""Answers to ``backtrace`` of which ``expand`` shows more."""

from __future__ import annotations

import asyncio
from typing import cast

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.session import Session
from pgdb.frontend.commands.whole_arguments import shows_more, with_whole_arguments
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Frame, Record, Stack, Text, Variable


class Job:
    """A session, or a recording of one."""

    def __init__(self, *, is_recorded: bool = False, earlier_requests: int = 0) -> None:
        self.is_recorded = is_recorded
        self.earlier_requests = earlier_requests


def stack(value: str, file: str = "a.cc") -> Stack:
    arguments = (Variable(name="mesh", value=value), Variable(name="n", value="3"))
    outer = Frame(level=1, function="main", file=file, line=9)
    return Stack(frames=(Frame(level=0, function="f", arguments=arguments), outer))


def says(record: Record, command: str = "backtrace", *, is_recorded: bool = False) -> bool:
    ranks = RankSet.parse("0-3")
    answer = Answer(command=command, ranks=ranks, classes=(EquivalenceClass(ranks, record),))
    return shows_more(cast(Session, Job(is_recorded=is_recorded)), answer)


def test_left_out_arguments_of_a_stack_can_be_shown() -> None:
    assert says(stack("...")) and says(stack("..."), "backtrace 2")


def test_nothing_more_is_shown_of_other_answers() -> None:
    assert not says(stack("{x = 1}"))
    assert not says(stack("0x4a2b 'aaa'..."))  # a limit of GDB's, which holds for "expand", too
    assert not says(stack("..."), "frame 1")
    assert not says(Text(text="..."))
    assert not says(stack("..."), is_recorded=True)


def test_arguments_of_fortran_can_be_shown_too() -> None:
    assert says(stack("...", "sweep.f90"))


def test_ranks_of_a_later_launch_are_not_asked() -> None:
    ranks = RankSet.parse("0-3")
    classes = (EquivalenceClass[Record](ranks, stack("...")),)
    answer = Answer(command="backtrace", ranks=ranks, classes=classes, request_id=7)
    session = cast(Session, Job(earlier_requests=7))
    found, notes = asyncio.run(with_whole_arguments(session, answer, []))
    assert found is answer
    assert notes == ["the job was launched again since: what was left out is not known"]
