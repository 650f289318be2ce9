"""Names of functions without a symbol, from the instructions that have called them."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.backend.gdb.called_names import CalledNames
from pgdb.backend.gdb.mi import Result
from pgdb.backend.gdb.mpi_frames import Owner, Place
from pgdb.records import Frame

LIBC = "/lib/libc.so.6"


class Gdb:
    """GDB that disassembles the instructions before some return addresses."""

    def __init__(self, instructions: dict[int, str]) -> None:
        self.instructions = instructions
        self.commands: list[str] = []

    async def send(self, command: str) -> Result:
        self.commands.append(command)
        _, _, start, _, end, *_ = command.split()
        # A start within an instruction gives several, or none.
        is_begin = int(end) - int(start) == 5 and int(end) in self.instructions
        lines = [{"inst": self.instructions[int(end)]}] if is_begin else [{}, {}]
        return Result(kind="done", payload={"asm_insns": lines})


def place(function: str, address: int, owner: Owner, library: str = "") -> Place:
    return Place(Frame(0, function, library=library), address, owner)


def names(gdb: Gdb, *places: Place) -> list[str]:
    called = CalledNames(gdb)  # type: ignore[arg-type]
    return [each.frame.function for each in asyncio.run(called.with_c_library(places))]


@pytest.mark.parametrize(
    ("instruction", "name"),
    [
        ("call   0x1050 <sem_wait@plt>", "sem_wait"),
        ("call   0x7ffff7e3f000 <pthread_join@@GLIBC_2.34>", "pthread_join"),
        ("call   *%rax", "??"),
        ("call   0x1139 <helper+16>", "??"),
    ],
)
def test_a_function_of_the_c_library_has_the_name_that_its_caller_calls(
    instruction: str, name: str
) -> None:
    gdb = Gdb({1000: instruction})
    stack = (
        place("??", 9100, Owner.C_RUNTIME, LIBC),
        place("??", 9000, Owner.C_RUNTIME, LIBC),
        place("main", 1000, Owner.USER),
    )
    assert names(gdb, *stack) == ["??", name, "main"]


def test_frames_that_have_a_name_or_no_caller_or_another_owner_stay() -> None:
    gdb = Gdb({1000: "call   0x1050 <sem_wait@plt>"})
    named = place("read", 9000, Owner.C_RUNTIME, LIBC)
    caller = place("main", 1000, Owner.USER)
    assert names(gdb, named, caller) == ["read", "main"]
    assert names(gdb, place("??", 9000, Owner.USER), caller) == ["??", "main"]
    assert names(gdb, place("??", 9000, Owner.C_RUNTIME, LIBC)) == ["??"]
    assert gdb.commands == []


def test_a_call_is_looked_up_once() -> None:
    gdb = Gdb({1000: "call   0x1050 <MPI_Recv@plt>"})
    called = CalledNames(gdb)  # type: ignore[arg-type]
    for _ in range(2):
        assert asyncio.run(called.mpi_call_before(1000)) == "PMPI_Recv"
    assert len(gdb.commands) == len(set(gdb.commands)) == 3
