"""Mistakes of users: one clear line, the right status, no traceback, nothing left behind."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Build, StartJob
from tests.support.processes import status, wait_until
from tests.support.programs import Mpi
from tests.support.terminal import Finished, assert_untouched, ex, run_json, run_pgdb
from tests.support.users import new_user

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]


def assert_refused(finished: Finished, status: int, *words: str) -> None:
    """Check that a run has ended with one line that says *words*."""
    assert finished.status == status, finished.out + finished.err
    assert finished.out == ""
    assert finished.err.startswith("pgdb: ")
    assert finished.err.count("\n") == 1, finished.err
    for word in words:
        assert word in finished.err


def attach(*arguments: object, **how: object) -> Finished:
    return run_pgdb("attach", "--batch", *ex("bt"), *arguments, **how)  # type: ignore[arg-type]


def launch(*arguments: object, **how: object) -> Finished:
    return run_pgdb("launch", "--batch", *ex("bt"), *arguments, **how)  # type: ignore[arg-type]


def ended_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_pid_that_is_none() -> None:
    assert_refused(attach(ended_pid()), 3, "there is no process", "mpirun")
    assert_refused(attach("2147483647"), 3, "there is no process", "mpirun")
    assert_refused(attach("12x"), 2, "'12x' is no process id")
    assert_refused(attach("-1"), 2)
    assert_refused(attach("--pids", "12", "13"), 2, "--pids takes the place of the job")


def test_a_pid_of_something_else() -> None:
    shell = subprocess.Popen(["sh", "-c", "read line; true"], stdin=subprocess.PIPE)
    try:
        # It has our own name until it has executed that.
        wait_until(lambda: status(shell.pid, "Name") == "sh", "the shell runs")
        assert_refused(attach(shell.pid), 3, f"{shell.pid} (sh)", "no MPI launcher")
    finally:
        shell.communicate()
    assert_refused(attach("1"), 3)


def test_the_pid_of_a_rank_and_of_a_job_that_has_ended(build: Build, start_job: StartJob) -> None:
    with start_job(2, build("storm.c")) as job:
        finished = attach(job.ranks[1])
        assert finished.status == 0, finished.out + finished.err
        assert finished.out.startswith("2 ranks on 1 host ")
        assert_untouched(job.ranks)
    assert_refused(attach(job.pid), 3, f"there is no process {job.pid}")


@pytest.mark.parametrize(
    ("ranks", "words"),
    [("7", "no rank 7; the job has 0-1"), ("0,5-6", "no rank 5-6"), ("3-1", "backwards"),
     ("x", "'x'"), ("", "--ranks"), ("0,,1", "','")],
)  # fmt: skip
def test_rank_sets(build: Build, start_job: StartJob, ranks: str, words: str) -> None:
    with start_job(2, build("storm.c")) as job:
        assert_refused(attach("--ranks", ranks, job.pid), 2, words)
        assert_untouched(job.ranks, progress=1)


def test_rank_sets_in_commands_cost_only_their_command(mpi: Mpi, build: Build) -> None:
    bad = ("proc 9 bt", "proc 1-0 bt", "proc , bt", "focus 0-9", "focus @nosuch", "proc 0")
    finished = run_json("launch", *ex(*bad, "p 1"), *mpi.line(2, build("nompi.c")))
    assert finished.status == 1
    assert [each["command"] for each in finished.of_type("error")] == list(bad)
    assert all("\n" not in each["message"] for each in finished.of_type("error"))
    assert finished.answer("print 1")["ranks"] == "0-1"


def test_executables(mpi: Mpi, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program\n")
    for program, words in (
        (tmp_path / "nosuch", "does not exist"),
        (plain, "not executable"),
        (tmp_path, "directory"),
    ):
        assert_refused(launch(*mpi.line(2, program)), 3, str(program), words)
    assert_refused(launch(*mpi.line(2, "nosuchprogram")), 3, "nosuchprogram")


def test_a_program_that_cannot_be_executed(mpi: Mpi, tmp_path: Path) -> None:
    program = tmp_path / "broken"
    program.write_bytes(b"\x7fELF, but nothing behind it")
    program.chmod(0o755)
    finished = launch(*mpi.line(2, program))
    assert finished.status == 3, finished.out + finished.err


def test_a_program_to_attach_to_that_nothing_executes(build: Build, start_job: StartJob) -> None:
    with start_job(2, build("storm.c")) as job:
        finished = attach("--program", "nosuchprogram", *ex("p 6 * 7"), job.pid)
        assert "--program nosuchprogram: there are ranks that do not execute it" in finished.out
        assert "[0-1] 6 * 7 = 42" in finished.out
        assert "--program" not in attach("--program", "storm", job.pid).out


def test_a_recording_that_could_not_be_written_is_refused_first(
    build: Build, start_job: StartJob
) -> None:
    with start_job(2, build("storm.c")) as job:
        finished = attach("--record", "/", *ex("p 1"), job.pid)
        assert_refused(finished, 2, "--record: / is there already, and is no recording")


def test_a_program_to_wait_for_that_nothing_executes(mpi: Mpi, build: Build) -> None:
    finished = launch("--program", "nosuchprogram", *mpi.line(2, build("storm.c")))
    # The session begins with the program that is there, and says so.
    assert finished.status == 0, finished.err
    assert "[0-1] stopped in main" in finished.out
    assert "does not execute nosuchprogram; storm is debugged" in finished.out


def test_no_gdb_and_too_old_ones(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    line = mpi.line(2, build("nompi.c"))
    assert_refused(launch("--gdb", "nosuchgdb", *line), 3, "'nosuchgdb'", "--gdb")
    for name, version, words in (
        ("old", "GNU gdb (GDB) 9.1", "GDB 9.1; at least"),
        ("other", "GNU ls 9.1 alpha", "is no GDB"),
        ("silent", "", "is no GDB"),
    ):
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\necho '{version}'\n")
        script.chmod(0o755)
        assert_refused(launch("--gdb", script, *line), 3, str(script), words)


def test_a_gdb_that_fails_when_it_is_run(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    script = tmp_path / "gdb"
    script.write_text(
        '#!/bin/sh\nif [ "$1" = --version ]; then echo "GNU gdb (GDB) 13.1"; else exit 3; fi\n'
    )
    script.chmod(0o755)
    finished = launch("--gdb", script, *mpi.line(2, build("nompi.c", "-DFAILING_GDB"), "-", "1"))
    assert finished.status == 3, finished.out + finished.err
    assert finished.err.strip().startswith("pgdb: "), finished.err


def test_no_launcher(tmp_path: Path) -> None:
    gdb = shutil.which("gdb")
    assert gdb is not None
    (tmp_path / "gdb").symlink_to(gdb)
    changes = {"PATH": str(tmp_path)}
    assert_refused(launch("mpirun", "-n", "2", "/bin/true", changes=changes), 3, "'mpirun'", "PATH")
    assert_refused(launch("nosuchrun", "-n", "2", "/bin/true"), 3, "nosuchrun")
    assert_refused(launch("/bin/true", "-n", "2", "/bin/true"), 3, "/bin/true")
    assert launch().status == 2


@pytest.mark.parametrize(
    "options",
    [("--fan-out", "0"), ("--aggregators", "x"), ("--timeout", "-1"), ("--nosuch",),
     ("-x", "/nosuch/file"), ("--stdin", "/nosuch/file"), ("--settle", "0")],
)  # fmt: skip
def test_options(mpi: Mpi, build: Build, options: tuple[str, ...]) -> None:
    finished = run_pgdb("launch", "--batch", *options, *mpi.line(2, build("nompi.c")))
    assert_refused(finished, 2, options[0])


def test_more_aggregators_than_ranks_are_not_started(build: Build, start_job: StartJob) -> None:
    with start_job(3, build("storm.c")) as job:
        many = attach("--aggregators", "99", job.pid)
        assert many.status == 0, many.out + many.err
        assert "note: 3 aggregators on a host, not 99: one per rank" in many.err
        assert "3 aggregators" in many.out
        some = attach("--aggregators", "99", "--ranks", "0,2", job.pid)
        assert "note: 2 aggregators on a host" in some.err and "2 aggregators" in some.out
        assert_refused(attach("--aggregators", "99999", job.pid), 2, "at most 256")
        assert_untouched(job.ranks)


def test_json_shows_it_too() -> None:
    finished = run_json("attach", ended_pid())
    assert finished.status == 3
    assert [each["type"] for each in finished.objects] == ["error", "end"]


@pytest.fixture
def other_user() -> Iterator[int]:
    """The id of a user that is not ours."""
    with new_user() as (_, uid):
        yield uid


def test_the_job_of_another_user(build: Build, start_job: StartJob, other_user: int) -> None:
    become = f"import os,sys; os.setgroups([]); os.setgid({other_user}); os.setuid({other_user}); "
    command = (
        sys.executable,
        "-c",
        become + "from pgdb.frontend.ui.main import run; sys.argv[0] = 'pgdb'; run()",
    )
    probe = subprocess.run(
        [sys.executable, "-c", become + "os.execv(sys.executable, [sys.executable, '-V'])"],
        capture_output=True,
        check=False,
    )
    if probe.returncode:
        pytest.skip(f"another user may not run {sys.executable}")
    with start_job(2, build("storm.c")) as job:
        finished = attach(job.pid, command=command, changes={"HOME": "/nonexistent"})
        assert_refused(finished, 3, str(job.pid), "user")
        assert_untouched(job.ranks)


def test_a_program_without_debug_information(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    stripped = build("ring.c").copied(tmp_path / "stripped").path
    subprocess.run(["strip", "--strip-debug", str(stripped)], check=True)
    finished = run_json(
        "launch", *ex("break exchange", "c", "bt", "info locals"), *mpi.line(2, stripped)
    )
    assert finished.of_type("stop")[0]["classes"][0]["reason"] == "main"
    functions = [
        frame["function"]
        for frame in finished.answer("backtrace")["classes"][0]["record"]["frames"]
    ]
    assert functions[0] == "exchange"
    assert finished.answer("info locals")["classes"][0]["ranks"] == "0-1"


def test_a_program_without_symbols(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    stripped = tmp_path / "stripped"
    build("nompi.c").copied(stripped)
    subprocess.run(["strip", "--strip-all", str(stripped)], check=True)
    finished = run_json("launch", *ex("bt", "c"), *mpi.line(2, stripped, "-", "1"))
    assert finished.status == 0
    assert finished.of_type("stop")[0]["classes"][0]["reason"] == "entry"
    ends = [each for line in finished.of_type("exit") for each in line.get("classes", ())]
    assert {each["code"] for each in ends} == {0}


def test_a_command_that_fails_on_some_ranks_and_works_on_others(mpi: Mpi, build: Build) -> None:
    commands = ("set var $zero = 1", "proc 1 set var $zero = 0", "p 6 / $zero")
    finished = run_json("launch", *ex(*commands), *mpi.line(3, build("nompi.c")))
    assert finished.status == 1
    worked, failed = finished.answer("print 6 / $zero")["classes"]
    assert (worked["ranks"], worked["value"]) == ("0,2", 6)
    assert (failed["ranks"], failed["error"]) == ("1", True)
    assert "Division by zero" in failed["text"]
