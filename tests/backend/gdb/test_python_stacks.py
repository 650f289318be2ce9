"""The Python frames of a process are read only where there is an interpreter."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pgdb.backend.gdb.python_stacks import NOT_INITIALIZED, PythonStacks
from pgdb.backend.python.reader import Reading
from tests.support.pythons import interpreters

ROOT = Path(__file__).resolve().parents[3]
EMBEDDING = ROOT / "tests" / "programs" / "embedding.c"


class CountingReader:
    """Reader of nothing that counts how often it was asked."""

    is_of_process = True

    def __init__(self) -> None:
        self.count = 0

    async def read(self, pid: int) -> Reading:
        self.count += 1
        return Reading()


class NoGdb:
    """A GDB that was never asked to run its rank."""

    runs = 0


def ask(pid: int) -> tuple[Reading, int]:
    """Return the reading of a process, and how often its frames were searched for."""
    gdb: Any = NoGdb()
    reader = CountingReader()
    return asyncio.run(PythonStacks(gdb, reader).reading(pid)), reader.count


def linked_library() -> Path:
    """Return the shared library of the interpreter that GDB has within itself."""
    listed = subprocess.run(["ldd", "/usr/bin/gdb"], capture_output=True, text=True, check=False)
    found = re.search(r"=> (\S+/libpython3\S+)", listed.stdout)
    if found is None:
        pytest.skip("the machine's GDB has no shared library of Python")
    return Path(found[1])


@pytest.mark.gdb
def test_an_embedded_interpreter_is_read_while_it_is_initialized(tmp_path: Path) -> None:
    library = linked_library()
    program = tmp_path / "embedding"
    subprocess.run(["cc", "-o", program, EMBEDDING, "-ldl"], check=True)
    # Without variables of this Python, which is another one.
    line, environment = [program, library], {"PATH": os.environ["PATH"]}
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdin=pipe, stdout=pipe, env=environment) as process:
        assert process.stdin is not None and process.stdout is not None
        seen = []
        for said in (b"loaded\n", b"initialized\n", b"finalized\n"):
            assert process.stdout.readline() == said
            seen.append(ask(process.pid))
            process.stdin.write(b"\n")
            process.stdin.flush()
    absent = Reading(why=NOT_INITIALIZED)
    assert seen == [(absent, 0), (Reading(), 1), (absent, 0)]


@pytest.mark.parametrize("python", interpreters())
def test_an_interpreter_of_any_version_is_read(python: str) -> None:
    line = [python, "-c", "print('ready', flush=True); input()"]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert ask(process.pid) == (Reading(), 1)
        process.stdin.write(b"\n")


def test_this_interpreter_is_read() -> None:
    assert ask(os.getpid()) == (Reading(), 1), sys.version
