"""Commands that read GDB's input: no answer goes to another command, and the session goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.programs import Builder, Mpi
from tests.support.terminal import run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

COMMANDS = r"""break place
python input()
print 100 + 1
python import sys; sys.stdin.readline()
print 100 + 2
python gdb.execute("shell read line")
print 100 + 3
python gdb.execute("commands 1")
print 100 + 4
python import sys; sys.stdin.read()
print 100 + 5
reattach
print 100 + 6
continue
info breakpoints
"""


def test_no_answer_is_shifted_and_a_new_gdb_has_the_breakpoints(
    mpi: Mpi, builder: Builder, tmp_path: Path
) -> None:
    script = tmp_path / "commands"
    script.write_text(COMMANDS)
    program = builder.build(mpi, "signals.c")
    finished = run_pgdb("launch", "--batch", "--json", "-x", script, *mpi.line(2, program))

    def texts(command: str) -> list[str]:
        return [each["text"] for each in finished.answer(command)["classes"]]

    for number in (1, 2, 3, 4, 5, 6):
        said = [f"100 + {number} = {100 + number}"]
        assert texts(f"print 100 + {number}") == said, finished.out
    # A command that has got a line of PGDB's instead of input says so.
    for command in ("python input()", "python import sys; sys.stdin.readline()"):
        assert all("it reads input" in text for text in texts(command)), finished.out
    (text,) = texts("python import sys; sys.stdin.read()")
    assert "its GDB reads commands as the input" in text, finished.out
    notes = [each["text"] for each in finished.of_type("output") if each["stream"] == "pgdb"]
    assert any("[0-1] have another GDB now, at the same place" in each for each in notes), notes
    assert [each["reason"] for each in finished.of_type("stop")[-1]["classes"]] == [
        "breakpoint-hit"
    ], finished.out
    assert "place" in texts("info breakpoints")[0]
