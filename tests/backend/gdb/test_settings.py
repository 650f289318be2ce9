"""A real GDB with its settings, and with printers of ours."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pgdb.backend.gdb import settings
from pgdb.backend.gdb.settings import SETTINGS

CODE = Path(settings.__file__).parent
REGISTER = (
    "python import gdb.printing;"
    " mine = gdb.printing.RegexpCollectionPrettyPrinter('builtin');"
    " mine.add_printer('mine', '^int$', lambda value: None);"
    " gdb.pretty_printers.append(mine)"
)
OWN = (
    f"python import sys; sys.path.insert(0, {str(CODE)!r}); import printers_in_gdb as printers;"
    " printers.register(lambda value: None, 'one'); printers.hide_own('xmethods')"
)
COUNT = "python print('looked up:', len(gdb.pretty_printers))"


@pytest.mark.skipif(shutil.which("gdb") is None, reason="needs gdb")
def test_printers_of_ours_and_unused_ones_are_not_shown() -> None:
    """GDB's own printer of MPX registers costs time and is not looked up; it is shown as ever."""
    line = ["gdb", "-nx", "-batch", "-ex", REGISTER, "-ex", OWN]
    line += [word for each in SETTINGS for word in ("-ex", each.command)]
    said = subprocess.run(
        [*line, "-ex", COUNT, "-ex", "info pretty-printer", "-ex", "disable pretty-printer"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    if "looked up" not in said:
        pytest.skip("this GDB has no Python")
    has_mpx = " mpx " in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    knows_mpx = "mpx_bound128" in said
    assert f"looked up: {2 + (knows_mpx and has_mpx)}\n" in said
    assert "pgdb-" not in said
    assert "builtin\n    mine\n" in said
    assert f"\n{1 + knows_mpx} printer" in said
