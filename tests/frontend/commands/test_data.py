"""Commands for numbers in memory: code of the user's that fails or does not return."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from pathlib import Path
from typing import cast

import numpy
import pytest

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis.arrays import Arrays
from pgdb.frontend.commands.dispatch import Dispatcher
from pgdb.frontend.commands.table import COMMANDS, Call, Outcome, Shown
from pgdb.frontend.show.export import pictures
from pgdb.frontend.show.text import render
from pgdb.ranks import RankSet

DEADLINE_S = 20.0


class FakeDispatcher:
    """A dispatcher with two ranks, which hold four numbers each."""

    def __init__(self) -> None:
        self.session = self
        self.width = 80
        self.said: list[str] = []

    def ranks(self, ranks: RankSet) -> FakeDispatcher:
        return self

    async def array(self, expression: str) -> Arrays:
        by_rank = {rank: numpy.arange(4.0) + rank for rank in range(2)}
        return Arrays(expression, RankSet(by_rank), by_rank)

    def say(self, text: str) -> None:
        self.said.append(text)


async def typed(dispatcher: FakeDispatcher, line: str) -> Outcome:
    word, _, argument = line.partition(" ")
    command = COMMANDS.find(word)
    assert command is not None
    call = Call(
        dispatcher=cast(Dispatcher, dispatcher),
        ranks=RankSet(range(2)),
        word=word,
        letters="",
        argument=argument,
        line=line,
        background=False,
    )
    return await command.handler(call)


def write_map(directory: Path, body: str) -> Path:
    path = directory / "maps.py"
    path.write_text(body, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def put(rank, own): raise SystemExit(3)", "the map failed for rank 0: SystemExit: 3"),
        ("import sys\nsys.exit('bye')", "maps.py: SystemExit: bye"),
        ("def put(rank, own): raise KeyboardInterrupt", "u: the map raised KeyboardInterrupt"),
        ("def put(rank, own): return [0] * 10**19", "MemoryError|OverflowError"),
    ],
)
def test_a_map_that_wants_to_end_all(tmp_path: Path, body: str, message: str) -> None:
    path = write_map(tmp_path, body)
    with pytest.raises(CommandError, match=message):
        asyncio.run(typed(FakeDispatcher(), f"decompose u --dims 8 --map {path}:put"))


def test_a_map_that_does_not_return_is_given_up(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    body = f"def put(rank, own):\n    with open({str(pipe)!r}) as pipe:\n        pipe.read()\n"
    path = write_map(tmp_path, body)
    dispatcher = FakeDispatcher()
    held: list[int] = []
    done = threading.Event()

    async def interrupted() -> None:
        task = asyncio.create_task(typed(dispatcher, f"decompose u --dims 8 --map {path}:put"))
        held.append(await asyncio.to_thread(os.open, pipe, os.O_WRONLY))  # until the map reads
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    def session() -> None:
        asyncio.run(interrupted())  # which would wait for a thread of asyncio's
        done.set()

    threading.Thread(target=session, daemon=True).start()
    try:
        assert done.wait(DEADLINE_S)
    finally:
        pipe.unlink()
        for each in held:
            os.close(each)
    assert dispatcher.said == [
        f"(PGDB gave up {path}:put; a call that does not return runs on until 'quit')"
    ]


class FortranDispatcher(FakeDispatcher):
    """A dispatcher with a few ranks, whose array has the lower bounds of a declaration."""

    def __init__(self, shape: tuple[int, ...], lower: tuple[int, ...], ranks: int = 2) -> None:
        super().__init__()
        self._shape, self._lower, self._ranks = shape, lower, ranks

    async def array(self, expression: str) -> Arrays:
        by_rank = {rank: numpy.ones(self._shape) for rank in range(self._ranks)}
        return Arrays(expression, RankSet(by_rank), by_rank, lower=self._lower)


@pytest.mark.parametrize(
    ("line", "shape", "lower", "labels"),
    [
        ("plot a", (14,), (-1,), "     -1        4         9\n"),
        ("plot a --line", (14,), (-1,), "   -1                       4                        9\n"),
        ("plot b", (3, 2), (5, -2), "     -2\n  5 |....|\n  6 |"),
    ],
)
def test_the_labels_of_a_drawing_are_the_indices_of_fortran(
    line: str, shape: tuple[int, ...], lower: tuple[int, ...], labels: str
) -> None:
    outcome = asyncio.run(typed(FortranDispatcher(shape, lower), line))
    assert outcome.text is not None and labels in outcome.text


@pytest.mark.parametrize(
    ("line", "ranks", "shape", "lower", "first"),
    [
        ("plot a", 2, (14,), (-1,), (0, -1)),
        ("plot b", 1, (3, 2), (5, -2), (5, -2)),
        ("plot b", 2, (3, 2), (5, -2), (0, 0)),  # elements over one axis
        ("plot c", 1, (3, 2), (), (0, 0)),
    ],
)
def test_a_heat_map_in_a_file_has_the_indices_of_fortran(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    ranks: int,
    shape: tuple[int, ...],
    lower: tuple[int, ...],
    first: tuple[int, int],
) -> None:
    found: list[object] = []
    monkeypatch.setattr(pictures, "check", lambda path: None)
    monkeypatch.setattr(pictures, "save_heat", lambda *args, **named: found.append(named["first"]))
    dispatcher = FortranDispatcher(shape, lower, ranks)
    asyncio.run(typed(dispatcher, f"{line} -o {tmp_path}/a.png"))
    assert found == [first]


@pytest.mark.parametrize(
    ("line", "ends"),
    [
        ("plot trace:1:u --line", ("  1 ", "4", "row")),
        ("plot trace:1", ("1", "4", "rows: rank, columns: row")),
        ("plot u --line", ("0 ", "3", "index")),
    ],
)
def test_a_plot_of_a_trace_counts_rows_as_traces_does(
    line: str, ends: tuple[str, str, str]
) -> None:
    shown = asyncio.run(typed(FakeDispatcher(), line))
    assert isinstance(shown, Shown)
    first, last, axis = ends
    *_, ticks, name = shown.text.splitlines()
    if "--line" in line:
        assert ticks.split()[0] == first.strip() and ticks.split()[-1] == last, shown.text
        assert name.strip() == axis, shown.text
    else:
        assert axis in shown.text, shown.text


def test_expand_after_plot_is_about_the_plot() -> None:
    shown = asyncio.run(typed(FakeDispatcher(), "plot u"))
    assert isinstance(shown, Shown)
    assert shown.answer is not None
    assert shown.answer.command == "plot u"
    assert shown.answer.ok
    assert render.answer(shown.answer, whole=True) == (
        "[0-1] has been drawn; 'print u' and 'dump u FILE' give the numbers"
    )


@pytest.mark.parametrize(
    ("cut", "drawn"),
    [
        ("", ["plane [:,:,1] (--slice draws another one)", "1 3", "2 4"]),
        ("--slice 1,:,:", ["plane [1,:,:]", "1 2", "3 4"]),
        ("--slice :,1,:", ["plane [:,1,:]", "2 3", "3 4"]),
        ("--slice :,:,0", ["plane [:,:,0]", "0 2", "1 3"]),
        ("--slice :,1,0", ["line [:,1,0]", "2 3"]),
    ],
)
def test_decompose_draws_the_slice(cut: str, drawn: list[str]) -> None:
    line = f"decompose u --dims 2,2,2 --grid 2 {cut}".strip()
    outcome = asyncio.run(typed(FakeDispatcher(), line))
    assert isinstance(outcome, Shown)
    lines = [" ".join(each.split()) for each in outcome.text.splitlines()]
    numbers = [each for each in lines[1:] if each]
    assert numbers[-len(drawn) :] == drawn


@pytest.mark.parametrize(
    ("cut", "why"),
    [
        ("1,:", "2 parts for an array of 3 dimensions"),
        ("1,1,1", "one or two parts must be ':'"),
        (":,:,:", "one or two parts must be ':'"),
        ("2,:,:", "index 2 is outside of a dimension of 2"),
        ("x,:,:", "takes indices and ':'"),
        ("-1,:,:", "takes indices and ':'"),
        ("1,:,: -o u.npz", "--slice is for drawings"),
    ],
)
def test_a_slice_that_does_not_fit_is_refused(cut: str, why: str) -> None:
    line = f"decompose u --dims 2,2,2 --grid 2 --slice {cut}"
    with pytest.raises(UsageError, match=re.escape(why)):
        asyncio.run(typed(FakeDispatcher(), line))
