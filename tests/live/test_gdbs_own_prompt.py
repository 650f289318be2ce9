"""Lines whose effect at GDB's own prompt is another one than for a program that drives GDB."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Build
from tests.support.programs import Mpi, Program
from tests.support.terminal import ex, run_json, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]


@pytest.fixture
def program(build: Build) -> Program:
    return build("language.c")


def test_silent_commands_say_nothing(mpi: Mpi, program: Program, tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    commands.write_text(
        "break twice\ncontinue\nselect-frame 1\nprint round\nselect-frame function main\n"
        "print argc\ndown-silently\nprint round + 100\ndefine quiet\nselect-frame 0\n"
        "print value\nend\nquiet\nselect-frame 77\ninferior\ninferior 1\ninferior 2\n",
        encoding="utf-8",
    )
    finished = run_json("launch", "-x", commands, *mpi.line(2, program))

    def records(line: str) -> list[object]:
        return [each["record"] for each in finished.answer(line)["classes"]]

    for line in ("select-frame 1", "select-frame function main", "select-frame 0"):
        assert records(line) == [{"kind": "done"}]
    assert records("down-silently") == [{"kind": "done"}]
    values = [finished.answer(f"print {each}")["classes"][0]["value"] for each in ("round", "argc")]
    assert values == [0, 1]
    assert finished.answer("print value")["classes"][0]["value"] == 0
    assert "No frame at level 77" in str(records("select-frame 77"))
    (one,) = records("inferior")
    assert "[Current inferior is 1 [process " in str(one)
    (error,) = (each["message"] for each in finished.of_type("error"))
    assert "'inferior' is refused: a rank is one process" in error


def test_the_stops_of_a_pipe_are_its_input(mpi: Mpi, program: Program, tmp_path: Path) -> None:
    finished = run_pgdb(
        "launch",
        "--batch",
        *ex(
            "break work", f"pipe continue | cat > {tmp_path}/stops", f"| next | cat > {tmp_path}/n"
        ),
        *ex("kill"),
        *mpi.line(2, program),
    )
    assert "Breakpoint 1, work" not in finished.out
    assert "[0-1] Breakpoint 1, work (round=0" in (tmp_path / "stops").read_text()
    assert "array[5] = {1, 2, 3, 4, 5}" in (tmp_path / "n").read_text()


def test_a_record_that_cannot_go_on_says_so_and_is_given_up(mpi: Mpi, program: Program) -> None:
    finished = run_json(
        "launch",
        *ex("record", "next", "reverse-next", "record stop", "break work", "record"),
        *ex("next", "next", "record stop", "continue", "print round", "kill"),
        *mpi.line(2, program),
    )
    reasons = [
        (each["reason"], each.get("meaning", ""))
        for line in finished.of_type("stop")
        for each in line["classes"]
    ]
    # Older GDBs cannot record the instructions of the C library of today's processors.
    stuck = [meaning for _, meaning in reasons if "GDB cannot record" in meaning]
    assert all("'record stop' lets the rank run on" in each for each in stuck)
    assert "interrupted" not in {reason for reason, _ in reasons}
    assert finished.answer("print round")["classes"][0]["value"] == 0


def test_a_rank_stays_one_process(mpi: Mpi, build: Build) -> None:
    lines = (
        "set follow-fork-mode child",
        "set detach-on-fork off",
        "with detach-on-fork off -- next",
        'python gdb.execute("set detach-on-fork off")',
        'python gdb.set_parameter("detach-on-fork", False)',
        "inferior 2",
    )
    finished = run_json(
        "launch",
        *ex(*lines, "catch fork", "continue", "info inferiors", "continue", "kill"),
        *mpi.line(2, build("forks.c")),
    )
    errors = [each["message"] for each in finished.of_type("error")]
    assert len(errors) == len(lines)
    assert all("a rank is one process" in each and "--pids" in each for each in errors)
    reasons = {each["reason"] for line in finished.of_type("stop") for each in line["classes"]}
    assert reasons == {"main", "breakpoint-hit"}
    (inferiors,) = finished.answer("info inferiors")["classes"]
    assert len(inferiors["record"]["text"].strip().split("\n")) == 2
    refused = run_pgdb("launch", "--gdb-command", "set detach-on-fork off", *mpi.line(1, "true"))
    assert refused.status == 2 and "a rank is one process" in refused.err
