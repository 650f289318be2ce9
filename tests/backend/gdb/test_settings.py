"""A real GDB accepts its settings."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pgdb.backend.gdb.settings import SETTINGS

REGISTER = (
    "python import gdb.printing;"
    " mine = gdb.printing.RegexpCollectionPrettyPrinter('builtin');"
    " mine.add_printer('mine', '^int$', lambda value: None);"
    " gdb.pretty_printers.append(mine)"
)


@pytest.mark.skipif(shutil.which("gdb") is None, reason="needs gdb")
def test_only_the_printer_for_registers_that_are_not_there_is_off() -> None:
    line = ["gdb", "-nx", "-batch", "-ex", REGISTER]
    line += [word for each in SETTINGS for word in ("-ex", each.command)]
    said = subprocess.run(
        [*line, "-ex", "info pretty-printer"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    found = {}
    collection = ""
    for printer in said.splitlines():
        if printer.startswith("    "):
            found[printer.strip()] = collection
        else:
            collection = printer.strip()
    if "mpx_bound128" not in found:
        pytest.skip("this GDB knows nothing of MPX, or has no Python")
    has_mpx = " mpx " in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    assert found["mpx_bound128"] == ("builtin" if has_mpx else "builtin [disabled]")
    assert found["mine"] == "builtin"
