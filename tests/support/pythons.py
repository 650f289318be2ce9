"""The interpreters of Python that this machine has."""

from __future__ import annotations

import sys
from pathlib import Path


def interpreters() -> list[str]:
    """Return the interpreters to test with, one for each version and build."""
    of_pyenv = Path.home().glob(".pyenv/versions/3.*/bin/python3.[0-9]*")
    found = [each for each in of_pyenv if each.name.replace("python3.", "").isdecimal()]
    usable = [str(each) for each in found if int(each.name.rpartition(".")[2]) >= 8]
    system = ["/usr/bin/python3"] if Path("/usr/bin/python3").exists() else []
    return sorted({sys.executable, *usable, *system})
