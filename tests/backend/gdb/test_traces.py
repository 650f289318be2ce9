"""Traces of one rank: what GDB's side writes becomes records; a GDB that is played."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from typing import Any, cast

import pytest

from pgdb.backend.gdb import traces
from pgdb.backend.gdb.mi import Result
from pgdb.backend.gdb.session import GdbSession
from pgdb.overlay.breakpoint_operations import ListTrace, StartTrace, StopTrace
from pgdb.overlay.messages import ReadBlock, Reduce
from pgdb.records import Block, Done, Failure, Text, Variable, Variables


class Played:
    """A GDB that gives one prepared answer and keeps what it was asked."""

    def __init__(self, answer: object, kind: str = "done") -> None:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        payload = {"msg": text} if kind == "error" else None
        self._answer = Result(kind, payload, text)
        self.asked = ""

    async def send(self, command: str) -> Result:
        self.asked = command
        return self._answer


def session(gdb: Played) -> GdbSession:
    return cast(GdbSession, gdb)


def test_the_place_of_a_trace_is_reported() -> None:
    gdb = Played({"places": [["f", "a.c", 7, "app"]]})
    operation = StartTrace(number=2, place="f", expressions=('s["x"]',), condition="i > 1", every=3)
    assert asyncio.run(traces.start(session(gdb), operation)) == Text("f at a.c:7")
    assert 'start(2, \\"f\\", [\\"s[\\\\\\"x\\\\\\"]\\"], \\"i > 1\\", 3, 0)' in gdb.asked


def test_many_places_are_counted() -> None:
    gdb = Played({"places": [["f", "a.c", line, "app"] for line in range(1, 6)]})
    operation = StartTrace(number=1, place="f", expressions=("x",))
    text = asyncio.run(traces.start(session(gdb), operation))
    assert text == Text("f at a.c:1, f at a.c:2, f at a.c:3, 2 more")


@pytest.mark.parametrize(
    ("places", "text"),
    [
        ([["", "", 0, "libx.so"]] * 2, "f at a.c:1, 2 places in libx.so"),
        ([["", "", 0, "libx.so"]], "f at a.c:1, 1 place in libx.so"),
        ([["", "", 0, ""], ["g", "", 0, ""]], "f at a.c:1, g, 1 place without line information"),
        (
            [["", "", 0, lib] for lib in ("libx.so", "liby.so", "libz.so", "libz.so")],
            "f at a.c:1, 1 place in libx.so, 1 place in liby.so, 2 more",
        ),
        ([["g", "", 0, "libx.so"]], "f at a.c:1, g in libx.so"),
    ],
)
def test_places_without_lines_are_counted_for_each_library(places: list[Any], text: str) -> None:
    gdb = Played({"places": [["f", "a.c", 1, "app"], *places]})
    operation = StartTrace(number=1, place="f", expressions=("x",))
    assert asyncio.run(traces.start(session(gdb), operation)) == Text(text)


def test_one_place_without_a_line_is_named_as_it_was_typed() -> None:
    gdb = Played({"places": [["", "", 0, "libx.so"]]})
    operation = StartTrace(number=1, place="f", expressions=("1",))
    assert asyncio.run(traces.start(session(gdb), operation)) == Text("f in libx.so")


@pytest.mark.parametrize(
    ("gdb", "message"),
    [
        (Played({"error": "No symbol"}), "No symbol"),
        (Played("Python scripting is not supported"), "GDB has no Python, which traces need"),
        (Played("no", kind="error"), "no"),
    ],
)
def test_what_cannot_be_is_a_failure(gdb: Played, message: str) -> None:
    operation = StartTrace(number=1, place="f", expressions=("x",))
    found = asyncio.run(traces.start(session(gdb), operation))
    assert isinstance(found, Failure)
    assert found.message == message


def test_a_line_of_python_is_refused_with_a_way_out() -> None:
    gdb = Played({"error": "No source file named ring.py."})
    operation = StartTrace(number=1, place="ring.py:7", expressions=("x",))
    found = asyncio.run(traces.start(session(gdb), operation))
    assert isinstance(found, Failure)
    assert "not at lines of Python; 'break FILE.py:LINE'" in found.message
    other = StartTrace(number=1, place="ring.c:7", expressions=("x",))
    assert asyncio.run(traces.start(session(gdb), other)) == Failure(
        message="No source file named ring.py."
    )


def test_rows_are_variables_by_row_and_column() -> None:
    gdb = Played({"total": 9, "is_full": True, "columns": [["1", "2"], ["0.5", '"x"']]})
    rows = asyncio.run(traces.rows(session(gdb), ListTrace(number=1, begin=7, count=2)))
    assert rows == Variables(
        (
            Variable("rows", "9"),
            Variable("full", "1"),
            Variable("7.0", "1"),
            Variable("8.0", "2"),
            Variable("7.1", "0.5"),
            Variable("8.1", '"x"'),
        )
    )


@pytest.mark.parametrize(
    ("start", "count", "values"), [(0, 0, (1, 2, 3)), (1, 1, (2,)), (1 << 62, 0, ())]
)
def test_numbers_are_a_block(start: int, count: int, values: tuple[int, ...]) -> None:
    data = base64.b64encode(struct.pack("=3q", 1, 2, 3)).decode()
    gdb = Played({"letter": "q", "data": data})
    operation = ReadBlock(expression="trace:1:i", start=start, count=count, limit_bytes=100)
    block = asyncio.run(traces.block(session(gdb), operation))
    assert isinstance(block, Block)
    assert block.dtype[1:] == "i8"
    assert block.shape == (3,)
    assert block.data == struct.pack(f"={len(values)}q", *values)
    assert 'numbers(1, \\"i\\")' in gdb.asked


def test_more_than_the_limit_is_refused() -> None:
    data = base64.b64encode(bytes(32)).decode()
    gdb = Played({"letter": "d", "data": data})
    operation = ReadBlock(expression="trace:1", limit_bytes=31)
    refused = asyncio.run(traces.block(session(gdb), operation))
    assert isinstance(refused, Failure)
    assert "array-limit" in refused.message


def test_a_trace_ends() -> None:
    gdb = Played("")
    assert asyncio.run(traces.stop(session(gdb), StopTrace(number=3))) == Done()
    assert "stop(3)" in gdb.asked


def test_a_second_look_has_the_rows_of_the_first() -> None:
    numbers = [1, 2]

    class Running:
        async def send(self, command: str) -> Result:
            data = base64.b64encode(struct.pack(f"={len(numbers)}q", *numbers)).decode()
            return Result("done", None, json.dumps({"letter": "q", "data": data}))

    async def test() -> None:
        looks = traces.TraceLooks(cast(GdbSession, Running()))

        async def look(request_id: int, of_look: int = 0) -> tuple[int, ...]:
            operation = Reduce(expression="trace:1:i", limit_bytes=100, of_look=of_look)
            block = await looks.numbers(operation, request_id)
            assert isinstance(block, Block)
            return struct.unpack(f"={len(block.data) // 8}q", block.data)

        assert await look(7) == (1, 2)
        numbers.append(3)
        assert await look(8) == (1, 2, 3)
        assert await look(9, of_look=7) == (1, 2)
        numbers.clear()
        assert await look(10) == ()
        numbers.append(4)
        assert await look(11, of_look=10) == ()

    asyncio.run(test())
