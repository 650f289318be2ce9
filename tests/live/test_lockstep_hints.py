"""A lockstep that cannot start names commands that bring the ranks together: they do."""

from __future__ import annotations

import re

import pytest

from tests.conftest import Build
from tests.support.programs import Mpi
from tests.support.terminal import ex, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]


def test_the_named_commands_bring_ranks_together(mpi: Mpi, build: Build) -> None:
    meet = build("meet.c")
    commands = ex(
        f"tbreak {meet.at('step')}",
        "continue",
        "until-diverge --by step",
        # Several lines of one function.
        "next --lockstep",
        "finish --lockstep",
        "stepi --lockstep",
        "proc 0 tbreak usual",
        "proc 0 continue",
        # Inside calls of one function, and before it.
        "next --lockstep",
        "frame function main",
        f"until {meet.at('barrier')} --lockstep",
        "next --lockstep",
        "kill",
    )
    out = run_pgdb("launch", "--batch", *commands, *mpi.line(3, meet, "2", "1")).out
    parts = re.split(r"^\(pgdb 0-2\) ", out, flags=re.M)
    answers = [part.partition("\n")[::2] for part in parts[1:]]
    texts = [text for command, text in answers if command == "next --lockstep"]
    assert "; 'finish --lockstep' brings them together" in texts[0], out
    assert re.search(
        r"'frame function main' and then 'until LINE --lockstep' with a line of main", texts[1]
    ), out
    said = dict(answers)
    assert re.match(r"\[0-2\] returned to main", said["finish --lockstep"]), out
    assert re.search(r"^\[0-2\] stopped in main", said["stepi --lockstep"], re.M), out
    until = said[f"until {meet.at('barrier')} --lockstep"]
    assert re.match(rf"\[0-2\] stopped in main .*:{meet.line('barrier')}$", until, re.M), out
    assert re.match(rf"\[0-2\] stopped in main .*:{meet.line('finalize')}$", texts[2], re.M), out


def test_the_innermost_common_call_is_finished(mpi: Mpi, build: Build) -> None:
    meet = build("meet.c")
    commands = ex(
        "proc 0-1 tbreak usual",
        "proc 2 tbreak unusual",
        "proc 0-1 continue",
        "proc 2 continue",
        "next --lockstep",
        "frame function solve",
        "finish --lockstep",
        "next --lockstep",
        "kill",
    )
    out = run_pgdb("launch", "--batch", *commands, *mpi.line(3, meet, "2", "1")).out
    assert "; 'frame function solve' and then 'finish --lockstep' brings them together" in out, out
    assert re.search(r"^\[0-2\] returned to main", out, re.M), out
    last = out.rpartition(") next --lockstep\n")[2]
    assert re.match(r"\[0-2\] stopped in main", last), out
