"""The table of deaths, the conditions of stops before them, and MPICH's hidden abort."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import subprocess
from pathlib import Path

import pytest

from pgdb.backend.gdb import hidden_abort
from pgdb.backend.gdb.death_points import CATCH, POINTS, Point
from pgdb.backend.gdb.death_text import DeathTexts
from pgdb.backend.gdb.deaths import (
    TABLE,
    death_in,
    find_deaths,
    text_in_arguments,
    words,
)
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.mpi_frames import Owner, Place
from pgdb.records import Frame, Variable
from tests.fakes.table_gdb import TableGdb, said


def place(
    function: str, owner: Owner = Owner.C_RUNTIME, source: str = "", **arguments: str
) -> Place:
    items = tuple(Variable(name, value, is_argument=True) for name, value in arguments.items())
    return Place(Frame(0, function, arguments=items, fullname=source), 0, owner)


@pytest.mark.parametrize(
    ("function", "bare"),
    [
        ("ompi_mpi_errors_are_fatal_comm_handler", "fatal error"),
        ("ompi_mpi_errors_abort_win_handler", "fatal error"),
        ("MPIR_Handle_fatal_error", "fatal error"),
        ("PMPI_Abort", "aborting the job"),
        ("mpi_abort_", "aborting the job"),
        ("__GI___assert_fail", "an assertion failed"),
        ("std::terminate()", "terminated by the C++ library"),
        ("_gfortran_runtime_error_at", "Fortran runtime error"),
        ("_gfortran_error_stop_string", "ERROR STOP"),
        ("__asan::ReportGenericError(unsigned long, bool)", "sanitizer report"),
        ("Py_FatalError", "Python's fatal error"),
        ("exit", ""),
    ],
)
def test_functions_in_which_a_rank_dies(function: str, bare: str) -> None:
    row = death_in(function)
    assert row is not None and row.bare == bare


@pytest.mark.parametrize(
    "function",
    ["PMPI_Send", "main", "ompi_errhandler_invoke", "my_exit", "abort_if", "exits", "??"],
)
def test_functions_in_which_no_rank_dies(function: str) -> None:
    assert death_in(function) is None


def test_the_outermost_death_comes_first_and_users_functions_are_none(tmp_path: Path) -> None:
    source = tmp_path / "user.c"
    source.touch()
    stack = (
        place("poll"),
        place("ompi_mpi_abort", Owner.MPI),
        place("ompi_mpi_errors_are_fatal_comm_handler", Owner.MPI),
        place("PMPI_Send", Owner.MPI),
        place("exit", Owner.USER, str(source)),
    )
    assert [each.level for each in find_deaths(stack)] == [2, 1]
    # MPICH calls the user's error handler from the same function.
    handled = (place("handler", Owner.USER, str(source)), place("MPIR_Err_return_comm", Owner.MPI))
    assert not find_deaths(handled) and find_deaths(handled[1:])


def test_words_for_a_text_or_without_one() -> None:
    stack = (
        place("raise"),
        place("__assert_fail", assertion='0x55 "strcmp(a, \\"b\\") == 0"'),
        place("main"),
    )
    (dying,) = find_deaths(stack)
    text = text_in_arguments(stack, dying)
    assert words(dying.row, text) == "assertion 'strcmp(a, \"b\") == 0' failed"
    assert words(dying.row, "") == "an assertion failed"
    assert words(dying.row, "x" * 999).endswith("x…' failed")
    handler = (place("handler", signo="11"), place("<signal handler called>"))
    (dying,) = find_deaths(handler)
    assert words(dying.row, text_in_arguments(handler, dying)) == "in a handler of SIGSEGV"
    other = (place("handler", signo="10"), place("<signal handler called>"))
    assert text_in_arguments(other, find_deaths(other)[0]) == ""
    # A status of 0 is a good end.
    good, bad = (place("exit", status="0"),), (place("exit", status="3"),)
    assert words(death_in("exit"), text_in_arguments(good, find_deaths(good)[0])) == ""  # type: ignore[arg-type]
    assert text_in_arguments(bad, find_deaths(bad)[0]) == "3"


def test_every_row_has_words_and_a_text_pattern_that_compiles() -> None:
    for row in TABLE:
        assert row.says or row.bare, row.functions
        if row.says:
            assert "{}" in row.says


def test_a_good_end_does_not_stop() -> None:
    for point in POINTS:
        command = point.command(point.function, is_pending=point.is_of_mpi)
        assert f"break -qualified {point.function} if " in command
        if point.is_exit and point.is_known:
            assert f"({point.register} & 255) != 0" in command
    assert Point("exit", "exit({})", 0, is_exit=True).words(256 + 3) == "exit(3)"
    assert Point("PMPI_Abort", "MPI_Abort(comm, {})", 1).words(None) == "MPI_Abort(comm, …)"
    assert CATCH.match("catch death") and CATCH.match("tcatch  death")
    assert not CATCH.match("catch deaths") and not CATCH.match("catch throw")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the instruction is one of x86-64")
def test_a_hidden_abort_is_found_by_its_message(tmp_path: Path) -> None:
    source = tmp_path / "abort.c"
    source.write_text(
        "#include <stdio.h>\n"
        '__attribute__((visibility("hidden"))) void ends(int code, char *text)\n'
        '{ char all[99]; snprintf(all, 99, "Abort(%d)%s%s: %s%s\\n", code, "", "", text, ""); '
        "puts(all); }\n"
        'void call(void) { ends(3, "x"); puts("another"); }\n'
    )
    library = tmp_path / "libabort.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    with open(library, "rb") as file:
        found = hidden_abort.offsets_in(file.fileno())
    assert len(found) == 1
    assert library.read_bytes()[found[0] : found[0] + 2] in (b"\x48\x8d", b"\x4c\x8d")
    with pytest.raises(ValueError), open(source, "rb") as file:
        hidden_abort.offsets_in(file.fileno())


@pytest.mark.parametrize(
    ("function", "message", "text"),
    [
        ("__assert_fail", b"app: a.c:3: f: Assertion `n == 8' failed.\n", "n == 8"),
        ("__libc_message", b"free(): invalid pointer\n", "free(): invalid pointer"),
        ("__assert_fail", b"free(): invalid pointer\n", ""),
    ],
)
def test_the_message_that_the_c_library_keeps(function: str, message: bytes, text: str) -> None:
    """Without the library's debug information the stack refers to the format of the message."""
    kept = ctypes.create_string_buffer(struct.pack("I", 4096) + message)
    form = ctypes.create_string_buffer(b"%s%s%s:%u: %s%sAssertion `%s' failed.\n%n")
    stack = ctypes.create_string_buffer(struct.pack("2Q", ctypes.addressof(form), 0))
    begin = ctypes.addressof(stack)
    row = death_in(function)
    assert row is not None
    asked = "-data-evaluate-expression --thread 1 --frame"
    output = console("with language c -- output/d *(long *)&__abort_msg")

    async def run() -> str:
        gdb = TableGdb(
            {
                f"{asked} 0 $sp": f'^done,value="{begin:#x}"',
                f"{asked} 3 $sp": f'^done,value="{begin + 16:#x}"',
                output: said(str(ctypes.addressof(kept))),
            }
        )
        return await DeathTexts(gdb).of(row, os.getpid(), 1, 3, None)

    assert asyncio.run(run()) == text


@pytest.mark.parametrize(
    ("function", "title", "message", "text"),
    [
        ("_gfortran_runtime_error_at", b"\nFortran runtime error: ", b"Index '5'", "Index '5'"),
        ("_gfortran_generate_error", b"Expected %s for item ", b"End of file", "End of file"),
        ("_gfortran_runtime_error", b"Fortran runtime error: ", b"No shape", "No shape"),
        ("_gfortran_error_stop_string", b"ERROR STOP ", b"no grid", "no grid"),
        ("_gfortran_runtime_error_at", b"\nA title of others: ", b"Index '5'", ""),
        ("_gfortran_runtime_error_at", b"Fortran runtime error: ", b"", ""),
    ],
)
def test_the_message_that_the_fortran_library_has_written(
    function: str, title: bytes, message: bytes, text: str
) -> None:
    strings = [ctypes.create_string_buffer(each) for each in (title, message)]
    parts: list[int] = [7, 1 << 40]
    for each in strings:
        parts += (ctypes.addressof(each), len(each.value))
    stack = ctypes.create_string_buffer(struct.pack(f"{len(parts)}Q", *parts))
    begin = ctypes.addressof(stack)
    row = death_in(function)
    assert row is not None

    asked = "-data-evaluate-expression --thread 1 --frame"

    async def run() -> str:
        gdb = TableGdb(
            {
                f"{asked} 0 $sp": f'^done,value="{begin:#x}"',
                f"{asked} 3 $sp": f'^done,value="{begin + 8 * len(parts):#x}"',
            }
        )
        return await DeathTexts(gdb).of(row, os.getpid(), 1, 3, None)

    assert asyncio.run(run()) == text
