"""Traces: ranks collect values at a place and run on."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

import pgdb
from tests.conftest import StartJob
from tests.support.programs import Builder, Mpi
from tests.support.terminal import assert_untouched, ex, run_json, run_pgdb

pytestmark = pytest.mark.mpi

STEPS = 40


def test_values_of_each_step_are_a_table(mpi: Mpi, builder: Builder, tmp_path: Path) -> None:
    program = builder.build(mpi, "steps.c")
    file = tmp_path / "steps.csv"
    line = program.line("record")
    commands = (
        f"trace steps.c:{line} now.step, now.residual rank now.phase now.half",
        "trace record step if step >= 10 --every 10 --first 2",
        "traces",
        f"break {program.line('end')}",
        "continue",
        "traces 1 --from 5 --last 3",
        "traces 2",
        "traces 2 --from 100",
        "stat trace:1:now.residual",
        f"traces 1 --csv {file}",
        "continue",
        "traces 2",
        "stat trace:2:step",
        "untrace",
        "traces",
        "stat trace:2:step",
    )
    text = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program)).out
    assert f"[0-2] Trace 1: record at {program.source}:{line}; collects now.step" in text
    assert f"trace 1: {STEPS} rows ('traces 1')" in text
    rows = [each.split(None, 1) for each in text.split("row  now.step")[1].splitlines()[1:4]]
    assert [number for number, _ in rows] == ["5", "6", "7"]
    assert "[0-1] 0.14285714285714285, [2] 0.39285714285714285" in rows[2][1]
    assert "[0] 0, [1] 1, [2] 2" in rows[2][1]
    assert text.count("trace 2: 2 rows on [0-2]\nrow  step\n  1  10\n  2  20") == 2
    assert "[0-2] trace:1:now.residual: 120 numbers on 3 ranks" in text
    assert "[0-2] trace:2:step: 6 numbers on 3 ranks" in text
    assert "traces: trace 2 has 2 rows, and no row 100" in text
    assert "there are no traces" in text
    assert "there is no trace 2 on this rank" in text
    with file.open(newline="") as opened:
        table = list(csv.DictReader(opened))
    assert len(table) == 3 * STEPS
    assert float(table[2 * STEPS + 39]["now.residual"]) == 1 / 40 + 0.25
    assert float(table[3]["now.half"]) == 1.5
    assert "odd" in table[1]["now.phase"]


def test_a_trace_of_a_function_is_at_the_line_of_a_breakpoint(mpi: Mpi, builder: Builder) -> None:
    program = builder.build(mpi, "steps.c")
    commands = ex("trace record step", "break record")
    text = run_pgdb("launch", "--batch", *commands, *mpi.line(2, program)).out
    line = re.search(r"Breakpoint \d+: file .*steps.c, line (\d+)", text)
    assert line is not None, text
    assert re.search(rf"^\[0-1\] Trace 1: record at .*steps.c:{line[1]}; ", text, re.M), text


def test_places_in_a_library_without_lines_are_counted(mpi: Mpi, builder: Builder) -> None:
    """MPI has no lines where its debug information is not installed."""
    program = builder.build(mpi, "steps.c")
    text = run_pgdb("launch", "--batch", *ex("trace MPI_Finalize 1"), *mpi.line(2, program)).out
    place = re.search(r"^\[0-1\] Trace 1: (.*); collects 1$", text, re.M)
    assert place is not None, text
    assert place[1] and all(part.strip() for part in place[1].split(",")), text
    assert re.search(r"lib[a-z_]*mpi| at ", place[1]), text


def test_json_has_the_new_rows_of_each_run(mpi: Mpi, builder: Builder) -> None:
    program = builder.build(mpi, "steps.c")
    commands = ("break record if step == 2", "trace record step, rank", "c", "delete", "c")
    finished = run_json("launch", *ex(*commands), *mpi.line(2, program))
    assert finished.status == 0, finished.out
    first, second = finished.of_type("trace")
    assert [row["values"][0][0]["value"] for row in first["rows"]] == [0, 1, 2]
    assert [row["row"] for row in second["rows"]] == list(range(4, STEPS + 1))
    assert second["rows"][0]["values"][1] == [
        {"ranks": "0", "value": 0},
        {"ranks": "1", "value": 1},
    ]
    assert second["least"] == second["most"] == STEPS


def test_a_trace_of_one_rank_is_reported_too(mpi: Mpi, builder: Builder) -> None:
    """The other ranks, which the condition leaves out, have no row."""
    program = builder.build(mpi, "steps.c")
    trace, run = "trace record step if rank == 1", "continue"
    line = mpi.line(2, program)
    text = run_pgdb("launch", "--batch", *ex(trace, run, "traces 1 --last 2"), *line).out
    assert f"trace 1: 0 to {STEPS} rows ('traces 1')" in text, text
    assert re.findall(r"^ +(\d+)  \[1\] (\d+)$", text, re.M) == [("39", "38"), ("40", "39")]
    commands = ("break record if step == 2", trace, run, "delete", run)
    first, second = run_json("launch", *ex(*commands), *line).of_type("trace")
    assert [row["row"] for row in first["rows"]] == [1, 2, 3]
    assert [row["row"] for row in second["rows"]] == list(range(1, STEPS + 1))
    assert (second["least"], second["most"]) == (0, STEPS)


def test_running_ranks_are_asked_and_run_on_free(
    builder: Builder, start_job: StartJob, mpi: Mpi
) -> None:
    with start_job(2, builder.build(mpi, "steps.c"), "on") as job:
        with pgdb.attach(job.pid) as session:
            session.run("continue", wait=False)
            made = session.trace("record", "step", "now.phase")
            assert made.ok, made
            session.interrupt()
            session.run("continue", wait=False)
            while (table := session.trace_table(1, count=3)).least < 3:
                assert not table.errors
            steps = [row.cells[0][0].text for row in table.rows]
            assert [int(each) for each in steps] == list(range(int(steps[0]), int(steps[0]) + 3))
            arrays = session.array("trace:1:step")
            assert set(arrays.by_rank) == {0, 1}
            summary = session.stat("trace:1:step", bins=8).classes[0].columns[0]
            bins = summary.bins
            assert bins is not None and summary.high is not None
            assert bins.high > summary.high, "both looks have the same rows"
            assert sum(bins.counts) == summary.count
            assert session.stat("trace:1:now.phase").errors
            data = session.trace_data(1)
            assert all(len(rows) >= 3 for rows in data.by_rank.values())
        assert_untouched(job.ranks)


def test_a_new_gdb_and_a_new_launch_get_the_traces(mpi: Mpi, builder: Builder) -> None:
    program = builder.build(mpi, "steps.c")
    commands = (
        "trace record step",
        "proc 1 trace record total",
        "break record if step == 3",
        "continue",
        "restart",
        "traces 1",
        "continue",
        "traces 1",
        "proc 0 traces 2",
    )
    text = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(2, program)).out
    _, _, after = text.partition(") restart\n")
    assert "trace 1: 0 rows on [0-1]" in after
    assert "trace 1: 4 rows on [0-1]" in after
    assert "2 at record: total" not in after


def test_rows_of_a_new_launch_are_announced_again(mpi: Mpi, builder: Builder) -> None:
    program = builder.build(mpi, "steps.c")
    commands = ("trace record step", "break record if step == 3", "continue", "restart", "continue")
    finished = run_json("launch", *ex(*commands), *mpi.line(2, program))
    assert len(finished.of_type("hello")) == 2, finished.out
    for each in finished.of_type("trace"):
        assert [row["values"][0][0]["value"] for row in each["rows"]] == [0, 1, 2, 3]
    assert len(finished.of_type("trace")) == 2, finished.out


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("trace nowhere x", 'Function "nowhere" not defined.'),
        ("trace record nosuch", 'nosuch: No symbol "nosuch" in current context.'),
        ("trace record step if", "'if' needs a condition"),
        ("trace record step if nosuch", 'nosuch: No symbol "nosuch" in current context.'),
        ("trace record step --every 0", "--every takes 1 to"),
        ("trace record --first 3", "need expressions"),
        ("trace record", "'trace LOCATION EXPR' collects the values of EXPR"),
        ("traces 7", "there is no trace 7; 'trace LOCATION EXPR' makes one"),
        ("traces x", "'x' is no number of a trace"),
        ("info traces x", "info traces: 'x' is no number of a trace"),
        ("info worlds x", "'info worlds' takes no argument, not 'x'"),
        ("plot trace:x", "'trace:x' names no trace; trace:N:EXPR stands for"),
        ("traces --csv /tmp/x.csv", "--csv needs the number of a trace"),
        ("untrace", "there is no trace"),
        ("print trace:1:x", "'traces N' shows its rows"),
        ("stat trace:1:x", "there is no trace 1 on this rank; 'traces' lists them"),
    ],
)
def test_bad_input(mpi: Mpi, builder: Builder, command: str, complaint: str) -> None:
    program = builder.build(mpi, "steps.c")
    finished = run_pgdb("launch", "--batch", *ex(command, "print 1 + 1"), *mpi.line(1, program))
    assert complaint in finished.out + finished.err
    assert "1 + 1 = 2" in finished.out
