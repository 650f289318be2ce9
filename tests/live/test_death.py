"""Stops before ranks die: each kind of death under every MPI, and the words for it everywhere."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pgdb.ranks import RankSet
from tests.conftest import Build, StartJob
from tests.support.programs import Builder, Mpi, find_mpi
from tests.support.terminal import Finished, ex, foreign_code, run_json, run_pgdb

pytestmark = pytest.mark.mpi

MPIS = ("openmpi", "mpich", "openmpi5", "mpich-system", "intel")
STOP = "--stop-before-death"
CALLS = {
    0: "PMPI_Send, fatal error: ",
    1: "MPI_Abort(comm, 3)",
    2: "exit(4)",
    3: "_exit(5)",
    4: "exit(9), returned by main",
    6: "quick_exit(6)",
}
"""The words for the death of each rank of deaths.c; at rank 5's failed assertion GDB stops."""
MARKS = {0: "error", 1: "abort", 2: "exit", 3: "_exit", 5: "assert", 6: "quick"}


def last_stops(finished: Finished) -> dict[int, dict[str, Any]]:
    """Return the last stop of each rank that has one of its own."""
    return {
        int(each["ranks"]): each
        for line in finished.of_type("stop")
        for each in line["classes"]
        if each["ranks"].isdecimal()
    }


@pytest.mark.parametrize("name", MPIS)
def test_every_rank_stops_before_its_death(name: str, builder: Builder) -> None:
    mpi = find_mpi(name)
    program = builder.build(mpi, "deaths.c")
    commands = ex("set stop-on-error off", "continue", "bt", "tree", "info breakpoints")
    finished = run_json("launch", STOP, *commands, *mpi.line(7, program))
    assert finished.status == 5, finished.out
    stops = last_stops(finished)
    for rank, call in CALLS.items():
        stop = stops[rank]
        assert stop["reason"] == "death" and stop["breakpoint"] == 1, stop
        assert stop["dying"].startswith(call), stop
        assert stop["text"].startswith("about to die") and call in stop["text"]
    for rank, mark in MARKS.items():
        assert stops[rank]["frame"]["line"] == program.line(mark), stops[rank]
    assert stops[5]["signal"] == "SIGABRT"
    assert stops[5]["dying"] == "assertion 'value == 8' failed"
    assert "rank" in stops[0]["dying"].lower()
    # All of them are there, though each alone would have ended the job.
    assert not finished.of_type("exit")
    frames = {
        rank: [frame.get("dying", "") for frame in each["record"]["frames"]]
        for each in finished.answer("backtrace")["classes"]
        for rank in (each["ranks"],)
    }
    assert frames["0"][0] == stops[0]["dying"].removeprefix("PMPI_Send, ")
    assert "error code 3" in frames["1"] and "assertion 'value == 8' failed" in frames["5"]
    (tree,) = finished.of_type("tree")
    dying = {frame.get("dying", "") for node in tree["nodes"] for frame in node["frames"]}
    assert {"error code 3", frames["0"][0]} <= dying
    (listed,) = {
        (each["number"], each["kind"], each["what"])
        for answer in finished.answer("info breakpoints")["classes"]
        for each in answer["record"]["breakpoints"]
    }
    assert listed == (1, "catchpoint", "death")


@pytest.fixture
def openmpi() -> Mpi:
    return find_mpi("openmpi")


def test_others_are_interrupted_and_a_good_end_does_not_stop(
    openmpi: Mpi, builder: Builder
) -> None:
    program = builder.build(openmpi, "deaths.c")
    line = openmpi.line(3, program, "1")
    finished = run_pgdb("launch", "--batch", *ex("catch death", "c", "delete 1", "i b"), *line)
    assert finished.status == 5
    assert finished.ranks_reported("about to die: MPI_Abort(comm, 3) <- die (") == "1", finished.out
    assert finished.ranks_reported("interrupted in PMPI_Barrier <- main (") == "0,2"
    assert "No breakpoints or watchpoints." in finished.out
    good = run_pgdb("launch", "--batch", STOP, *ex("c"), *openmpi.line(2, program, "99"))
    assert good.status == 0 and good.ranks_reported("exited normally") == "0-1", good.out


@pytest.mark.parametrize("name", ("openmpi", "mpich"))
@pytest.mark.parametrize("options", [(STOP,), ()])
def test_a_signal_of_the_rank_itself_stops_the_others(
    options: tuple[str, ...], name: str, builder: Builder
) -> None:
    mpi = find_mpi(name)
    program = builder.build(mpi, "deaths.c")
    finished = run_json("launch", *options, *ex("continue"), *mpi.line(4, program, "9"))
    assert finished.status == 5, finished.out
    answer = finished.answer("continue")
    reasons = {each["record"]["reason"]: each for each in answer["classes"]}
    death, others = reasons["death"], reasons["interrupted"]
    assert (death["ranks"], others["ranks"]) == ("2", "0-1,3")
    assert death["record"]["signal"] == "SIGTERM"
    assert death["record"]["dying"] == "SIGTERM that the rank has sent to itself"
    assert death["record"]["frame"]["line"] == program.line("term")
    assert death["record"].get("breakpoint", 0) == len(options)


@pytest.mark.parametrize("kind", ["1", "9"])
def test_where_the_launcher_kills_all_the_rank_that_died_is_named(
    kind: str, builder: Builder
) -> None:
    mpi = find_mpi("mpich")
    program = builder.build(mpi, "deaths.c")
    finished = run_pgdb(
        "launch", "--batch", STOP, *ex("continue", "continue"), *mpi.line(4, program, kind)
    )
    first = {"1": "1", "9": "2"}[kind]
    others = str(RankSet.range(0, 4) - RankSet.parse(first))
    assert finished.ranks_reported(f"ended by SIGKILL, after [{first}]") == others, finished.out


def test_where_the_first_was_killed_too_nobody_is_named(builder: Builder) -> None:
    mpi = find_mpi("mpich")
    program = builder.build(mpi, "deaths.c")
    finished = run_pgdb("launch", "--batch", *ex("continue"), *mpi.line(4, program, "8"))
    assert finished.ranks_reported("ended by SIGKILL") == "0-3", finished.out
    # All ends come together, or that of the first before.
    note = "were killed together, so the first is unknown"
    is_first_known = finished.ranks_reported("ended by SIGKILL, after") != ""
    text = finished.out + finished.err
    assert is_first_known or f"[0-3] {note}" in text or "[2] ended by SIGKILL\n" in text, text


@pytest.mark.parametrize("kind", ["13", "14"])
def test_a_rank_that_left_with_status_0_is_named_where_the_launcher_kills_the_other(
    kind: str, builder: Builder
) -> None:
    mpi = find_mpi("mpich")
    program = builder.build(mpi, "deaths.c")
    finished = run_pgdb("launch", "--batch", *ex("continue"), *mpi.line(2, program, kind))
    assert finished.ranks_reported("ended by SIGKILL, after [1]") == "0", finished.out
    assert finished.ranks_reported("exited normally") == "1", finished.out


@pytest.mark.parametrize("name", ("openmpi", "mpich"))
def test_a_return_from_main_without_finalize_is_named(name: str, builder: Builder) -> None:
    mpi = find_mpi(name)
    program = builder.build(mpi, "deaths.c")
    finished = run_json("launch", STOP, *ex("continue"), *mpi.line(2, program, "14"))
    stop = last_stops(finished)[1]
    assert stop["dying"] == "exit status 0 without MPI_Finalize, returned by main", stop
    assert "exit_handlers" not in stop["frame"]["function"], stop


def test_a_signal_to_the_process_shows_the_first_thread(openmpi: Mpi, builder: Builder) -> None:
    """The second thread gets it, and 'signal 0' takes it from there."""
    program = builder.build(openmpi, "signalled.c")
    commands = ex("continue", "proc 0 print waits = 0", "signal 0", "wait")
    line = openmpi.line(2, program)
    finished = run_pgdb("launch", "--batch", "--settle", "1", *commands, *line)
    assert re.search(r"^\[0\] +SIGTERM, Terminated: .*\bmain \(", finished.out, re.M), finished.out
    assert finished.ranks_reported("exited normally") == "0-1", finished.out


def test_a_signal_of_a_thread_itself_shows_that_thread(openmpi: Mpi, builder: Builder) -> None:
    program = builder.build(openmpi, "signalled.c")
    finished = run_json("launch", *ex("continue"), *openmpi.line(2, program, "1"))
    stop = last_stops(finished)[0]
    assert stop["dying"] == "SIGTERM that the rank has sent to itself", finished.out
    assert stop["frame"]["line"] == program.line("raise"), stop


@pytest.mark.parametrize("kind", ["11", "12"])
def test_a_signal_that_is_handled_or_from_elsewhere_is_no_death(
    openmpi: Mpi, builder: Builder, kind: str
) -> None:
    """A launcher sends SIGTERM to ranks as rank 2 does here."""
    program = builder.build(openmpi, "deaths.c")
    line = openmpi.line(3, program, kind)
    finished = run_json("launch", STOP, "--settle", "1", *ex("continue"), *line)
    stops = [
        each
        for each in finished.answer("continue")["classes"]
        if each["record"].get("signal") == "SIGTERM"
    ]
    assert [(each["ranks"], each["record"]["reason"]) for each in stops] == [
        ("2" if kind == "11" else "1", "signal-received")
    ]


def test_a_signal_that_gdb_keeps_to_itself_is_no_death(openmpi: Mpi, builder: Builder) -> None:
    program = builder.build(openmpi, "deaths.c")
    line = openmpi.line(3, program, "9")
    commands = ex("handle SIGTERM nopass", "continue")
    finished = run_json("launch", "--settle", "1", *commands, *line)
    (stop,) = [
        each
        for each in finished.answer("continue")["classes"]
        if each["record"].get("signal") == "SIGTERM"
    ]
    assert (stop["ranks"], stop["record"]["reason"]) == ("2", "signal-received")
    assert "dying" not in stop["record"]


def test_deaths_in_other_languages(openmpi: Mpi, builder: Builder) -> None:
    cpp, f90 = (builder.build(openmpi, f"deaths{suffix}") for suffix in (".cpp", ".f90"))
    checked = builder.build(openmpi, "deaths.f90", "-fcheck=bounds")
    finished = run_json(
        "launch",
        STOP,
        *ex("set stop-on-error off", "continue"),
        *openmpi.line(1, cpp),
        *(":", "-n", "1", checked.path),
        *(":", "-n", "1", f90.path, "stop"),
        *(":", "-n", "1", f90.path, "open"),
        *(":", "-n", "1", f90.path, "words"),
        *(":", "-n", "1", f90.path, "read"),
        *(":", "-n", "1", f90.path, "free"),
        *(":", "-n", "1", f90.path, "abort"),
        *(":", "-n", "1", f90.path, "record"),
    )
    stops = last_stops(finished)
    assert stops[0]["dying"] == "uncaught exception Broken: no grid left", stops
    assert stops[0]["frame"]["line"] == cpp.line("throw")
    bounds, stop = stops[1]["dying"], stops[2]["dying"]
    index = "Index '6' of dimension 1 of array 'values' above upper bound of 4"
    error = "Fortran runtime error"
    assert bounds == f"_gfortran_runtime_error_at, {error}: {index}, exit(2)", stops
    assert stops[1]["frame"]["line"] == f90.line("bounds")
    assert stop == "_gfortran_error_stop_numeric, ERROR STOP, exit(3)"
    # 2 is the code of an MPI error, too.
    opened = stops[3]["dying"]
    # The library keeps this message on the heap alone, which nothing may point to any more.
    assert re.match(rf"_gfortran_st_open, {error}(: Cannot open file .*)?, exit\(2\)\Z", opened)
    assert stops[4]["dying"] == "_gfortran_error_stop_string, ERROR STOP no grid left, exit(1)"
    assert f"{error}: Bad integer for item 1 in list input, exit(2)" in stops[5]["dying"]
    assert f"{error}: Attempt to DEALLOCATE unallocated 'none', exit(2)" in stops[6]["dying"]
    assert stops[3]["frame"]["line"] == f90.line("open")
    assert stops[7]["dying"] == "MPI_Abort(comm, 17)", stops
    assert stops[7]["frame"]["line"] == f90.line("abort")
    # Its message is no other one of the library's.
    record = stops[8]["dying"]
    assert re.search(rf"{error}(: Record number not allowed .*)?, exit\(2\)\Z", record), record


def test_rank_in_the_error_handler_is_distinguished_from_one_that_waits(
    openmpi: Mpi, builder: Builder
) -> None:
    program = builder.build(openmpi, "deaths.c")
    commands = ex("break ompi_mpi_abort", "c", "bt", "tree")
    finished = run_pgdb("launch", "--batch", *commands, *openmpi.line(1, program, "0"))
    assert "Breakpoint 1, " in finished.out, finished.out
    assert "PMPI_Send, fatal error" in finished.out.rpartition(") bt")[2].partition(") tree")[0]
    assert "PMPI_Send, fatal error" in finished.out.rpartition(") tree")[2]


def test_nothing_is_left_in_ranks_after_a_detach(
    mpi: Mpi, build: Build, start_job: StartJob
) -> None:
    with start_job(2, build("ring.c")) as job:
        finished = run_pgdb("attach", "--batch", STOP, *ex("i b"), job.pid)
        assert finished.status == 0 and "death" in finished.out, finished.out
        assert not [code for pid in job.ranks.values() for code in foreign_code(pid)]
