"""Launching real jobs: held before main, stopped there, run to their end, their words unchanged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pgdb.ranks import RankSet
from tests.conftest import Build
from tests.support.programs import Builder, Mpi, find_mpi
from tests.support.terminal import PGDB, Finished, Terminal, ex, run_json, run_pgdb

pytestmark = pytest.mark.mpi


def first_stop(finished: Finished, ranks: str) -> dict[str, object]:
    """Return the frame in which all ranks were stopped first."""
    stop = finished.of_type("stop")[0]
    assert [each["ranks"] for each in stop["classes"]] == [ranks], stop
    assert stop["classes"][0]["reason"] == "main"
    frame: dict[str, object] = stop["classes"][0]["frame"]
    return frame


@pytest.mark.parametrize(
    ("name", "function"),
    [("ring.c", "main"), ("hello.cpp", "main"), ("hello.f90", "hello"), ("nompi.c", "main")],
)
def test_all_ranks_stop_in_the_users_main(mpi: Mpi, build: Build, name: str, function: str) -> None:
    program = build(name)
    finished = run_json("launch", *ex("bt"), *mpi.line(3, program))
    assert finished.status == 0
    hello = finished.objects[0]
    assert (hello["type"], hello["ranks"], hello["mode"]) == ("hello", "0-2", "launch")
    frame = first_stop(finished, "0-2")
    assert frame["function"] == function
    assert frame["line"] == program.line("main")
    stacks = finished.answer("backtrace")["classes"]
    assert [each["ranks"] for each in stacks] == ["0-2"]


@pytest.mark.any_mpi
def test_one_rank(mpi: Mpi, build: Build) -> None:
    finished = run_json("launch", *ex("p 6 * 7"), *mpi.line(1, build("ring.c")))
    assert finished.status == 0
    assert first_stop(finished, "0")["function"] == "main"
    assert finished.answer("print 6 * 7")["classes"][0]["value"] == 42


def test_64_ranks(builder: Builder) -> None:
    mpi = find_mpi("openmpi")
    finished = run_json(
        "launch",
        "--aggregators",
        4,
        *ex("bt"),
        *mpi.line(64, builder.build(mpi, "nompi.c")),
        deadline_s=300,
    )
    assert finished.status == 0
    assert first_stop(finished, "0-63")["function"] == "main"
    assert [each["ranks"] for each in finished.answer("backtrace")["classes"]] == ["0-63"]


def test_two_programs_in_one_job(mpi: Mpi, build: Build) -> None:
    one, other = build("mpmd_a.c"), build("mpmd_b.c")
    line = [*mpi.line(2, one), ":", "-n", "1", str(other.path)]
    commands = (
        f"proc 0-1 break {one.at('gather')}",
        f"proc 2 break {other.at('gather')}",
        "c",
        "break ask",
        "disable 3",
        "delete 3",
        "delete 9",
        "delete",
        "c",
    )
    finished = run_json("launch", *ex(*commands), *line)
    assert finished.status == 1
    classes = {
        each["ranks"]: each["frame"]["file"].rpartition("/")[2]
        for stop in finished.of_type("stop")
        for each in stop["classes"]
        if each["reason"] == "main"
    }
    assert classes == {"0-1": "mpmd_a.c", "2": "mpmd_b.c"}
    first, second = finished.answers("continue")
    hits = {each["ranks"]: each["record"]["breakpoint"] for each in first["classes"]}
    assert hits == {"0-1": 1, "2": 2}
    # `ask` is a function of one of the programs only.
    made, failed = finished.answer("break ask")["classes"]
    assert (made["ranks"], made["record"]["breakpoints"][0]["number"]) == ("0-1", 3)
    assert (failed["ranks"], failed["error"]) == ("2", True)
    for command, error in (("disable 3", False), ("delete 3", False), ("delete 9", True)):
        (only,) = finished.answer(command)["classes"]
        assert (only["ranks"], only.get("error", False)) == ("0-2", error), command
    assert {each["record"]["code"] for each in second["classes"]} == {0}


@pytest.mark.parametrize("before", [["--"], ["env", "PGDB_TEST_WORD=1"], ["wrapper.sh"]])
def test_what_stands_before_the_program(mpi: Mpi, build: Build, before: list[str]) -> None:
    program = build("nompi.c")
    words = [str(build(each).path) if each.endswith(".sh") else each for each in before]
    line = mpi.line(2, program, "-", "1")
    at = line.index(str(program.path))
    finished = run_json("launch", *ex("info source", "c"), *line[:at], *words, *line[at:])
    assert finished.status == 0
    frame = first_stop(finished, "0-1")
    assert (frame["function"], frame["line"]) == ("main", program.line("main"))
    ends = [each for line in finished.of_type("exit") for each in line.get("classes", ())]
    assert {each["code"] for each in ends} == {0}


def test_output_comes_unchanged_and_apart(mpi: Mpi, build: Build) -> None:
    finished = run_pgdb("launch", "--batch", *ex("c"), *mpi.line(2, build("output.c")))
    assert finished.status == 0
    for rank in range(2):
        for word in ("1\n", "2\n", "end"):
            assert finished.stdout.count(f"rank {rank} out {word}".encode()) == 1
            assert finished.stderr.count(f"rank {rank} err {word}".encode()) == 1
    assert b" err " not in finished.stdout
    # Nothing but the job writes to standard error, and its last line gets no end from us.
    assert len(finished.stderr) == 2 * len(b"rank 0 err 1\nrank 0 err 2\nrank 0 err end")


def test_output_in_json_has_every_byte(mpi: Mpi, build: Build) -> None:
    finished = run_json("launch", *ex("c"), *mpi.line(2, build("output.c")))
    pieces = finished.of_type("output")
    for stream, word in (("stdout", "out"), ("stderr", "err")):
        text = "".join(each["text"] for each in pieces if each["stream"] == stream)
        wanted = [f"rank {rank} {word} {end}" for rank in range(2) for end in ("1\n", "2\n", "end")]
        assert sorted(map(text.count, wanted)) == [1] * 6, text
        assert len(text) == sum(map(len, wanted)), text


def test_the_job_reads_the_standard_input_that_is_no_terminal(mpi: Mpi, build: Build) -> None:
    """Input comes as under the launcher alone: ``mpirun -n 4 ./app < in``."""
    line = mpi.line(2, build("echo.c"))
    finished = run_pgdb("launch", "--batch", *ex("c"), *line, stdin=b"one\ntwo words\nno end")
    assert finished.status == 0, finished.err
    for number, text in enumerate(("one", "two words", "no end"), 1):
        assert f"rank 0 got: {text}\n" in finished.out, number
    assert "rank 0 got 3 lines\n" in finished.out


@pytest.mark.any_mpi
def test_without_a_terminal_the_commands_of_the_line_are_all(mpi: Mpi, build: Build) -> None:
    line = mpi.line(2, build("echo.c"))
    finished = run_pgdb("launch", *ex("c"), *line, stdin=b"one\n")
    assert finished.status == 0, finished.err
    assert "rank 0 got: one\n" in finished.out and "exited normally" in finished.out
    assert "note: standard input is not a terminal: the job reads it" in finished.err
    refused = run_pgdb("launch", *line, stdin=b"one\n")
    assert (refused.status, refused.out) == (2, "")
    assert "--stdin FILE" in refused.err and "-ex COMMAND" in refused.err


def test_input_from_a_file(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo words\nthree, with no end")
    finished = run_pgdb(
        "launch", "--batch", "--stdin", lines, *ex("c"), *mpi.line(2, build("echo.c"))
    )
    assert finished.status == 0
    for line in lines.read_text().splitlines():
        assert f"rank 0 got: {line}\n" in finished.out
    assert "rank 0 got 3 lines\n" in finished.out


def test_input_from_ours(mpi: Mpi, build: Build) -> None:
    finished = run_pgdb(
        "launch",
        "--batch",
        "--stdin",
        "-",
        *ex("c"),
        *mpi.line(2, build("echo.c")),
        stdin=b"a\nb\n",
    )
    assert finished.status == 0
    assert "rank 0 got: a\n" in finished.out
    assert "rank 0 got 2 lines\n" in finished.out


@pytest.mark.any_mpi
def test_input_from_a_named_pipe(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    """The writer comes when PGDB has waited for it; all that it writes is the input."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    line = mpi.line(2, build("echo.c"))
    with Terminal(*PGDB, "launch", "--batch", "--stdin", pipe, *ex("c"), *line) as terminal:
        terminal.expect(f"note: --stdin {pipe} is not open yet: no program has opened")
        pipe.write_text("a\nb\n")
        terminal.expect_all("rank 0 got: a\n", "rank 0 got: b\n", "rank 0 got 2 lines\n")
        assert terminal.wait() == 0


def test_a_named_pipe_without_a_writer_can_be_given_up(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with Terminal(*PGDB, "launch", "--stdin", pipe, "mpirun", "-n", "2", "./x") as terminal:
        terminal.expect(f"note: --stdin {pipe} is not open yet: no program has opened")
        terminal.control_c()
        terminal.expect("pgdb: interrupted")
        assert terminal.wait() == 3


@pytest.mark.parametrize("code", [0, 7])
def test_exit_code_of_the_job(mpi: Mpi, build: Build, code: int) -> None:
    finished = run_pgdb(
        "launch",
        "--batch",
        "--exit-code=job",
        *ex("c"),
        *mpi.line(2, build("exitcode.c"), "1", str(code)),
    )
    assert finished.status == code, finished.out + finished.err
    assert f"[1] exited with code {code}" in finished.out or code == 0


def test_a_crash_interrupts_the_rest(mpi: Mpi, build: Build) -> None:
    program = build("crash.c")
    finished = run_json("launch", *ex("c", "proc @error bt"), *mpi.line(3, program, "1"))
    assert finished.status == 5
    # The others may be stopped before the place where they wait, at two places.
    reported = {
        rank: each["record"]
        for each in finished.answer("continue")["classes"]
        for rank in RankSet.parse(each["ranks"])
    }
    assert sorted(reported) == [0, 1, 2]
    assert reported[1]["signal"] == "SIGSEGV"
    assert reported[1]["frame"]["line"] == program.line("crash")
    assert reported[0]["reason"] == reported[2]["reason"] == "interrupted"
    assert finished.answer("backtrace")["ranks"] == "1"


@pytest.mark.any_mpi
@pytest.mark.parametrize(
    ("status", "mode", "options"),
    [
        (0, "launch", ex("p 1")),
        (1, "launch", ex("p nosuch")),
        (2, "launch", ("--aggregators", "0")),
        (3, "launch", ("--gdb", "nosuch")),
        (4, "launch", ("--timeout", "5", *ex("c"))),
    ],
)
def test_exit_statuses(
    mpi: Mpi, build: Build, status: int, mode: str, options: tuple[str, ...]
) -> None:
    finished = run_pgdb(mode, "--batch", *options, *mpi.line(2, build("nompi.c")))
    assert finished.status == status, finished.out + finished.err
    if status == 4:
        assert "2 of 2 still running: [0-1] in " in finished.out
