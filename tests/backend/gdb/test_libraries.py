"""The mark of ``info sharedlibrary`` for missing debug information."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.backend.gdb import libraries
from pgdb.backend.gdb.mi import console
from tests.fakes.table_gdb import TableGdb

TABLE = """From        To          Syms Read   Shared Object Library
0x00007fcb  0x00007ff0  Yes         /lib/ld.so.2
0x00007fbc  0x00007fbd  Yes         /opt/lib with blank.so
                        No          /opt/other.so
"""


def marked(said: str) -> str:
    command = console(f"python exec({libraries._SCRIPT!r})")
    return asyncio.run(libraries.with_marks(TableGdb({command: said}), TABLE))


def test_libraries_that_the_script_names_have_the_mark() -> None:
    lines = marked("~/opt/lib with blank.so\n/opt/other.so\n").split("\n")
    assert lines[1] == "0x00007fcb  0x00007ff0  Yes         /lib/ld.so.2"
    assert lines[2] == "0x00007fbc  0x00007fbd  Yes (*)     /opt/lib with blank.so"
    assert lines[3] == "                        No          /opt/other.so"
    assert lines[4:] == ["(*): Shared library is missing debugging information.", ""]


@pytest.mark.parametrize("said", ["~\n", '^error,msg="Python scripting is not supported"'])
def test_a_table_without_such_libraries_stays(said: str) -> None:
    assert marked(said) == TABLE


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("info sharedlibrary", True),
        ("info sh libc", True),
        ("i dll", True),
        ("info signals", False),
        ("info shared-nothing", False),
        ("sharedlibrary", False),
    ],
)
def test_the_command(command: str, expected: bool) -> None:
    assert libraries.lists_libraries(command) is expected
