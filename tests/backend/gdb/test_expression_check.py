"""Checks of expressions at a place: GDB's errors that are final; a GDB that is played."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest

from pgdb.backend.gdb import expression_check
from pgdb.backend.gdb.mi import Result
from pgdb.backend.gdb.session import GdbSession
from pgdb.overlay.breakpoint_operations import CheckExpression
from pgdb.records import Done, Failure, Record


class Played:
    """A GDB that gives one prepared answer and keeps what it was asked."""

    def __init__(self, why: str, *, is_known: bool) -> None:
        self._text = json.dumps({"why": why, "is_known": is_known})
        self.asked = ""

    async def send(self, command: str) -> Result:
        self.asked = command
        return Result("done", None, self._text)


def checked(gdb: object, expression: str = "x", *, has_own_syntax: bool = False) -> Record:
    operation = CheckExpression(place="f", expression=expression)
    check = expression_check.check(cast(GdbSession, gdb), operation, has_own_syntax=has_own_syntax)
    return asyncio.run(check)


SYNTAX = "A syntax error in expression, near `'."
NAME = 'No symbol "x" in current context.'


@pytest.mark.parametrize(
    ("why", "is_known", "is_refused"),
    [
        ("", True, False),
        (SYNTAX, True, True),
        (SYNTAX, False, True),
        ("Unmatched single quote.", False, True),
        (NAME, True, True),
        # The place is of Python, or of a library that is loaded later.
        (NAME, False, False),
        ("There is no member named y.", True, True),
        ("Attempt to extract a component of a value that is not a structure.", True, True),
        # It has a value, and cannot be a condition.
        ("Junk at end of arguments.", True, False),
    ],
)
def test_final_errors_are_those_about_syntax_and_names(
    why: str, is_known: bool, is_refused: bool
) -> None:
    found = checked(Played(why, is_known=is_known))
    assert found == (Failure(message=why) if is_refused else Done())


def test_an_expression_that_is_rewritten_has_a_syntax_of_its_own() -> None:
    for why in (SYNTAX, "There is no member named y."):
        assert checked(Played(why, is_known=True), has_own_syntax=True) == Done()


@pytest.mark.parametrize(
    ("expression", "asked"),
    [("py:loss + 1", "0 + 1"), ("-elements 4 -- a - b", "a - b"), ("-a", "-a")],
)
def test_gdb_reads_the_part_that_is_an_expression_of_its_own(expression: str, asked: str) -> None:
    gdb = Played("", is_known=True)
    checked(gdb, expression)
    assert f'check(\\"f\\", \\"{asked}\\")' in gdb.asked


def test_a_gdb_without_python_checks_nothing() -> None:
    class Old(Played):
        async def send(self, command: str) -> Result:
            return Result("done", None, "Python scripting is not supported")

    assert checked(Old("", is_known=True)) == Done()
