"""The program of ``--script-log``: each request of the user is a call."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdb.errors import CommandError
from pgdb.frontend.store.script_calls import call_of, start_text
from pgdb.frontend.store.script_log import ScriptLog, inner, open_script
from pgdb.overlay.breakpoint_operations import (
    AdvanceBreakpoints,
    BreakpointCommands,
    ChangeBreakpoints,
    InsertBreakpoint,
    ListBreakpoints,
    StartTrace,
    StopTrace,
)
from pgdb.overlay.operation import Operation
from pgdb.overlay.operations import (
    Backtrace,
    Console,
    Detach,
    Evaluate,
    Explore,
    Interrupt,
    Kill,
    ListVariables,
    MachineQuery,
    ReadBlock,
    Reattach,
    Recall,
    Reduce,
    Resume,
    Script,
    SelectFrame,
)
from pgdb.overlay.query_options import QueryOptions
from pgdb.ranks import RankSet

ALL = RankSet.range(0, 4)
NOBODY = RankSet()


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        (Evaluate(expression='s == "x"', format="x"), "evaluate('s == \"x\"', format='x')"),
        (Evaluate(expression="x", whole=True), ""),
        (Backtrace(), "backtrace()"),
        (Backtrace(limit=3, threads=True, fold=False), "backtrace(3, fold=False, threads=True)"),
        (ListVariables(which="locals"), "locals()"),
        (SelectFrame(command="up 2"), "select_frame('up 2')"),
        (Console(command="info threads"), "execute('info threads')"),
        (InsertBreakpoint(command="break f", first_number=1), "execute('break f')"),
        (Script(lines=("if 1", "end")), "script(['if 1', 'end'])"),
        (MachineQuery(command="var create"), "machine_query('var create')"),
        (
            MachineQuery(command="path", arguments=("/x",), options=QueryOptions(resets=True)),
            "machine_query('path', ['/x'], options=pgdb.QueryOptions(resets=True))",
        ),
        (Explore(expression="p", depth=2, most=5), "explore('p', path=[], depth=2, children=5)"),
        (
            Explore(expression="p", path=("a",), children_only=True, most=5),
            "children('p', ['a'], start=0, count=5)",
        ),
        (Reduce(expression="x", limit_bytes=9), "stat('x')"),
        (ReadBlock(expression="u", limit_bytes=9), "array('u')"),
        (Resume(command="next", argument="3"), "run('next', '3')"),
        (Interrupt(), "interrupt()"),
        (Detach(), "detach()"),
        (Kill(), "kill()"),
        (Reattach(), "reattach()"),
        (
            ChangeBreakpoints(command="condition", numbers=("1",), argument="x > 0"),
            "change_breakpoints('condition', ['1'], 'x > 0')",
        ),
        (
            BreakpointCommands(numbers=("1",), commands=("silent",)),
            "breakpoint_commands(['1'], ['silent'])",
        ),
        (ListBreakpoints(numbers=("2",)), "breakpoints('2')"),
        (
            StartTrace(number=1, place="a.c:3", expressions=("x", "y"), every=2),
            "trace('a.c:3', 'x', 'y', every=2)",
        ),
        (StopTrace(number=1), "untrace(1)"),
        (Recall(request_id=3), ""),
        (AdvanceBreakpoints(last=3), ""),
    ],
)
def test_calls(operation: Operation, call: str) -> None:
    assert call_of(operation) == call


@pytest.fixture
def script(tmp_path: Path) -> Iterator[ScriptLog]:
    made = open_script(str(tmp_path / "s.py"))
    made.begin(start_text("launch", ("mpirun", "./a"), "", (), {"fan_out": 3}))
    yield made
    made.close(NOBODY)


def calls_in(script: ScriptLog) -> list[str]:
    """Return the calls of a program, which must be a program at any time."""
    text = script.path.read_text(encoding="utf-8")
    (block,) = (node for node in ast.parse(text).body if isinstance(node, ast.With))
    assert ast.unparse(block.items[0]) == "pgdb.launch(['mpirun', './a'], fan_out=3) as job"
    found = [ast.unparse(each) for each in block.body]
    assert found[0] == "print(job.start_answer)"
    return [each.removeprefix("print(")[:-1] for each in found[1:]]


def test_ranks_are_named_where_they_are_not_all(script: ScriptLog) -> None:
    assert calls_in(script) == []
    script.asked(Evaluate(expression="x"), ALL, ALL, NOBODY)
    script.asked(Evaluate(expression="x"), RankSet([1, 3]), ALL, NOBODY)
    assert calls_in(script) == ["job.evaluate('x')", "job.ranks('1,3').evaluate('x')"]


def test_a_run_that_nobody_waited_for_has_a_limit(script: ScriptLog) -> None:
    script.asked(Resume(command="continue"), ALL, ALL, NOBODY)
    assert calls_in(script) == ["job.run('continue')"]
    script.asked(Interrupt(), ALL, ALL, ALL)
    assert calls_in(script) == ["job.run('continue', timeout_s=1)", "job.interrupt()"]


def test_a_run_that_has_ended_has_none(script: ScriptLog) -> None:
    script.asked(Resume(command="continue"), ALL, ALL, NOBODY)
    script.asked(Backtrace(), ALL, ALL, NOBODY)
    script.asked(Resume(command="continue"), RankSet([1]), ALL, NOBODY)
    script.close(RankSet([2]))
    assert calls_in(script) == [
        "job.run('continue')",
        "job.backtrace()",
        "job.ranks('1').run('continue')",
    ]


def test_requests_of_a_call_belong_to_it(script: ScriptLog) -> None:
    with script.call("job.why()", NOBODY):
        script.asked(Interrupt(), ALL, ALL, NOBODY)
        with script.call("job.tree()", NOBODY):
            pass
    script.asked(Backtrace(), ALL, ALL, NOBODY)
    assert calls_in(script) == ["job.why()", "job.backtrace()"]


def test_work_that_pgdb_begins_by_itself_is_in_no_program(script: ScriptLog) -> None:
    async def interrupt() -> None:
        script.asked(Interrupt(), ALL, ALL, NOBODY)

    async def work() -> None:
        with inner():
            task = asyncio.create_task(interrupt())
        await task
        script.asked(Backtrace(), ALL, ALL, NOBODY)

    asyncio.run(work())
    assert calls_in(script) == ["job.backtrace()"]


def test_a_histogram_and_a_long_array_are_one_call(script: ScriptLog) -> None:
    script.asked(Reduce(expression="x", limit_bytes=9), ALL, ALL, NOBODY)
    script.asked(Reduce(expression="x", bins=4, limit_bytes=9), ALL, ALL, NOBODY)
    script.asked(Reduce(expression="y", limit_bytes=9), ALL, ALL, NOBODY)
    script.asked(Backtrace(), ALL, ALL, NOBODY)
    for _ in range(3):
        script.asked(ReadBlock(expression="u", limit_bytes=9), ALL, ALL, NOBODY)
    assert calls_in(script) == [
        "job.stat('x', bins=4)",
        "job.stat('y')",
        "job.backtrace()",
        "job.array('u')",
    ]


def test_a_program_for_an_attached_job_takes_another_one() -> None:
    text = start_text("attach", (), "4711", (), {"ranks": "0-3"})
    ast.parse(text)
    assert "sys.argv[1] if len(sys.argv) > 1 else '4711'" in text
    assert "pgdb.attach(target, ranks='0-3')" in text
    assert "pids=['1', 'n:2']" in start_text("attach", (), "", ("1", "n:2"), {})


def test_a_full_disk_ends_the_program_and_not_the_session() -> None:
    with open("/dev/full", "r+b", buffering=0) as full:
        script = ScriptLog(full, Path("/dev/full"))
        script.begin("x")
        assert "No space" in script.failure
        script.asked(Backtrace(), ALL, ALL, NOBODY)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be written"):
        open_script(str(tmp_path / "no" / "s.py"))
