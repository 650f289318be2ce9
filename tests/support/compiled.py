"""Small programs of one source, without MPI."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_COMPILERS = {".c": ("gcc",), ".cpp": ("g++", "-std=c++17")}


def compiled(folder: Path, name: str, source: str, *flags: str) -> Path:
    """Return a program with debug information, made in *folder* from the text *source*.

    *name* is that of the source; its suffix names the language. The test skips without a compiler.
    """
    path = folder / name
    compiler = _COMPILERS[path.suffix]
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"this machine has no {compiler[0]}")
    path.write_text(source)
    line = [*compiler, "-g", "-O0", *flags, "-o", path.stem, path.name]
    subprocess.run(line, cwd=folder, check=True)
    return path.with_suffix("")
