"""Loops that a rank cannot leave, in functions of a library in this process."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
from pathlib import Path
from typing import Literal

import pytest

from pgdb.backend.gdb.rank_image import ProcessImage
from pgdb.backend.mpi_calls.frames import MachineFrame
from pgdb.backend.mpi_calls.instructions import REGISTERS
from pgdb.backend.mpi_calls.loops import loop_of
from pgdb.mpi_calls import Loop
from pgdb.mpi_recorder import layout

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the code that is followed is x86-64"
)

SOURCE = r"""
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

volatile int flag;
volatile double sum;
volatile long count;
void (*volatile hook)(void);

static __attribute__((noinline)) void work(long steps)
{
    for (long i = 0; i < steps; i++)
        sum += 1.0 / (double)(i + 1);
}

static __attribute__((noinline)) void deeper(long steps)
{
    if (steps > 0) {
        work(steps);
        deeper(steps - 1);
    }
}

void computes_for_ever(void) { for (;;) sum += 1.0; }
void works_for_ever(void) { for (;;) work(1000); }
void recurses_for_ever(void) { for (;;) deeper(10); }
void sleeps_for_ever(void) { for (;;) usleep(1000); }
void takes_roots_for_ever(void) { for (;;) sum += sqrt(sum) + sin(sum); }
void works_and_ends(void) { work(1000000); }
void waits_for_a_flag(void) { while (!flag) continue; }
void waits_and_yields(void) { while (!flag) sched_yield(); }
void waits_and_sleeps(void) { while (!flag) usleep(100); }
void waits_and_counts(void) { while (!flag) count++; }
void waits_and_works(void) { while (!flag) work(3); }
void may_exit(void) { for (;;) { work(1000000); if (count > 1000) exit(1); } }
void calls_a_hook(void) { for (;;) { work(1000000); hook(); } }
void asks_the_system(void) { for (;;) { work(1000000); if (getppid() == 1) return; } }
"""
CALLER = "void other(void); void calls_it_for_ever(void) { for (;;) other(); }"
OTHER = "#include <unistd.h>\nvoid other(void) { getppid(); }"

LOOPS: dict[str, Loop] = {
    "computes_for_ever": "no way out",
    "works_for_ever": "no way out",
    "recurses_for_ever": "no way out",
    "sleeps_for_ever": "no way out",
    "takes_roots_for_ever": "no way out",
    "works_and_ends": "",
    "waits_for_a_flag": "spins",
    "waits_and_yields": "spins",
    "waits_and_sleeps": "spins",
    "waits_and_counts": "",
    "waits_and_works": "",
    "may_exit": "",
    "calls_a_hook": "",
    "asks_the_system": "",
}
RECORDED = "int PMPI_Poke(int x) { return x; }"
RECORDER = "int PMPI_Poke(int), calls; int MPI_Poke(int x) { calls++; return PMPI_Poke(x); }"
POKES = "int MPI_Poke(int); volatile int end; void pokes(void) { while (!end) MPI_Poke(0); }"
_STACK = 0x7EBFE000


def owner(path: str) -> Literal["user", "c", ""]:
    """Return the owner of an object file: the user's is the library of the test."""
    name = os.path.basename(path)
    if name.startswith("loops"):
        return "user"
    return "c" if name.startswith(("libc.", "libm.")) else ""


@pytest.fixture(scope="module", params=["-O0", "-O2"])
def library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("loops")
    made = built(folder / f"loops{request.param}.so", SOURCE, str(request.param), "-lm")
    return ctypes.CDLL(str(made))


def built(made: Path, source: str, *options: str) -> Path:
    code = made.with_suffix(".c")
    code.write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, code, *options], check=True)
    return made


def registers() -> dict[str, int]:
    known = {full: 0 for full, _ in REGISTERS.values()}
    return {**known, "rsp": _STACK, "eflags": 0}


def loop(library: ctypes.CDLL, function: str) -> Loop:
    """Return the loop of a thread that has come to the beginning of a function."""
    address = ctypes.cast(getattr(library, function), ctypes.c_void_p).value
    assert address is not None
    frame = MachineFrame(pc=address, registers=registers(), function=function)
    return loop_of(ProcessImage(os.getpid()), 0, [frame], owner)


@pytest.mark.slow
@pytest.mark.parametrize("function", LOOPS)
def test_loop_is_proven_or_nothing_is_said(library: ctypes.CDLL, function: str) -> None:
    assert loop(library, function) == LOOPS[function]


def test_a_flag_that_is_set_ends_a_loop(library: ctypes.CDLL) -> None:
    flag = ctypes.c_int.in_dll(library, "flag")
    flag.value = 1
    try:
        assert loop(library, "waits_for_a_flag") == ""
    finally:
        flag.value = 0


def test_a_function_of_another_library_may_do_anything(tmp_path: Path) -> None:
    other = built(tmp_path / "other.so", OTHER)
    ctypes.CDLL(str(other), mode=ctypes.RTLD_GLOBAL)
    made = built(tmp_path / "loops.so", CALLER, str(other))
    assert loop(ctypes.CDLL(str(made)), "calls_it_for_ever") == ""


@pytest.mark.parametrize(
    ("name", "found"), [(layout.LIBRARY, "spins"), ("libcounter.so", "")], ids=str
)
def test_the_recorder_of_mpi_calls_counts_and_changes_no_loop(
    tmp_path: Path, name: str, found: Loop
) -> None:
    inner = built(tmp_path / "libinner.so", RECORDED)
    between = built(tmp_path / name, RECORDER, str(inner))
    made = built(tmp_path / "loops.so", POKES, str(between), str(inner))
    recorder, library = ctypes.CDLL(str(between)), ctypes.CDLL(str(made))
    assert loop(library, "pokes") == found
    # The same of a thread that is in the call.
    at, begin = (
        ctypes.cast(each, ctypes.c_void_p).value for each in (recorder.MPI_Poke, library.pokes)
    )
    assert at is not None and begin is not None
    frames = [
        MachineFrame(pc=at, registers=registers(), function="MPI_Poke"),
        MachineFrame(pc=begin, registers=registers(), function="pokes"),
    ]
    assert loop_of(ProcessImage(os.getpid()), 0, frames, owner) == found


def test_a_thread_in_the_c_library_is_where_its_caller_is(library: ctypes.CDLL) -> None:
    asleep = ctypes.cast(ctypes.CDLL("libc.so.6").usleep, ctypes.c_void_p).value
    begin = ctypes.cast(library.sleeps_for_ever, ctypes.c_void_p).value
    assert asleep is not None and begin is not None
    inner = MachineFrame(pc=asleep, registers={}, function="usleep")
    outer = MachineFrame(pc=begin, registers={}, function="sleeps_for_ever")
    image = ProcessImage(os.getpid())
    assert loop_of(image, 0, [inner, outer], owner) == "no way out"
    unknown = MachineFrame(pc=asleep, registers={}, function="qsort")
    assert loop_of(image, 0, [unknown, outer], owner) == ""


def test_memory_that_cannot_be_read_proves_nothing() -> None:
    frame = MachineFrame(pc=0x1000, registers={}, function="main")
    assert loop_of(ProcessImage(2**22 + 1), 0, [frame], owner) == ""
