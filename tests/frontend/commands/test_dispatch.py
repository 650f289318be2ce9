"""Typed lines are cut into word, format and argument as GDB cuts them, and resolved as GDB does."""

from __future__ import annotations

import asyncio
import io
import threading

import pytest

from pgdb.errors import PgdbError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.commands.bodies import resolve
from pgdb.frontend.commands.dispatch import Dispatcher
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.show.display import TextDisplay
from pgdb.frontend.show.text import render
from pgdb.merge.classes import EquivalenceClass
from pgdb.records import Value
from tests.fakes.session import ALL, FakeSession


def dispatcher(*typed: str, out: io.StringIO | None = None) -> Dispatcher:
    lines = iter(typed)

    async def read(_: str) -> str | None:
        return next(lines, None)

    workspace = Workspace(FakeSession())  # type: ignore[arg-type]
    return Dispatcher(workspace, TextDisplay(out or io.StringIO()), read_line=read)


@pytest.mark.parametrize(
    ("line", "word", "letters", "argument"),
    [
        ("p/x$sp", "print", "x", "$sp"),
        ("p/d-1", "print", "d", "-1"),
        ("p /x 1", "print", "", "/x 1"),
        ("p/x 1", "print", "x", "1"),
        ("p/x(y)", "print", "x", "(y)"),
        ("x/2i$pc", "x", "2i", "$pc"),
        ("x/-3xw &y", "x", "-3xw", "&y"),
        ("p&main", "print", "", "&main"),
        ("p-1", "p-1", "", ""),
        ("cd/tmp/x", "cd", "", "/tmp/x"),
        ("break*main", "break", "", "*main"),
        ("info b", "info", "", "b"),
        ("rev x", "reverse-search", "", "x"),
        ("do 2", "down", "", "2"),
        ("w print pretty -- p x", "with", "", "print pretty -- p x"),
        ("tr f", "trace", "", "f"),
        ("cat throw", "catch", "", "throw"),
        ("expr 1", "expression", "", "1"),
    ],
)
def test_lines_are_cut_as_gdb_cuts_them(line: str, word: str, letters: str, argument: str) -> None:
    call = dispatcher()._call(line, ALL)
    assert (call.word, call.letters, call.argument) == (word, letters, argument)


@pytest.mark.parametrize(
    ("typed", "named"),
    [("th", "thbreak, thread"), ("e", "echo, edit"), ("ex", "exit, expand"), ("o", "output")],
)
def test_an_ambiguous_word_names_the_words_of_both(typed: str, named: str) -> None:
    with pytest.raises(PgdbError, match=f"'{typed}' is ambiguous: .*{named}"):
        resolve(typed)


@pytest.mark.parametrize(
    ("typed", "word"), [("tree", "tree"), ("tre", "tree"), ("expan", "expand"), ("zzz", "zzz")]
)
def test_beginnings_that_gdb_does_not_have_are_ours(typed: str, word: str) -> None:
    assert resolve(typed)[0] == word


def test_a_line_goes_on_behind_a_backslash() -> None:
    async def read() -> str | None:
        return await dispatcher("b\\", "c", "d").read_whole("a\\")

    assert asyncio.run(read()) == "abc"


@pytest.mark.parametrize("is_whole", [False, True], ids=["shown", "expanded"])
def test_links_are_served_while_the_text_of_a_long_answer_is_made(
    monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    served = threading.Event()

    def make_text(answer: Answer, **_: object) -> str:
        return f"served {served.wait(5)}"

    monkeypatch.setattr(render, "answer", make_text)
    long = Answer("print x", ALL, (EquivalenceClass(ALL, Value("5" * (2 << 20))),))

    async def show() -> str:
        asyncio.get_running_loop().call_soon(served.set)
        out = io.StringIO()
        shows = dispatcher(out=out)
        if is_whole:
            return await shows.expand(long)
        await shows.show(long)
        return out.getvalue()

    assert asyncio.run(show()).strip() == "served True"
