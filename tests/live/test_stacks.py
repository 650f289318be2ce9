"""Stacks of waiting ranks: the same at every sample and under every MPI, threads and all."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import pgdb
from pgdb.frontend.show.text.thread_stacks import stacks_of
from pgdb.records import Stack, Threads
from tests.conftest import Build
from tests.support.programs import Mpi as AnMpi
from tests.support.programs import Program, find_mpi
from tests.support.terminal import ex, run_json

pytestmark = pytest.mark.mpi

MPIS = ("openmpi", "mpich", "openmpi5", "mpich-system", "intel")
RANKS = 4
SAMPLES = 5
DEADLINE_S = 120.0
WAITING = {
    0: ["PMPI_Recv", "MPI_Recv", "mpi_exchange", "main"],
    1: ["hold"],
    2: ["PMPI_Finalize", "main"],
    3: ["PMPI_Win_fence", "main"],
}
"""Outer frames of each rank of calls.c, without those of MPI between a callback and its call."""


@pytest.fixture(scope="session", params=MPIS)
def mpi(request: pytest.FixtureRequest) -> AnMpi:
    return find_mpi(request.param)


@pytest.fixture
def calls(build: Build) -> Program:
    return build("calls.c", "-pthread")


@pytest.fixture
def session(mpi: AnMpi, calls: Program) -> Iterator[pgdb.Session]:
    with pgdb.launch(mpi.line(RANKS, calls)) as session:
        yield session


def functions(stack: Stack) -> list[str]:
    """Return what a stack says without the C library's inner functions."""
    names = [each.function for each in stack.frames]
    return names[names.index("hold") :][:1] if "hold" in names else names


def sample(session: pgdb.Session) -> pgdb.Answer:
    """Stop the ranks that run, ask for their stacks, and let them go on."""
    answer = stopped(session)
    session.continue_(wait=False)
    return answer


def stopped(session: pgdb.Session) -> pgdb.Answer:
    """Stop the ranks that run, and ask for their stacks."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        session.interrupt(timeout_s=DEADLINE_S)
        # The kernel may give the interrupt to any thread, which GDB then selects.
        session.execute("thread 1")
        answer = session.backtrace()
        if not answer.missing.running:
            return answer.check()
        assert time.monotonic() < deadline, answer


def places(answer: pgdb.Answer) -> dict[int, list[str]]:
    found = {}
    for rank in range(RANKS):
        stack = answer.for_rank(rank)
        assert isinstance(stack, Stack)
        found[rank] = functions(stack)
    return found


def test_waiting_ranks(session: pgdb.Session, calls: Program) -> None:
    session.continue_(wait=False)
    deadline = time.monotonic() + DEADLINE_S
    while (found := places(sample(session))) != WAITING:
        assert time.monotonic() < deadline, found

    partitions = []
    for _ in range(SAMPLES):
        answer = sample(session)
        assert places(answer) == WAITING
        partitions.append({str(each.ranks): each.record for each in answer})
    assert all(each == partitions[0] for each in partitions)
    stopped(session)

    # The library's file, without directory and version.
    stack = session[0].backtrace().for_rank(0)
    assert isinstance(stack, Stack)
    assert stack.frames[0].library in ("libmpi.so", "libmpich.so")
    assert stack.frames[1].line == calls.line("wrapped")
    whole = session[0].backtrace(fold=False).for_rank(0)
    assert isinstance(whole, Stack)
    assert [each.function for each in whole.frames][-3:] == ["MPI_Recv", "mpi_exchange", "main"]

    # Every frame of the program says how far into its function it is; the call itself does not.
    exact = session[0].backtrace(offsets=True).for_rank(0)
    assert isinstance(exact, Stack)
    assert exact.frames[0].offset == ""
    for each in exact.frames[1:]:
        session[0].select_frame(f"frame {int(exact.hidden) + each.level}").check()
        line = session[0].execute("info symbol $pc").for_rank(0)
        assert f"{each.function} + {int(each.offset)} in section .text" in getattr(line, "text", "")

    # Thread and frame stay selected, whoever looks at all threads.
    session.execute("thread 1").check()
    session[0].select_frame("frame function mpi_exchange").check()
    threads = session.backtrace(threads=True).check()
    selected = session[0].select_frame("frame").for_rank(0)
    assert isinstance(selected, Stack) and selected.frames[0].function == "mpi_exchange"
    assert session.named_set("stopped") == session.set

    groups = {functions(each.stack)[0]: each for each in stacks_of(threads)}
    workers = next(each for each in stacks_of(threads) if "work" in functions(each.stack))
    assert [(count, str(ranks)) for count, ranks in workers.counts] == [(1, "3"), (2, "0-2")]
    assert [str(groups[name[0]].ranks) for name in WAITING.values()] == ["0", "1", "2", "3"]
    assert len(stacks_of(threads)) == len(WAITING) + 1, "threads of the MPI library are shown"
    everything = session.backtrace(threads=True, fold=False).check()
    for rank in range(RANKS):
        shown, record = threads.for_rank(rank), everything.for_rank(rank)
        assert isinstance(shown, Threads) and isinstance(record, Threads)
        counted = sum(each.count for each in shown.stacks)
        assert sum(each.count for each in record.stacks) - counted >= 0
        assert counted == (2 if rank == 3 else 3)


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"], indirect=True)
def test_thread_apply_all_backtrace(build: Build, mpi: AnMpi) -> None:
    program = build("threads.c", "-pthread")
    commands = (
        f"break {program.at('step')}",
        "continue",
        "thread apply all bt",
        "thr ap all bt 1",
        "bt -threads --full",
        "thread apply all bt full",
        "thread",
        "bt --full",
        "thread apply 1 continue 5",
    )
    finished = run_json("launch", *ex(*commands), *mpi.line(2, program, "100"))
    merged, one, whole = (
        finished.answers("thread apply all backtrace")[0],
        finished.answer("thread apply all backtrace 1"),
        finished.answers("thread apply all backtrace")[1],
    )
    # Main and two workers, which may not have come to where they wait on each rank.
    for each in merged["classes"]:
        assert sum(found.get("count", 1) for found in each["record"]["stacks"]) == 3
    assert all(len(each["stack"]["frames"]) == 1 for each in one["classes"][0]["record"]["stacks"])
    assert {each["record"]["kind"] for each in whole["classes"]} == {"threads"}
    # GDB carries out its own commands thread by thread.
    # The innermost frame of each thread may be in a library without symbols, and the only one.
    full = finished.answer("thread apply all bt full")["classes"]
    said = ("No locals.", "No symbol table info available.")
    assert any(words in each["text"] for each in full for words in said)
    assert "[Current thread is 1" in finished.answer("thread")["classes"][0]["text"]
    assert finished.answer("thread apply 1 continue 5")["classes"][0]["record"]["kind"] == "stop"
