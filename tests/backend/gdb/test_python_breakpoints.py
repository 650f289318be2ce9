"""A breakpoint at a line of Python that no file of the rank has is doubted when it is made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdb.backend.gdb.python_breakpoints import doubt_about


@pytest.fixture
def pid(tmp_path: Path) -> Iterator[int]:
    """A process that runs ``sub/train.py`` of three lines, in a folder with ``other.py`` of one."""
    script = tmp_path / "sub" / "train.py"
    script.parent.mkdir()
    script.write_text("print('ready', flush=True)\n\ninput()\n")
    (tmp_path / "sub" / "beside.py").write_text("def f(): pass")
    (tmp_path / "other.py").write_text("x = 1")
    line, pipe = [sys.executable, "sub/train.py"], subprocess.PIPE
    with subprocess.Popen(line, cwd=tmp_path, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.kill()


@pytest.mark.parametrize(
    ("file", "line", "doubt"),
    [
        ("train.py", 3, ""),
        ("train.py", 4, "train.py has 3 lines"),
        ("sub/train.py", 99, "train.py has 3 lines"),
        ("other.py", 1, ""),
        ("other.py", 2, "other.py has 1 line"),
        ("absent.py", 9, ""),
    ],
)
def test_a_line_behind_the_end_of_its_file_is_doubted(
    pid: int, file: str, line: int, doubt: str
) -> None:
    assert doubt_about(pid, {"file": file, "line": line}) == doubt


@pytest.mark.parametrize(
    ("function", "doubt"),
    [
        ("train.print", ""),
        ("train.step", "train.py does not have the name 'step'"),
        ("train.prin", "train.py does not have the name 'prin'"),
        ("train.Grid.print", "train.py does not have the name 'Grid'"),
        ("beside.f", ""),
        ("beside.g", "beside.py does not have the name 'g'"),
        ("json.dumps", ""),
        ("absent.f", ""),
    ],
)
def test_a_name_that_its_module_does_not_have_is_doubted(
    pid: int, function: str, doubt: str
) -> None:
    assert doubt_about(pid, {"function": function}) == doubt
