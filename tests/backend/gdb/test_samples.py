"""Samples of a process under a real GDB: what its stacks, threads and children do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pgdb.backend.gdb import samples
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.session import GdbSession
from pgdb.rank_sample import RankSample
from pgdb.records import Done, Failure
from tests.support.compiled import compiled
from tests.support.gdb_breakpoints import run_to, started

pytestmark = [pytest.mark.gdb]

SOURCE = """
static volatile int count;
__attribute__((noinline)) void here(void) { count++; }
__attribute__((noinline)) int PMPI_Finalize(void) { here(); return count; }
__attribute__((noinline)) int MPI_Finalize(void) { return PMPI_Finalize() + 1; }
__attribute__((noinline)) void work(void) {
    for (volatile int turn = 0; turn < 9; turn++)
        here();
}
int main(void) {
    work();
    return MPI_Finalize();
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("samples"), "samples.c", SOURCE)


async def taken(gdb: GdbSession) -> RankSample:
    found = await samples.sample(gdb)
    assert isinstance(found, RankSample), found
    return found


async def selected(gdb: GdbSession) -> str:
    return (await gdb.send(console("python print(gdb.selected_frame().name())"))).text.strip()


def test_a_sample_changes_only_where_the_process_does(program: Path) -> None:
    async def check() -> None:
        async with started() as (gdb, events, _):
            await run_to(gdb, events, program, "here")
            await gdb.send(console("up 2"))
            first, again = await taken(gdb), await taken(gdb)
            assert await selected(gdb) == "main", "the selected frame stays selected"
            assert first.stacks.startswith("here:samples.c:3:")
            (thread,) = first.threads
            assert thread.thread == "1" and thread.own and thread.cpu_s >= 0.0
            assert again.stacks == first.stacks and again.threads[0].own == thread.own
            assert again.time_s > first.time_s > 0.0
            await gdb.send("-exec-continue")
            await events.stops.get()
            later = await taken(gdb)
            # The counter of the loop lies in the frame of work.
            assert later.stacks != first.stacks
            assert later.stacks.startswith("here:samples.c:3:")
            await gdb.send(console("kill"))

    asyncio.run(check())


def test_the_caller_of_mpi_is_selected_in_place_of_its_functions(program: Path) -> None:
    async def check() -> None:
        async with started() as (gdb, events, _):
            await run_to(gdb, events, program, "PMPI_Finalize")
            assert await samples.select_caller(gdb) == Done()
            assert await selected(gdb) == "main"
            assert await samples.select_caller(gdb) == Done()
            assert await selected(gdb) == "main"
            await gdb.send(console("kill"))
            failed = await samples.select_caller(gdb)
            assert isinstance(failed, Failure) and "No frame" in failed.message

    asyncio.run(check())
