"""Arguments of wrong types: each method and function of the API refuses them in words."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import pgdb
from pgdb import aio
from pgdb.errors import UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.argument_types import checks_arguments, checks_call
from pgdb.frontend.startup.job import JobLauncher
from pgdb.frontend.startup.sync import HasDescriptor, Session, attach, launch, open_cores, replay
from pgdb.ranks import RankSet

PLAIN = {"str", "bytes", "int", "float", "bool", "None", "RankSet", "Path", "Sequence[str]"}
SAID = Answer("print x", RankSet(), ())
RIGHT = {
    "str": "x",
    "int": 1,
    "float": 1.0,
    "Sequence[str]": [],
    "RunWord": "next",
    "RankSet": RankSet(),
    "Answer": SAID,
}


@checks_arguments
class Calls:
    def text(self, location: str, *more: str, by: Literal["a", "b"] = "a") -> tuple[Any, ...]:
        return (location, *more, by)

    def numbers(self, count: int = 1, *, timeout_s: float | None = None, all: bool = False) -> Any:
        return count, timeout_s, all

    def several(self, which: str | RankSet, names: Sequence[str] = ()) -> Any:
        return which, names

    def others(self, other: Fraction, said: Answer | None = None) -> Any:
        return other, said


def test_right_arguments_are_passed_on() -> None:
    calls = Calls()
    assert calls.text("main", "x", by="b") == ("main", "x", "b")
    assert calls.numbers(np.int64(3), timeout_s=np.float32(2), all=np.bool_(True))[0] == 3
    assert calls.numbers(timeout_s=Fraction(1, 2), all=False)[1] == Fraction(1, 2)
    assert calls.several(RankSet([1]), ["a", "b"]) == (RankSet([1]), ["a", "b"])
    assert calls.others("left to the method", SAID) == ("left to the method", SAID)  # type: ignore[arg-type]


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "text": (lambda calls: calls.text(3), "text: location is 3, and not a text"),
    "more": (lambda calls: calls.text("a", None), "text: more is None, and not a text"),
    "literal": (lambda calls: calls.text("a", by=1), "text: by is 1, and not one of 'a', 'b'"),
    "other word": (
        lambda calls: calls.text("a", by="c"),
        "text: by is 'c', and not one of 'a', 'b'",
    ),
    "negative time": (
        lambda calls: calls.numbers(timeout_s=-1),
        "numbers: timeout_s is -1, and not a time from 0 to 1e9 seconds",
    ),
    "no time": (
        lambda calls: calls.numbers(timeout_s=float("nan")),
        "numbers: timeout_s is nan, and not a time from 0 to 1e9 seconds",
    ),
    "switch by number": (
        lambda calls: calls.numbers(all=7),
        "numbers: all is 7, and not True or False",
    ),
    "one text": (
        lambda calls: calls.several("0", "ab"),
        "several: names is 'ab', and not a sequence of texts, such as ['a', 'b']",
    ),
    "count": (lambda calls: calls.numbers("2"), "numbers: count is '2', and not a whole number"),
    "time": (
        lambda calls: calls.numbers(timeout_s="x"),
        "numbers: timeout_s is 'x', and neither a number nor None",
    ),
    "switch": (
        lambda calls: calls.numbers(all="no"),
        "numbers: all is 'no', and not True or False",
    ),
    "set": (
        lambda calls: calls.several(b"0"),
        "several: which is b'0', and neither a text nor a RankSet",
    ),
    "answer": (
        lambda calls: calls.others(Fraction(1), "x"),
        "others: said is 'x', and neither an Answer nor None",
    ),
    "names": (
        lambda calls: calls.several("0", ["a", 1]),
        "several: names is ['a', 1], and not a sequence of texts, such as ['a', 'b']",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_named(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(UsageError) as error:
        call(Calls())
    assert str(error.value) == message


def test_missing_arguments_are_named_by_python() -> None:
    with pytest.raises(
        TypeError, match="missing 1 required positional argument: 'location'"
    ) as one:
        Calls().text()  # type: ignore[call-arg]
    assert one.value.__context__ is None  # a traceback has one error


BOTH = {"sync": Session, "aio": aio.Session}


def parameters() -> Iterator[tuple[str, str, str, bool]]:
    """Yield kind of session, method, argument, and whether it is a number."""
    for kind, session in BOTH.items():
        for name, method in inspect.getmembers(session, inspect.isfunction):
            for each in inspect.signature(method).parameters.values():
                types = set(str(each.annotation).split(" | "))
                if not name.startswith("_") and types <= PLAIN:
                    yield kind, name, each.name, bool(types & {"int", "float"})


def call_with(kind: str, name: str, wrong: str, value: Any) -> None:
    """Call a method of a class of sessions, which needs no session: it is refused before."""
    method = getattr(BOTH[kind], name)
    arguments: list[Any] = []
    named: dict[str, Any] = {}
    for each in list(inspect.signature(method).parameters.values())[1:]:
        given = value if each.name == wrong else RIGHT.get(str(each.annotation).split(" | ")[-1])
        if each.name == wrong and each.kind is inspect.Parameter.KEYWORD_ONLY:
            named[each.name] = given
        elif each.name == wrong or (
            each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
            and each.default is inspect.Parameter.empty
        ):
            arguments.append(given)
        elif each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            arguments.append(each.default)
    result = method(None, *arguments, **named)
    if inspect.iscoroutine(result):
        asyncio.run(result)


@pytest.mark.parametrize(
    ("kind", "name", "wrong"), [(kind, name, wrong) for kind, name, wrong, _ in parameters()]
)
def test_each_method_of_a_session_refuses_them(kind: str, name: str, wrong: str) -> None:
    with pytest.raises(UsageError, match=rf"{name}: {wrong} is <object object at \w+>, and n"):
        call_with(kind, name, wrong, object())


@pytest.mark.parametrize(("kind", "name", "wrong"), [each[:3] for each in parameters() if each[3]])
def test_true_is_no_number(kind: str, name: str, wrong: str) -> None:
    with pytest.raises(UsageError, match=rf"{name}: {wrong} is True, and n"):
        call_with(kind, name, wrong, True)


@pytest.mark.parametrize("name", ["attach", "launch", "open_cores", "replay", "report", "restart"])
def test_each_function_for_coroutines_checks_its_arguments(name: str) -> None:
    function = getattr(aio, name)
    first = next(iter(inspect.signature(function).parameters))
    with pytest.raises(UsageError, match=f"^{name}: {first} is <object"):
        asyncio.run(function(object()))


@pytest.mark.parametrize("wrong", [3, "abc", None])
def test_input_of_a_job_is_bytes_for_coroutines_too(wrong: Any) -> None:
    with pytest.raises(UsageError, match=rf"^write: data is {wrong!r}, and not bytes$"):
        JobLauncher.write(None, wrong)  # type: ignore[arg-type]


OPENING: dict[str, tuple[Callable[[], Any], str]] = {
    "one line": (
        lambda: launch("mpirun -n 2 ./app"),
        "launch: argv is 'mpirun -n 2 ./app', and not a sequence of texts, such as ['a', 'b']",
    ),
    "number in a line": (
        lambda: launch(["mpirun", "-n", 2]),  # type: ignore[list-item]
        "launch: argv is ['mpirun', '-n', 2], and not a sequence of texts, such as ['a', 'b']",
    ),
    "name of a file": (
        lambda: launch(["mpirun"], stdin="in"),  # type: ignore[arg-type]
        "launch: stdin is 'in', and neither a whole number nor an open file nor None",
    ),
    "no function": (
        lambda: launch(["mpirun"], on_output=3),  # type: ignore[arg-type]
        "launch: on_output is 3, and neither a function nor None",
    ),
    "part of a pid": (
        lambda: attach(1.5),  # type: ignore[arg-type]
        "attach: target is 1.5, and neither a whole number nor a text",
    ),
    "pid by number": (
        lambda: attach(1, pids=[12]),  # type: ignore[list-item]
        "attach: pids is [12], and not a sequence of texts, such as ['a', 'b']",
    ),
    "list of ranks": (
        lambda: attach(1, ranks=[1, 2]),  # type: ignore[arg-type]
        "attach: ranks is [1, 2], and neither a text nor a RankSet nor None",
    ),
    "core by number": (
        lambda: open_cores([3]),  # type: ignore[list-item]
        "open_cores: cores is [3], and neither a text nor a Path nor a sequence of texts, such as "
        "['a', 'b']",
    ),
    "recording by number": (
        lambda: replay(3),  # type: ignore[arg-type]
        "replay: path is 3, and neither a Path nor a text",
    ),
}


@pytest.mark.parametrize("name", OPENING)
def test_the_functions_that_open_a_session_refuse_them(name: str) -> None:
    call, message = OPENING[name]
    with pytest.raises(UsageError) as error:
        call()
    assert str(error.value) == message


OF_ANSWERS: dict[str, tuple[Callable[[], Any], str]] = {
    "numbers": (
        lambda: pgdb.compare(1, 2),  # type: ignore[arg-type]
        "compare: before is 1, and not an Answer",
    ),
    "no second answer": (
        lambda: pgdb.compare(SAID, None),  # type: ignore[arg-type]
        "compare: after is None, and not an Answer",
    ),
    "other way": (
        lambda: pgdb.compare(SAID, SAID, by="all"),  # type: ignore[arg-type]
        "compare: by is 'all', and not one of 'rank', 'position', 'value'",
    ),
    "stacks of a number": (
        lambda: pgdb.stacks_of(3),  # type: ignore[arg-type]
        "stacks_of: said is 3, and not an Answer",
    ),
}


@pytest.mark.parametrize("name", OF_ANSWERS)
def test_the_functions_about_answers_refuse_them(name: str) -> None:
    call, message = OF_ANSWERS[name]
    with pytest.raises(UsageError) as error:
        call()
    assert str(error.value) == message


def test_each_function_of_the_package_checks_its_arguments() -> None:
    functions = [name for name in pgdb.__all__ if inspect.isfunction(getattr(pgdb, name))]
    assert {"attach", "compare", "stacks_of"} <= set(functions)
    for name in functions:
        function = getattr(pgdb, name)
        first = next(iter(inspect.signature(function).parameters))
        with pytest.raises(UsageError, match=f"^{name}: {first} is <object"):
            function(*(object(), object())[: 1 + (name == "compare")])


def test_paths_and_open_files_are_right_for_a_launch() -> None:
    @checks_call
    def launched(argv: Sequence[str | os.PathLike[str]], stdin: int | HasDescriptor | None) -> Any:
        return argv, stdin

    with open(os.devnull) as file:
        assert launched(("mpirun", Path("app")), file)[1] is file
    assert launched([], 3)[1] == 3
