"""The GDB of this machine: the marks of tests that need it, and questions to it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

NEEDS_CC_AND_GDB = [
    pytest.mark.gdb,
    pytest.mark.skipif(not shutil.which("cc"), reason="this machine has no C compiler"),
    pytest.mark.skipif(not shutil.which("gdb"), reason="this machine has no GDB"),
]
"""Marks of live tests that need no MPI."""


def ask_gdb(directory: Path, code: str, cases: Sequence[object]) -> list[Any]:
    """Return the answers of GDB to some cases.

    *code* is Python for GDB. It reads the file ``{cases}``, writes a JSON list to ``{answer}``, and
    may use ``{script}`` for a script; all three stand in *code* as fields of a format.
    """
    files = {name: str(directory / name) for name in ("cases", "answer", "script")}
    Path(files["cases"]).write_text(json.dumps(cases), encoding="utf-8")
    program = directory / "ask.py"
    program.write_text(code.format(**files), encoding="utf-8")
    gdb = shutil.which("gdb")
    assert gdb is not None
    subprocess.run(
        [gdb, "-nx", "-q", "-batch", "-ex", "set confirm off", "-x", str(program)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
        timeout=60,
    )
    answers: list[Any] = json.loads(Path(files["answer"]).read_text(encoding="utf-8"))
    return answers
