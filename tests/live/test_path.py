"""The files through which a command is handed, from the typed line to the screen."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.programs import ROOT
from tests.support.terminal import DEADLINE_S

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

MOST_FILES = 25


def documented() -> set[str]:
    """Return the files of the table in the page about the architecture."""
    page = (ROOT / "docs" / "internals" / "architecture.md").read_text(encoding="utf-8")
    part = page.partition("### The files of print x\n")[2].partition("| front end |")[0]
    rows = "".join(line for line in part.splitlines() if line.startswith("|"))
    return set(re.findall(r"`([\w/]+\.py)`", rows))


def counted() -> tuple[int, ...]:
    """Return the numbers of files that the page names: in all, front end, aggregator, both."""
    page = (ROOT / "docs" / "internals" / "architecture.md").read_text(encoding="utf-8")
    found = re.search(
        r"functions of (\d+) files run meanwhile: (\d+) in the front end, (\d+)\s+in the "
        r"aggregator, (\d+) in both",
        page,
    )
    assert found is not None
    return tuple(map(int, found.groups()))


def test_print_is_handed_through_the_files_of_the_list() -> None:
    line = (sys.executable, str(ROOT / "bench" / "path.py"))
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=DEADLINE_S, check=True, cwd=ROOT
    )
    assert done.stdout.startswith("print 6*7: [0] 6*7 = 42\n"), done.stdout
    files = done.stdout.partition("these hand the command on:\n")[2].split()
    assert set(files) == documented()
    assert len(files) <= MOST_FILES
    front, back = (
        set(re.findall(r"^ +\d+ (\S+\.py)$", part, re.MULTILINE))
        for part in done.stdout.partition(" files in all")[0].split("aggregator: ")
    )
    assert counted() == (len(front | back), len(front), len(back), len(front & back))
