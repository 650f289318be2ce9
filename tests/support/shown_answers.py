"""The lines that a batch session shows for a command."""

from __future__ import annotations

import re


def shown(out: str, command: str) -> list[str]:
    """Return the lines that a batch run shows for the last such command."""
    _, _, after = out.rpartition(f") {command}\n")
    assert after, (command, out)
    return re.split(r"^\(pgdb [\d,-]+\) ", after, flags=re.M)[0].splitlines()
