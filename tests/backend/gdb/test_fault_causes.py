"""Reasons for faults, by what the kernel says and by the mappings."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from pgdb.backend.gdb.fault_causes import Fault, FaultCauses, overflowed
from pgdb.backend.gdb.mi import console
from pgdb.process_maps import Mapping
from tests.support.gdb_breakpoints import started

STACK = 0x7FFF_0000_0000
THREAD = 0x7F00_0000_0000
MAPPINGS = (
    Mapping(0x400000, 0x401000, "r-xp", 0, "/home/me/app"),
    Mapping(0x401000, 0x402000, "r--p", 0, "/home/me/app"),
    Mapping(0x402000, 0x404000, "rw-p", 0, "/home/me/app"),
    Mapping(0x600000, 0x700000, "rw-p", 0, "[heap]"),
    Mapping(THREAD - 0x1000, THREAD, "---p", 0, ""),
    Mapping(THREAD, THREAD + 0x80_0000, "rw-p", 0, ""),
    Mapping(STACK, STACK + 0x2_1000, "rw-p", 0, "[stack]"),
)
IN_STACK, IN_THREAD = STACK + 0x2_0000, THREAD + 0x70_0000
MAPPED, DENIED = 1, 2


def words(address: int, code: int = MAPPED, stack: int = IN_STACK, place: int = 0x400100) -> str:
    return Fault("SIGSEGV", code, address, stack, place).words(MAPPINGS, "8 MiB")


@pytest.mark.parametrize(
    ("address", "stack", "code", "found"),
    [
        (STACK - 8, STACK + 16, MAPPED, "the stack has overflowed ('ulimit -s' is 8 MiB)"),
        (STACK - 0x1000_0000, STACK - 0x1000_0000, MAPPED, "the stack has overflowed"),
        (THREAD - 8, THREAD + 64, DENIED, "the stack of the thread has overflowed (8 MiB)"),
        (THREAD - 8, IN_THREAD, DENIED, "memory that is closed to all accesses"),
        (0x500000, IN_STACK, MAPPED, "an address where no memory is"),
        (0, IN_STACK, MAPPED, "an access through a null pointer"),
        (0x18, IN_STACK, MAPPED, "an access through a null pointer (address 0x18)"),
        (0x401010, IN_STACK, DENIED, "a write to memory that can only be read, of app"),
        (0x402010, IN_STACK, DENIED, ""),
    ],
)
def test_causes_of_segmentation_faults(address: int, stack: int, code: int, found: str) -> None:
    said = words(address, code, stack)
    assert said.startswith(found) if found else not said


def test_a_core_file_does_not_say_whose_stack_it_is() -> None:
    fault = Fault("SIGSEGV", DENIED, THREAD - 8, THREAD + 64, 0x400100)
    assert fault.words(MAPPINGS, is_core=True) == "a stack has overflowed (8 MiB)"


@pytest.mark.parametrize(
    ("stack", "is_core", "found"),
    [
        (STACK - 0x730, False, "the stack has overflowed ('ulimit -s' is 8 MiB)"),
        (THREAD - 0x10, False, "the stack of the thread has overflowed (8 MiB)"),
        (THREAD - 0x10, True, "a stack has overflowed (8 MiB)"),
        (THREAD + 0x10, True, "address, or a stack that has overflowed (8 MiB)"),
        # A stack that grows when it is needed begins near its pointer.
        (STACK + 0x10, False, "a pointer whose value can be no address"),
        (IN_THREAD, True, "a pointer whose value can be no address"),
    ],
)
def test_a_stack_without_room_for_a_handler_has_overflowed(
    stack: int, is_core: bool, found: str
) -> None:
    fault = Fault("SIGSEGV", 128, 0, stack, 0x400100)
    assert fault.words(MAPPINGS, "8 MiB", is_core=is_core).endswith(found)


def test_the_address_of_the_instruction_shows_a_call() -> None:
    assert words(0, place=0) == "a call through a null pointer"
    assert words(0x500000, place=0x500000) == "a jump to an address where no code is"


def test_a_stack_pointer_that_is_no_stack_is_no_overflow() -> None:
    """A corrupted stack pointer can be anywhere."""
    assert overflowed(0x5FFFF0, 0x600010, MAPPINGS) is None
    assert overflowed(0x10, 0x20, MAPPINGS) is None
    assert overflowed(1 << 62, 1 << 62, MAPPINGS) is None


@pytest.mark.parametrize(
    ("signal", "code", "found"),
    [
        ("SIGBUS", 2, "memory of a mapped file behind the file's end"),
        ("SIGFPE", 1, "a division of an integer by zero"),
        ("SIGFPE", 7, "an operation without a result (invalid), such as 0/0"),
        ("SIGFPE", 99, ""),
        ("SIGSEGV", 128, "a pointer whose value can be no address"),
        ("SIGSEGV", 99, ""),
    ],
)
def test_the_kernels_codes(signal: str, code: int, found: str) -> None:
    assert Fault(signal, code, 0, IN_STACK, 0x400100).words(MAPPINGS) == found


FAULTY = {
    "die.c": "int main(void) { int *volatile p = 0; return *p; }",
    "die.cpp": "int main() { int *volatile p = nullptr; return *p; }",
    "die.f90": "integer, pointer :: p\np => null()\np = 3\nend\n",
}


@pytest.mark.gdb
@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_has_its_cause_in_a_frame_of_any_language(tmp_path: Path, name: str) -> None:
    compiler = {"die.c": "cc", "die.cpp": "c++", "die.f90": "gfortran"}[name]
    if shutil.which(compiler) is None:
        pytest.skip(f"this machine has no {compiler}")
    (tmp_path / name).write_text(FAULTY[name])
    subprocess.run([compiler, "-g", "-O0", "-o", "die", name], cwd=tmp_path, check=True)

    async def check() -> None:
        async with started() as (gdb, listener, _):
            await gdb.send(f"-file-exec-and-symbols {tmp_path / 'die'}")
            await gdb.send("-exec-run")
            await listener.stops.get()
            pid = int((await gdb.send(console("python print(gdb.selected_inferior().pid)"))).text)
            assert await FaultCauses(gdb).of("SIGSEGV", pid) == "an access through a null pointer"
            assert await FaultCauses(gdb).of("SIGSEGV", pid) == "an access through a null pointer"
            await gdb.send(console("kill"))

    asyncio.run(check())
