"""Choice between a GDB from a nursery and one of the rank's own."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys

import pytest

from pgdb.backend.gdb.process import ForkedGdb
from pgdb.backend.zygote.nursery import _last_words, why_not


@pytest.mark.parametrize(
    "command",
    [
        "set print pretty on",
        " set p elements 0",
        "handle SIGUSR1 nostop",
        "skip file a.c",
        "",
        "set var x = 1",
        "set $level = 2",
        "directory /src",
        "set max-value-size unlimited",
    ],
)
def test_what_is_about_showing_or_running_concerns_no_nursery(command: str) -> None:
    assert why_not(["set confirm off", command]) == ""


@pytest.mark.parametrize(
    "command",
    [
        "set debug-file-directory /d",
        "set solib-search-path /x",
        "set sysroot /",
        "source f",
        "add-auto-load-safe-path /",
        "set auto-load python-scripts off",
        "python import printers",
        "set debuginfod enabled on",
        "symbol-file a",
        "set printer x",
        "maint set dwarf x",
    ],
)
def test_what_may_be_about_files_wants_gdbs_that_read_them(command: str) -> None:
    assert why_not(["set print pretty on", command]) == (
        f"'{command}' may be for GDBs that read libraries themselves"
    )


@pytest.mark.parametrize("is_first", [True, False])
def test_the_end_of_a_gdb_that_never_spoke_is_nobodys(is_first: bool) -> None:
    """Without it, a rank that gets another GDB would count as one without a debugger."""

    async def run() -> tuple[bool, list[str]]:
        ends: list[str] = []
        ours, theirs = socket.socketpair()
        process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL)
        gdb = await ForkedGdb.take(ours, process.pid, lambda line: None, ends.append)
        # The nursery's report and the end of the socket arrive in any order.
        for ends_now in (is_first, not is_first):
            if ends_now:
                gdb.exited(process.wait())
            else:
                theirs.close()
                await asyncio.sleep(0.1)
        is_ready = await gdb.ready
        await asyncio.sleep(0.1)
        return is_ready, ends

    assert asyncio.run(run()) == (False, [])


def test_the_last_words_of_a_gdb_say_why() -> None:
    errors = (
        "Python Exception <class 'ImportError'>: no module forking_in_gdb\n"
        "Error while executing Python code.\n\n"
    )
    assert _last_words(errors) == "Python Exception <class 'ImportError'>: no module forking_in_gdb"
    assert _last_words("") == ""
    assert len(_last_words("x" * 500)) == 200
