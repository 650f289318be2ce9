"""Names that the selected frame does not know, under a real GDB: the error says where they are."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.scopes import with_scopes
from pgdb.backend.gdb.session import GdbSession
from pgdb.overlay.operations import Console, Evaluate
from tests.support.gdb_breakpoints import run_to, started

pytestmark = [pytest.mark.gdb]

FORTRAN = """
module field
  implicit none
  real(8) :: temperature = 20.5d0
  integer :: counts(-1:3) = 7
end module
module other
  implicit none
  integer :: counts = 3
end module
subroutine plain(n)
  integer, intent(in) :: n
  interface
    subroutine look() bind(c)
    end subroutine
  end interface
  if (n > 1) call look()
end subroutine
program main
  implicit none
  integer :: steps
  steps = 2
  call plain(steps)
contains
  subroutine touch
    use field
    use other, only: other_counts => counts
    temperature = counts(1) + other_counts
  end subroutine
end program
"""
APART = """
module apart
  implicit none
  real(8) :: gauge = 1.5d0
end module
"""
CPLUSPLUS = """
namespace phys { int total = 3; namespace deep { double gap = 2.5; } }
namespace { int hidden = 4; }
struct Grid { static int cells; };
int Grid::cells = 9;
template <class T> struct Pool { static T blocks; };
template <class T> T Pool<T>::blocks = 5;
extern "C" void stop_here(int);
extern "C" void look() { int inner = hidden; stop_here(inner + Pool<int>::blocks); }
"""
C = "void stop_here(int n) { (void)n; }\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if any(shutil.which(each) is None for each in ("gfortran", "cc", "c++")):
        pytest.skip("this machine has no compilers of three languages")
    directory = tmp_path_factory.mktemp("scopes")
    sources = {"scopes.f90": FORTRAN, "apart.f90": APART, "look.cpp": CPLUSPLUS, "stop.c": C}
    for name, text in sources.items():
        (directory / name).write_text(text)
    for compiler, name in (("cc", "stop.c"), ("c++", "look.cpp"), ("gfortran", "apart.f90")):
        line = [compiler, "-g", "-O0", "-c", name]
        subprocess.run(line, cwd=directory, check=True)
    line = ["gfortran", "-g", "-O0", "-o", "scopes", "scopes.f90", "apart.o", "look.o", "stop.o"]
    subprocess.run([*line, "-lstdc++"], cwd=directory, check=True)
    return directory / "scopes"


async def words(gdb: GdbSession, expression: str, *, command: str = "") -> str:
    """Return what the error for an expression says behind GDB's own words."""
    line = command or f"print {expression}"
    operation = Console(command=command) if command else Evaluate(expression=expression)
    record = failure(await gdb.send(console(line)))
    found = await with_scopes(gdb, operation, record)
    assert found.message.startswith(record.message)
    return found.message.removeprefix(record.message).strip()


def test_the_error_names_the_scope_that_has_the_name(program: Path) -> None:
    async def check() -> None:
        async with started() as (gdb, listener, _):
            await run_to(gdb, listener, program, "stop_here")
            found = "The frame of {0} has it: frame function {0}."
            # Nothing has made GDB read the symbols of this file yet.
            assert await words(gdb, "gauge") == "Another scope has 'apart::gauge'."
            # C has no scopes: GDB takes the names in quotes.
            quoted = "Another scope has 'field::temperature'."
            assert await words(gdb, "temperature * 2") == quoted
            assert await words(gdb, "field::temperature") == quoted
            assert await words(gdb, "inner") == found.format("look")
            assert await words(gdb, "steps") == found.format("MAIN__")
            assert await words(gdb, "nowhere") == ""
            of_macros = "GDB knows those of programs compiled with -g3 alone"
            assert await words(gdb, "n == true") == f"true is a macro, and {of_macros}: write 1."
            assert await words(gdb, "NULL") == f"NULL is a macro, and {of_macros}: write 0."
            maybe = f"Names in capitals are usually macros, and {of_macros}."
            assert await words(gdb, "MPI_COMM_WORLD") == maybe
            of_python = await words(gdb, "", command="whatis py:loss")
            assert of_python.startswith("A value of Python has no type of GDB's: 'print'")
            assert await words(gdb, "", command="whatis py") == ""
            for word in "display watch awat x/2x output call whatis ptype/o".split():
                line = f"{word} steps"
                assert await words(gdb, "", command=line) == found.format("MAIN__"), line
            for line in ('printf "%d", steps', "set var steps = 1"):
                assert await words(gdb, "", command=line) == found.format("MAIN__"), line
            await gdb.send(console("up"))
            assert await words(gdb, "total") == "Another scope has phys::total."
            assert await words(gdb, "gap / 2") == "Another scope has phys::deep::gap."
            assert await words(gdb, "cells") == "Another scope has Grid::cells."
            assert await words(gdb, "blocks") == "Another scope has Pool<int>::blocks."
            # The condition is about the place of the breakpoint, no matter what is selected.
            line = "break stop_here if gap > 1"
            assert await words(gdb, "", command=line) == "Another scope has phys::deep::gap."
            assert await words(gdb, "", command="break stop_here if steps > 1") == ""
            await gdb.send(console("up"))
            assert await words(gdb, "temperature") == "Another scope has field::temperature."
            several = "Other scopes have field::counts, other::counts."
            assert await words(gdb, "counts(1)") == several
            assert await words(gdb, "NOWHERE") == ""  # capitals of Fortran say nothing
            assert await words(gdb, "steps") == found.format("MAIN__")
            result = await gdb.send(console("output field::counts(-1) + other::counts"))
            assert result.text == "10"
            await gdb.send(console("kill"))

    asyncio.run(check())
