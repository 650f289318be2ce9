"""Ranks behind wrappers that fork their program, and programs that may not be traced."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pgdb.backend.gdb import exec_follow
from pgdb.records import Stop
from tests.conftest import Build
from tests.support.named_jobs import running
from tests.support.processes import wait_until
from tests.support.programs import Mpi, Program
from tests.support.single_ranks import examine_held, held
from tests.support.terminal import PGDB, ex, run_json, run_pgdb

WRAP = str(Path(__file__).parents[1] / "programs" / "wrap.py")


def without_capabilities(*words: str) -> list[str]:
    """Return a command that runs as an ordinary user's, who may not read what is closed."""
    if os.geteuid():
        return list(words)
    setpriv = shutil.which("setpriv") or pytest.skip("root needs setpriv to give up its rights")
    return [setpriv, "--securebits", "+noroot", "--inh-caps", "-all", *words]


def line_of(mpi: Mpi, *commands: Sequence[str]) -> list[str]:
    """Return the line of a job with one rank for each command."""
    first, *others = commands
    line = mpi.line(1, first[0], *first[1:])
    for each in others:
        line += [":", "-n", "1", *each]
    return line


def closed_copy(program: Program, folder: Path) -> str:
    """Return a copy of a program that may be executed but not read."""
    path = program.copied(folder / "closed").path
    path.chmod(0o111)
    return str(path)


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_wrappers_of_any_kind_are_followed_to_the_program(mpi: Mpi, build: Build) -> None:
    program, forkexec = build("exitcode.c"), str(build("forkexec.c").path)
    path = str(program.path)
    line = line_of(
        mpi,
        [sys.executable, WRAP, path],
        [forkexec, path],
        ["timeout", "60", path],
        ["sh", "-c", f"true; {path}; exit $?"],
        [forkexec, sys.executable, WRAP, "env", path],
    )
    finished = run_json("launch", *ex("c"), *line)
    assert finished.first_stops() == {"0-4": ("main", "main")}, finished.out
    assert finished.status == 0


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_a_launch_under_a_tracer_names_it(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program, tracer = build("exitcode.c"), build("forkexec.c").copied(tmp_path / "strace")
    line = mpi.line(2, str(tracer.path), str(program.path))
    finished = run_json("launch", *ex("c"), *line)
    (stop,) = finished.of_type("stop")[0]["classes"]
    assert stop["ranks"] == "0-1" and "a process has one tracer" in stop["detail"], finished.out


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_wrappers_that_hide_the_program_are_followed(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    path, hidden = str(build("exitcode.c").path), str(build("hidden.c").path)
    disguised = "".join(chr(ord(each) ^ 1) for each in path)
    (tmp_path / "Makefile").write_text(f"all:\n\t@{path}\n")
    line = line_of(
        mpi,
        [hidden, "spawn", disguised],
        [hidden, "exec", disguised],
        [shutil.which("make") or "make", "-C", str(tmp_path)],
        [hidden, "spawn", disguised],
    )
    finished = run_json("launch", *ex("break MPI_Finalize", "c", "c"), *line)
    assert finished.first_stops()["0-3"] == ("main", "main"), finished.out
    hits = [
        each
        for stop in finished.of_type("stop")
        for each in stop["classes"]
        if each["reason"] == "breakpoint-hit"
    ]
    # Its first thread has another number in GDB than that of a program without a wrapper.
    assert hits and not any(each.get("thread") for each in hits), finished.out
    nothing = run_pgdb("launch", "--batch", *mpi.line(1, hidden, "exec", "missing"))
    assert nothing.status == 3 and "--program NAME" in nothing.err


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_a_program_without_mpi_that_is_named_is_found(mpi: Mpi, build: Build) -> None:
    path, forkexec = str(build("nompi.c").path), str(build("forkexec.c").path)
    words = (path, "-", "1")
    wrapped = line_of(mpi, [sys.executable, WRAP, *words], ["timeout", "60", *words])
    assert run_json("launch", *wrapped).first_stops() == {"0-1": ("main", "main")}
    named = ("--program", path, *line_of(mpi, [forkexec, *words]))
    assert run_json("launch", *named).first_stops() == {"0": ("main", "main")}


@pytest.mark.gdb
def test_a_session_begins_early_where_no_program_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_follow, "QUIET_S", 3.0)
    with held(sys.executable, WRAP, "sleep", "60") as pid:
        record, (inferiors,), _ = asyncio.run(examine_held(pid, "info inferiors"))
    assert isinstance(record, Stop) and record.reason == "attached"
    assert "no process of this rank has executed a program of MPI" in record.detail
    assert "sleep is debugged" in record.detail and "--program NAME" in record.detail
    assert len(inferiors.splitlines()) == 2, inferiors  # the heading is one of them


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_ranks_that_may_not_be_traced_are_named_and_the_others_debugged(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    program = build("nompi.c")
    closed = closed_copy(program, tmp_path)
    command = without_capabilities(*PGDB)
    line = line_of(mpi, [str(program.path), "-", "1"], [closed, "-", "1"])
    finished = run_pgdb("launch", "--batch", *ex("print 40 + 2"), *line, command=command)
    assert "[0] 40 + 2 = 42\n" in finished.out
    assert "[1] error: cannot attach to process " in finished.out
    assert f"may not be traced because {closed} may not be read; chmod u+r" in finished.out
    refused = run_pgdb("launch", "--batch", *mpi.line(2, closed), command=command)
    assert refused.status == 3 and f" on {os.uname().nodename}: " in refused.err
    assert refused.err.count("chmod u+r") == 1 and "[0-1] cannot attach" in refused.err


@pytest.mark.mpi
def test_attach_distinguishes_a_closed_program_from_one_that_has_ended(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    program = build("nompi.c")
    closed = closed_copy(program, tmp_path)
    line = [*without_capabilities(), *mpi.line(2, closed)]
    with running(line, 2, "closed") as (launcher, _):
        command = without_capabilities(*PGDB)
        refused = run_pgdb("attach", "--batch", launcher, command=command)
    assert refused.status == 3, refused.out + refused.err
    assert "has ended" not in refused.err and "chmod u+r" in refused.err
    assert os.uname().nodename in refused.err


@pytest.mark.mpi
def test_attach_finds_the_program_behind_a_wrapper_that_nobody_knows(
    mpi: Mpi, build: Build
) -> None:
    program = build("nompi.c")
    line = mpi.line(2, sys.executable, WRAP, str(program.path))
    with running(line, 2, "nompi") as (launcher, ranks):
        wait_until(lambda: len(ranks) == 2, "both run")
        finished = run_json("attach", *ex("info inferiors"), launcher)
        text = finished.answer("info inferiors")["classes"][0]["text"]
        assert "nompi" in text, finished.out
