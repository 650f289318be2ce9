"""The command line of GDB runs all modules that it names."""

from __future__ import annotations

import os
import subprocess

import pytest

from pgdb.backend.gdb.process import command_line, environment_with_code


@pytest.mark.gdb
def test_a_gdb_runs_all_modules_without_an_error() -> None:
    finished = subprocess.run(
        [*command_line("gdb"), "-batch"],
        env=environment_with_code(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    printed = finished.stdout + finished.stderr
    assert "Traceback" not in printed and "error" not in printed.casefold(), printed
