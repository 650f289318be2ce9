"""Python inside GDB that sets ranks running: PGDB waits for them, and every text has its place."""

from __future__ import annotations

import pytest

from tests.conftest import Build
from tests.support.programs import Mpi
from tests.support.terminal import Finished, ex, run_json

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

STEP_TWICE = (
    'python print("before"); gdb.execute("next"); gdb.execute("next"); '
    'print("after line", gdb.selected_frame().find_sal().line)'
)


def lines_of_stops(finished: Finished, command: str) -> set[int]:
    """Return the lines where ranks are by the answers to a command."""
    return {
        each["record"]["frame"]["line"]
        for answer in finished.answers(command)
        for each in answer["classes"]
    }


def printed(finished: Finished) -> str:
    """Return all text that belongs to no answer."""
    return "\n".join(each["text"] for each in finished.of_type("output"))


def test_the_next_command_comes_when_the_code_has_ended(mpi: Mpi, build: Build) -> None:
    program = build("bodies.c")
    finished = run_json(
        "launch",
        *ex("break work", "continue", STEP_TWICE, "print sum", "delete"),
        *ex('python gdb.execute("finish")', "print round", "kill"),
        *mpi.line(2, program),
    )
    assert "missing" in finished.answers(STEP_TWICE)[0]
    assert lines_of_stops(finished, STEP_TWICE) == {program.line("work") + 1}
    said = printed(finished)
    assert "before" in said and f"after line {program.line('work') + 1}" in said
    # The ranks are stopped, and no answer says that they run.
    for command in ("print sum", "print round"):
        (answer,) = finished.answers(command)
        assert not answer["missing"]["running"]
        assert all(each["record"]["kind"] == "value" for each in answer["classes"]), answer


def test_a_rank_that_code_has_set_running_is_interrupted_each_time(mpi: Mpi, build: Build) -> None:
    code = 'python gdb.execute("continue")'
    again = (f"timeout 0.5 {code}", "interrupt", "print hit_count > 0")
    finished = run_json("launch", *ex(*again, *again, "kill"), *mpi.line(1, build("storm.c")))
    first, second = finished.answers(code)
    assert first["missing"]["running"] == second["missing"]["running"] == "0"
    values = [each["classes"][0]["record"] for each in finished.answers("print hit_count > 0")]
    assert [each["text"] for each in values] == ["1", "1"]


def test_each_text_belongs_to_its_command(mpi: Mpi, build: Build) -> None:
    half = 'python import sys; sys.stdout.write("half a line")'
    as_text = r'python print(repr(gdb.execute("print 1+1\necho a", to_string=True)))'
    script = r'python gdb.execute("define made\nprint 44\nend")'
    finished = run_json(
        "launch",
        *ex(half, "print 3", as_text, script, "made", "kill"),
        *mpi.line(2, build("bodies.c")),
    )
    texts = {
        answer["command"]: each["record"]["text"]
        for answer in finished.of_type("answer")
        for each in answer["classes"]
        if "text" in each["record"]
    }
    assert half not in texts and "half a line" in printed(finished)
    assert texts["print 3"] == "3"
    assert texts[as_text].endswith(r" = 2\na'")
    assert "~" not in texts[as_text]
    assert texts["made"].endswith(" = 44")


def test_a_wait_that_is_over_before_the_code_is_explained(mpi: Mpi, build: Build) -> None:
    code = 'python gdb.execute("continue")'
    finished = run_json(
        "launch", *ex(f"timeout 0.5 {code}", "kill"), *mpi.line(1, build("storm.c"))
    )
    assert f"[0] still running 0.5 s after '{code}'" in printed(finished), finished.out
