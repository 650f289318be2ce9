"""The breakpoints that a rank with a new debugger gets: all that still hold, in order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.api.breakpoint_journal import BreakpointJournal
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import (
    AnyOperation,
    BreakpointCommands,
    ChangeBreakpoints,
    Evaluate,
    InsertBreakpoint,
)
from pgdb.ranks import RankSet
from pgdb.records import Breakpoint, BreakpointsMade, Done, Failure, Record, Stop

ALL = RankSet.parse("0-3")


def said(*pairs: tuple[str, Record]) -> Sequence[EquivalenceClass[Record]]:
    return [EquivalenceClass(RankSet.parse(ranks), record) for ranks, record in pairs]


def made(*numbers: int, temporary: bool = False) -> BreakpointsMade:
    disposition = "del" if temporary else "keep"
    return BreakpointsMade(
        tuple(
            Breakpoint(number=number, kind="breakpoint", disposition=disposition)
            for number in numbers
        )
    )


class Journalled:
    """A log, and how commands about breakpoints come to it."""

    def __init__(self) -> None:
        self.log = BreakpointJournal()

    def insert(self, *numbers: int, ranks: RankSet = ALL, temporary: bool = False) -> None:
        word = "tbreak" if temporary else "break"
        self.log.take(
            f"{word} f{numbers[0]}",
            InsertBreakpoint(command=f"{word} f{numbers[0]}", first_number=numbers[0]),
            ranks,
            said((str(ranks), made(*numbers, temporary=temporary))),
        )

    def change(self, command: str, *numbers: str, ranks: RankSet = ALL, argument: str = "") -> None:
        operation = ChangeBreakpoints(command=command, numbers=numbers, argument=argument)
        self.log.take(f"{command} {' '.join(numbers)}".strip(), operation, ranks, ())

    def lines(self, ranks: str) -> list[str]:
        return [each.line for each in self.log.of(RankSet.parse(ranks))]


def test_what_was_asked_for_is_asked_for_again_in_order() -> None:
    kept = Journalled()
    kept.insert(1)
    kept.insert(2, ranks=RankSet.parse("2-3"))
    kept.change("condition", "1", argument="x > 3")
    commands = BreakpointCommands(numbers=("2",), commands=("print x",))
    kept.log.take("commands 2", commands, RankSet.parse("2-3"), ())
    assert kept.lines("0") == ["break f1", "condition 1"]
    assert kept.lines("3") == ["break f1", "break f2", "condition 1", "commands 2"]
    (_, again, *_) = kept.log.of(RankSet.parse("1-2"))
    assert again.ranks == RankSet([2])
    assert again.operation == InsertBreakpoint(command="break f2", first_number=2)


def test_a_deleted_one_is_gone_with_all_that_was_about_it_alone() -> None:
    kept = Journalled()
    kept.insert(1)
    kept.insert(2)
    kept.change("disable", "1", "2")
    kept.change("ignore", "1", argument="5")
    kept.change("delete", "1", ranks=RankSet.parse("0-1"))
    assert kept.lines("0") == ["break f2", "disable 1 2"]
    (_, disabled) = kept.log.of(RankSet([0]))
    assert isinstance(disabled.operation, ChangeBreakpoints)
    assert disabled.operation.numbers == ("2",)
    assert kept.lines("2") == ["break f1", "break f2", "disable 1 2", "ignore 1"]
    kept.change("delete")
    assert kept.lines("0-3") == []


def test_a_temporary_one_is_gone_where_it_was_hit() -> None:
    kept = Journalled()
    kept.insert(1, temporary=True)
    kept.insert(2)
    hit = Stop(reason="breakpoint-hit", breakpoint=1)
    other = Stop(reason="breakpoint-hit", breakpoint=2)
    kept.log.hit([EquivalenceClass(RankSet([0]), hit), EquivalenceClass(RankSet([1]), other)])
    assert kept.lines("0") == ["break f2"]
    assert kept.lines("1") == ["tbreak f1", "break f2"]


def test_one_of_several_that_a_command_made_is_deleted_and_the_command_stays() -> None:
    kept = Journalled()
    kept.insert(1, 2, 3)
    kept.change("delete", "2")
    assert kept.lines("0") == ["break f1"]
    kept.change("delete", "1", "3")
    assert kept.lines("0") == []


@pytest.mark.parametrize("answer", [Failure(message="No symbol"), Done()])
def test_what_nobody_has_is_not_asked_for_again(answer: Record) -> None:
    kept = Journalled()
    operation = InsertBreakpoint(command="break f", first_number=1)
    kept.log.take("break f", operation, ALL, said(("0-3", answer)))
    assert kept.lines("0-3") == []


def test_what_nobody_could_be_asked_for_is_asked_for_when_they_are_back() -> None:
    kept = Journalled()
    for number, word in enumerate(("break", "tbreak", "rbreak"), 1):
        operation = InsertBreakpoint(command=f"{word} f", first_number=number)
        kept.log.take(f"{word} f", operation, ALL, ())
    # Of rbreak nobody knows how many it would make, so that their numbers cannot be kept.
    assert kept.lines("0-3") == ["break f", "tbreak f"]
    assert [kept.log.has(number) for number in (1, 2, 3)] == [True, True, False]
    kept.log.hit([EquivalenceClass(RankSet.parse("1"), Stop(reason="bp", breakpoint=2))])
    assert kept.lines("0") == ["break f", "tbreak f"] and kept.lines("1") == ["break f"]
    kept.change("delete", "1")
    assert kept.lines("0") == ["tbreak f"] and not kept.log.has(1)


def test_ranks_that_refused_are_not_asked_again_but_those_that_were_gone_are() -> None:
    kept = Journalled()
    operation = InsertBreakpoint(command="break f", first_number=1)
    # Rank 3 could not answer.
    kept.log.take(
        "break f", operation, ALL, said(("0-1", made(1)), ("2", Failure(message="No symbol")))
    )
    (again,) = kept.log.of(ALL)
    assert again.ranks == RankSet.parse("0-1,3")


@pytest.mark.parametrize(
    "operation",
    [
        Evaluate(expression="1"),
        ChangeBreakpoints(command="delete", numbers=("7",)),
        ChangeBreakpoints(command="disable", numbers=()),
    ],
)
def test_what_is_about_no_breakpoint_changes_nothing(operation: AnyOperation) -> None:
    kept = Journalled()
    kept.log.take("some command", operation, ALL, ())
    assert kept.lines("0-3") == []


def test_what_is_asked_for_again_is_no_second_one() -> None:
    kept = Journalled()
    kept.insert(1)
    (again,) = kept.log.of(RankSet([2]))
    kept.log.take(again.line, again.operation, again.ranks, said(("2", made(1))))
    assert kept.lines("2") == ["break f1"]
    assert kept.lines("0") == ["break f1"]


def test_a_rank_whose_debugger_is_lost_gets_the_breakpoint_later() -> None:
    journal, operation = BreakpointJournal(), InsertBreakpoint(command="break hit", first_number=1)
    made = BreakpointsMade(breakpoints=(Breakpoint(number=1, kind="breakpoint"),))
    lost = Failure(message="its GDB ignores interrupts", has_no_debugger=True)
    refused = Failure(message='Function "hit" not defined.')
    classes = [
        EquivalenceClass(RankSet([0]), made),
        EquivalenceClass(RankSet([1]), lost),
        EquivalenceClass(RankSet([2]), refused),
    ]
    journal.take("break hit", operation, RankSet(range(3)), classes)
    assert [bool(journal.of(RankSet([rank]))) for rank in range(3)] == [True, True, False]


@pytest.mark.parametrize("number", ["x", "", "-1", "1e3", "²"])
def test_a_text_that_is_no_number_is_refused(number: str) -> None:
    log = Journalled()
    log.insert(1)
    with pytest.raises(UsageError, match="is no number of a breakpoint"):
        log.change("disable", number)
    assert log.lines("0-3") == ["break f1"]
