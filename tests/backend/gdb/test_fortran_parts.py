"""Parts of Fortran variables under a real GDB, and the same names in a frame of C."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from pgdb.backend.gdb import queries, unset_bounds
from pgdb.backend.gdb.fortran_elements import with_elements, with_parser_words
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.session import GdbSession
from pgdb.records import Variables
from tests.support.gdb_breakpoints import run_to, started

pytestmark = [pytest.mark.gdb]

FORTRAN = """
module shapes
  implicit none
  type shape
    integer :: id = 7
    character(len=:), allocatable :: name
  end type
  type, extends(shape) :: circle
    real(8) :: rank = 2.5
  end type
  type, extends(circle) :: ring
    real :: width = 0.5
  end type
contains
  subroutine work(n, back, words, one, labels, rank)
    integer :: n, rank, back(:)
    character(len=*) :: labels(:)
    character(len=n) :: words(3)
    class(shape) :: one
    real(8) :: size(4)
    type(ring) :: plain
    character(len=:), allocatable :: titles(:)
    interface
      subroutine stop_here() bind(c)
      end subroutine
    end interface
    size = 1.5d0
    allocate (character(len=3) :: titles(0:1))
    titles = 'one'
    titles(1) = 'two'
    plain%width = n
    plain%name = 'plain'
    call stop_here()
    print *, n, back, words, one%id, rank, size, plain%rank, plain%name, titles, labels
  end subroutine
end module
program main
  use shapes
  implicit none
  integer :: numbers(5) = (/1, 2, 3, 4, 5/)
  character(len=4) :: words(3) = (/'abcd', 'efgh', 'ijkl'/)
  type(ring) :: one
  character(len=:), allocatable :: labels(:)
  allocate (character(len=3) :: labels(-1:0))
  labels = 'one'
  labels(0) = 'two'
  one%name = 'ring'
  call work(4, numbers(5:1:-1), words, one, labels, 42)
end program
"""
C = """
struct pair { int kind; double shape; };
static void look(double size, struct pair *rank) { rank->kind += (int)size; }
void stop_here(void)
{
    struct pair rank = {3, 4.5};
    double size = 2.5;
    look(size, &rank);
}
"""

NESTED = """
program main
  implicit none
  integer :: rank, size(3), kind
  rank = 7
  size = (/1, 2, 3/)
  kind = 4
  call host(2)
contains
  subroutine host(n)
    integer :: n
    call inner(n)
  end subroutine
  subroutine inner(n)
    integer :: n
    interface
      subroutine stop_here() bind(c)
      end subroutine
    end interface
    call stop_here()
    print *, n
  end subroutine
end program
"""
IN_NESTED = {
    "output rank": "7",
    "output rank + kind": "11",
    "output size": "(1, 2, 3)",
    "output size(2)": "2",
    "whatis size": "type = integer(kind=4) (3)",
}
IN_C = {
    "ptype size": "type = double",
    "whatis rank": "type = struct pair",
    "output sizeof(rank)": "16",
    "output rank.kind % 2": "1",
    "output size": "2.5",
}
IN_FORTRAN = {
    "whatis rank": "type = integer(kind=4)",
    "whatis size": "type = real(kind=8) (4)",
    "ptype size(2:3)": "type = real(kind=8) (2)",
    "whatis back(2)": "type = integer(kind=4)",
    "ptype words(2)": "type = character (4)",
    "whatis plain%rank": "type = real(kind=8)",
    "whatis one%rank": "type = real(kind=8)",
    "whatis one%id": "type = integer(kind=4)",
    "whatis titles": "type = character*3 (0:1)",
    "ptype titles": "type = character*3 (0:1)",
    "output &titles == 0": ".FALSE.",
    "output titles": "('one', 'two')",
    "output titles(1)": "'two'",
    "output titles(0)": "'one'",
    "whatis labels": "type = character*3 (2)",
    "output labels(2)": "'two'",
    "output sizeof(size)": "32",
    "output sizeof(rank) + rank": "46",
    "output size(2) + sizeof(size(1))": "9.5",
    "output words(2)": "'efgh'",
    "output back(2)": "4",
    "output one%id + plain%id": "14",
    "output one%rank": "2.5",
    "output one%name": "'ring'",
    "output plain%name": "'plain'",
    "output plain%circle%shape%id": "7",
    "output one%width": "0.5",
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gfortran") is None or shutil.which("cc") is None:
        pytest.skip("this machine has no gfortran or no cc")
    directory = tmp_path_factory.mktemp("parts")
    (directory / "parts.f90").write_text(FORTRAN)
    (directory / "nested.f90").write_text(NESTED)
    (directory / "stop_here.c").write_text(C)
    options = ("-g", "-O0")
    subprocess.run(["cc", *options, "-c", "stop_here.c"], cwd=directory, check=True)
    for name in ("parts", "nested"):
        line = ["gfortran", *options, "-o", name, f"{name}.f90", "stop_here.o"]
        subprocess.run(line, cwd=directory, check=True)
    return directory / "parts"


async def shown(gdb: GdbSession, commands: Mapping[str, str]) -> dict[str, str]:
    """Return the answers to commands, as PGDB sends them."""
    found = {}
    for command in commands:
        asked = await with_elements(gdb, command, is_command=True)
        result = await gdb.send(console(asked))
        found[command] = result.text.strip() or result.message
    return found


def test_values_and_types_of_parts_are_those_of_the_language(program: Path) -> None:
    async def check() -> None:
        async with started() as (gdb, listener, _):
            await run_to(gdb, listener, program, "look")
            await gdb.send(console("up"))
            assert await shown(gdb, IN_C) == IN_C
            await gdb.send(console("up"))
            assert await shown(gdb, IN_FORTRAN) == IN_FORTRAN
            await gdb.send(console("kill"))

    asyncio.run(check())


def test_listed_arrays_of_strings_have_their_bounds(program: Path) -> None:
    async def check() -> None:
        async with started() as (gdb, listener, _):
            await run_to(gdb, listener, program, "look")
            await gdb.send(console("up 2"))
            listed = await queries.variables(gdb, "locals")
            assert isinstance(listed, Variables)
            found = await unset_bounds.with_strings(gdb, listed)
            (titles,) = [each for each in found.items if each.name == "titles"]
            assert (titles.value, titles.bounds) == ("('one', 'two')", "0")
            await gdb.send(console("kill"))

    asyncio.run(check())


def test_variables_of_the_containing_procedure_are_read_in_its_frame(program: Path) -> None:
    async def check() -> None:
        async with started() as (gdb, listener, _):
            await run_to(gdb, listener, program.with_name("nested"), "stop_here")
            await gdb.send(console("up"))
            assert await shown(gdb, IN_NESTED) == IN_NESTED
            line = "break inner if rank == 7"
            error = failure(await gdb.send(console(line)))
            words = (await with_parser_words(gdb, line, error)).message
            assert "'rank' is a word of GDB's parser" in words
            assert words.endswith("$_rank is the number of the rank")
            # The line that the error names works.
            named = words.partition("; '")[2].partition("' takes")[0]
            assert (await gdb.send(console(named))).kind == "done"
            assert await with_parser_words(gdb, "break inner if n ==", error) == error
            assert await with_parser_words(gdb, "break inner", error) == error
            await gdb.send(console("kill"))

    asyncio.run(check())
