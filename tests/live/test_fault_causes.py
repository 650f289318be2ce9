"""Stops at faults say why: in the first lines, on real ranks."""

from __future__ import annotations

import re

import pytest

from tests.conftest import Build
from tests.support.programs import Mpi
from tests.support.terminal import ex, run_json, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

CAUSES = (
    "an access through a null pointer",
    r"an access through a null pointer \(address 0x20\)",
    "a call through a null pointer; called by die at faults.c:.*",
    r"the stack has overflowed \('ulimit -s' is 8 MiB\)",
    r"the stack of the thread has overflowed \(.* MiB\)",
    r"the stack has overflowed \('ulimit -s' is 8 MiB\)",
    "a write to memory that can only be read, of faults",
    "an address where no memory is",
    "a pointer whose value can be no address",
    "memory of a mapped file behind the file's end",
    "a division of an integer by zero",
    "sent by the program itself, perhaps .*called by die at faults.c:.*",
)


def test_each_fault_has_its_cause(mpi: Mpi, build: Build) -> None:
    program = build("faults.c")
    count = len(CAUSES)
    commands = ex("set stop-on-error off", "continue")
    finished = run_json("launch", *commands, *mpi.line(count, program))
    assert finished.status == 5, finished.out
    found = {
        int(each["ranks"]): each
        for line in finished.of_type("stop")
        for each in line["classes"]
        if each["reason"] == "signal-received"
    }
    assert found.keys() == set(range(count)), finished.out
    for rank, cause in enumerate(CAUSES):
        detail = found[rank]["detail"]
        assert re.fullmatch(f"cause: {cause}", detail), (rank, detail)
    signals = {rank: each["signal"] for rank, each in found.items()}
    assert (signals[9], signals[10]) == ("SIGBUS", "SIGFPE")
    assert {each for rank, each in signals.items() if rank not in (9, 10)} == {"SIGSEGV"}


def test_the_cause_is_on_the_screen(mpi: Mpi, build: Build) -> None:
    program = build("crash.c")
    finished = run_pgdb("launch", "--batch", *ex("continue"), *mpi.line(2, program))
    assert "cause: an access through a null pointer" in finished.out, finished.out


def test_a_death_in_a_handler_names_the_call_that_led_there(mpi: Mpi, build: Build) -> None:
    program = build("handlers.cpp")
    commands = ex("set stop-on-error off", "continue", "bt")
    finished = run_json("launch", "--stop-before-death", *commands, *mpi.line(5, program))
    stops = {
        int(each["ranks"]): each
        for line in finished.of_type("stop")
        for each in line["classes"]
        if each["reason"] in ("signal-received", "death")
    }
    assert stops.keys() == set(range(5)), finished.out
    dying = {rank: each["dying"] for rank, each in stops.items()}
    details = {rank: each.get("detail", "") for rank, each in stops.items()}
    assert dying[0] == (
        "an exception leaves a function that may throw none: std::runtime_error: no grid left"
    )
    assert dying[1] == "MPI_Abort(comm, 2)" and stops[1]["frame"]["line"] == program.line("abort")
    assert details[1].startswith(
        "called by __cxa_throw, uncaught exception std::runtime_error: no grid left, in check at "
        f"{program.at('throw')} "
    )
    assert dying[2] == "exit(6)" and stops[2]["frame"]["line"] == program.line("exit")
    assert details[2].startswith(f"called by PMPI_Send, in die at {program.at('send')} ")
    assert dying[3] == "assertion '__n < this->size()' failed"
    assert dying[4] == "_exit(8)" and not details[4]
    # The program has called exit(0).
    (fourth,) = (each for each in finished.answer("backtrace")["classes"] if each["ranks"] == "4")
    dying_of = {each["function"]: each.get("dying", "") for each in fourth["record"]["frames"]}
    eight = {name for name, each in dying_of.items() if "8" in each}
    assert eight <= {"_exit", "__GI__exit"}, dying_of


@pytest.mark.parametrize(("when", "words"), [("early", "before MPI_Init"), ("late", "after MPI_")])
def test_a_call_outside_of_mpi_is_no_error_of_its_arguments(
    mpi: Mpi, build: Build, when: str, words: str
) -> None:
    program = build("handlers.cpp")
    commands = ex("continue")
    line = mpi.line(1, program, when)
    finished = run_json("launch", "--stop-before-death", *commands, *line)
    (stop,) = (
        each
        for line in finished.of_type("stop")
        for each in line["classes"]
        if each["reason"] == "death"
    )
    assert stop["dying"].startswith("PMPI_Send, "), stop
    assert "BUFFER" not in stop["dying"]
    assert words in stop["dying"] or stop["dying"].endswith("exit(1)"), stop
