"""Which GDBs can come from a nursery."""

from __future__ import annotations

import pytest

from pgdb.backend.nursery import why_not


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
