"""Answers to ``backtrace`` of which ``expand`` shows more."""

from __future__ import annotations

from typing import cast

import pytest

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.session import Session
from pgdb.frontend.commands.whole_arguments import shows_more
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Frame, Record, Stack, Text, Variable


class Job:
    """A session, or a recording of one."""

    def __init__(self, *, is_recorded: bool = False) -> None:
        self.is_recorded = is_recorded


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


@pytest.mark.parametrize("file", ["sweep.f90", "sweep.F", "lib/sweep.for"])
def test_a_stack_with_fortran_is_not_asked_for_more(file: str) -> None:
    assert not says(stack("...", file))
