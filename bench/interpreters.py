"""Lines that start a program under an interpreter of another folder."""

from __future__ import annotations

import shlex
from pathlib import Path


def interpreter_line(python: str, program: Path) -> list[str]:
    """Return the line that runs a program under *python*.

    *python* is the path of an interpreter, or a command such as ``chroot FOLDER python3.14``. That
    folder gets a copy of the program below the same name.
    """
    words = shlex.split(python)
    if words[0] == "chroot":
        copy = Path(words[1]) / str(program).lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(program.read_bytes())
    return [*words, "-u", str(program)]
