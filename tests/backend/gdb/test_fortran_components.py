"""A component of all elements of a Fortran array, under a real GDB: text, numbers, places."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import numpy
import pytest

from pgdb.backend.gdb.blocks import read_block
from pgdb.backend.gdb.fortran_elements import (
    with_address,
    with_elements,
    with_way_to_watch,
)
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.session import GdbSession
from pgdb.overlay.operations import ReadBlock
from pgdb.records import Block, Failure
from tests.support.gdb_breakpoints import run_to, started

pytestmark = [pytest.mark.gdb]

PROGRAM = """
module grid
  implicit none
  type place
    integer :: i
    real(8) :: x
  end type
  type row
    integer :: id
    real(4) :: load
    type(place) :: at
    type(place) :: all(2)
    integer :: grid(0:1, 2)
    character(len=:), allocatable :: text
    character(len=3) :: name
    complex(8) :: z
    logical :: on
    real(8) :: many(2)
    real(8), allocatable :: some(:)
  end type
  type, extends(row) :: wide
    real :: width
  end type
  type(row) :: rows(0:2)
  type(wide), allocatable :: table(:, :)
  type(place), allocatable :: big(:)
  class(row), allocatable :: one
contains
  subroutine stop_here()
    print *, rows(1)%id, table(0, 1)%id, big(1)%i
  end subroutine
end module
program main
  use grid
  implicit none
  integer :: i, j
  rows%id = (/4, 9, 5/)
  rows%load = 0.5
  rows%at%i = (/10, 11, 12/)
  rows%at%x = (/0.25d0, 7d0, 0.5d0/)
  rows%name = 'abc'
  do i = 0, 2
    rows(i)%many = (/i + 0.5d0, i + 0.25d0/)
    rows(i)%all = (/place(10 * i + 1, 1d0), place(10 * i + 2, 2d0)/)
    rows(i)%grid = reshape((/1, 2, 3, 4/), (/2, 2/)) + 10 * i
  end do
  rows%z = (1d0, 2d0)
  rows%on = .true.
  allocate (table(-1:1, 2), big(20000))
  do j = 1, 2
    do i = -1, 1
      table(i, j)%id = 10 * i + j
      table(i, j)%width = i
    end do
  end do
  big%i = (/(i, i = 1, 20000)/)
  allocate (wide :: one)
  call stop_here()
end program
"""

SHOWN = {
    "output rows%id": "(4, 9, 5)",
    "output grid::rows%id": "(4, 9, 5)",
    "output grid::rows(1)%name": "'abc'",
    "output rows(1:2)%id": "(9, 5)",
    "output rows(2:0:-2)%id": "(5, 4)",
    "output rows%at%x": "(0.25, 7, 0.5)",
    "output rows%name": "('abc', 'abc', 'abc')",
    "output rows%z": "((1,2), (1,2), (1,2))",
    "output rows%on": "(.TRUE., .TRUE., .TRUE.)",
    "output table%id": "((-9, 1, 11) (-8, 2, 12))",
    "output table(:,2)%width": "(-1, 0, 1)",
    # The place of an element, as PGDB shows it, is an expression for it.
    "output rows%id(1)": "9",
    "output rows%at%x(2)": "0.5",
    "output table%width(-1,2)": "-1",
    "output &(rows%id(1)) == &(rows(1)%id)": ".TRUE.",
    "whatis rows%at%x": "type = real(kind=8) (0:2)",
    "output sizeof(rows%id)": "12",
    # A component that is an array: its dimensions come first.
    "output rows%many": "((0.5, 0.25) (1.5, 1.25) (2.5, 2.25))",
    "output rows%many(2)": "(0.25, 1.25, 2.25)",
    "output rows%many(2,1)": "1.25",
    "output rows%many(2)(1)": "1.25",
    "output &(rows%many(2,1)) == &(rows(1)%many(2))": ".TRUE.",
    "output rows%all%i": "((1, 2) (11, 12) (21, 22))",
    "output rows%all(2)%i": "(2, 12, 22)",
    "output rows%all%i(2,1)": "12",
    "output rows%grid(1,2)": "(4, 14, 24)",
    "output rows%grid(1,2,0)": "4",
    "output rows(2:0:-2)%many(1)": "(2.5, 0.5)",
    "output rows(2:0:-2)%many(1,1)": "2.5",
    "output rows(2:0:-2)%id(1)": "5",
    "whatis rows%many": "type = real(kind=8) (2,0:2)",
    "output rows%many(3)": "Wrong number of subscripts",
    "output rows%some": (
        "each element has an array, or a string of its own length, as %some; "
        "name one element, as in A(0)%some"
    ),
    "output rows%text": (
        "each element has an array, or a string of its own length, as %text; "
        "name one element, as in A(0)%text"
    ),
    "output rows%nothing": "There is no member named nothing.",
    # The text of a command is no expression.
    "echo rows%id and one%width\\n": "rows%id and one%width",
    'printf "rows%%id %d\\n", rows(1)%id': "rows%id 9",
    "shell echo 'rows%id'": "",
}
WATCHED = {
    "watch rows%id": (
        "'rows%id' is a component of all elements, which GDB cannot watch together; "
        "watch one, as in 'watch rows(INDEX)%id'"
    ),
    "rwatch -l table(:,2)%many(1)": (
        "'table(:,2)%many(1)' is a component of all elements, which GDB cannot watch together; "
        "watch one, as in 'watch table(:,2)(INDEX)%many(1)'"
    ),
    "watch one%width": (
        "GDB cannot watch 'one%width', for which it has no expression; watch its address: "
        "'print &(one%width)', then 'with language c -- watch *(TYPE *) ADDRESS'"
    ),
    "watch table(0,1)%id": "GDB knows 'table(0,1)%id' as 'table(0,1)%row%id': "
    "'watch table(0,1)%row%id'",
    # Errors of the user's stay as they are.
    "watch rows%nothing": "Attempt to extract a component of a value that is not a structure.",
    "watch one%nothing": "There is no member named nothing.",
}
NUMBERS: dict[str, list[float]] = {
    "rows%id": [4, 9, 5],
    "rows%at%x": [0.25, 7, 0.5],
    "rows(2:0:-2)%id": [5, 4],
    "table%id": [-9, 1, 11, -8, 2, 12],
    "table(:,2)%width": [-1, 0, 1],
    # More than GDB's max-value-size.
    "big%i": [*range(1, 20001)],
    "rows%many": [0.5, 0.25, 1.5, 1.25, 2.5, 2.25],
    "rows%many(2)": [0.25, 1.25, 2.25],
    "rows%grid(0,2)": [3, 13, 23],
    "rows(2:0:-1)%all(2)%i": [22, 12, 2],
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gfortran") is None:
        pytest.skip("this machine has no gfortran")
    directory = tmp_path_factory.mktemp("components")
    (directory / "rows.f90").write_text(PROGRAM)
    line = ["gfortran", "-g", "-O0", "-o", "rows", "rows.f90"]
    subprocess.run(line, cwd=directory, check=True)
    return directory / "rows"


async def shown(gdb: GdbSession, command: str) -> str:
    result = await gdb.send(console(await with_elements(gdb, command, is_command=True)))
    return result.text.strip() or str(failure(result).message)


async def refused(gdb: GdbSession, command: str) -> str:
    record = failure(await gdb.send(console(command)))
    return (await with_way_to_watch(gdb, command, record)).message


async def numbers(gdb: GdbSession, pid: int, expression: str) -> Block | Failure:
    found = await with_address(gdb, expression)
    assert isinstance(found, str), found
    return await read_block(gdb, ReadBlock(expression=found, limit_bytes=1 << 20), pid)


def test_a_component_of_all_elements_is_an_array(program: Path) -> None:
    async def check() -> None:
        async with started() as (gdb, listener, _):
            await run_to(gdb, listener, program, "stop_here")
            listed = await gdb.send(console("python print(gdb.selected_inferior().pid)"))
            pid = int(listed.text)
            assert {each: await shown(gdb, each) for each in SHOWN} == SHOWN
            assert "max-value-size" in await shown(gdb, "output big%i")
            for expression, expected in NUMBERS.items():
                block = await numbers(gdb, pid, expression)
                assert isinstance(block, Block), (expression, block)
                assert numpy.frombuffer(block.data, block.dtype).tolist() == expected
                assert block.order == "F"
            rows = await numbers(gdb, pid, "rows%id")
            assert isinstance(rows, Block)
            assert rows.lower == (0,)
            text = await numbers(gdb, pid, "rows%name")
            assert isinstance(text, Failure)
            assert text.message == "the component is text, not numbers; 'print' shows it"
            assert {each: await refused(gdb, each) for each in WATCHED} == WATCHED
            await gdb.send(console("kill"))

    asyncio.run(check())
