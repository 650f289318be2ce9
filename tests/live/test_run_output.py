"""Output of GDB while ranks run, and the stops that come after signals that do not stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.programs import Builder, Mpi
from tests.support.terminal import run_pgdb

pytestmark = pytest.mark.mpi

COMMANDS = r"""handle SIGUSR1 nostop print pass
break place if i >= 20
dprintf place,"at place %d of rank %d\n",i,$_rank
define hook-stop
echo hook here\n
end
python gdb.events.stop.connect(lambda event: print("a handler was here"))
continue
delete
continue
bt 1
"""
USR1 = "received signal SIGUSR1, User defined signal 1."


def test_what_gdb_prints_during_a_run_is_shown_with_its_ranks(
    mpi: Mpi, builder: Builder, tmp_path: Path
) -> None:
    script = tmp_path / "commands"
    script.write_text(COMMANDS)
    program = builder.build(mpi, "signals.c")
    line = ("launch", "--batch", "-x", script, *mpi.line(2, program, "crash"))
    text = run_pgdb(*line).out
    _, _, first = text.partition(") continue\n")
    first, _, second = first.partition(") continue\n")
    for rank in (0, 1):
        shown = [each.partition("] ")[2] for each in first.split("\n") if each[:2] == f"[{rank}"]
        for i in (0, 1, 2, 10, 20 + rank):
            assert f"at place {i} of rank {rank}" in shown, text
    assert first.count(USR1) == second.count(USR1) + 2, text
    for part in (first, second):
        assert "[0-1] hook here\n" in part, text
        assert "[New Thread" not in part, text
    assert "[0-1] a handler was here\n" in first, text
    # The signals before the stops are not the reasons of the stops.
    assert "Breakpoint 1, place (i=" in first, text
    assert "[0-1] SIGSEGV, Segmentation fault: main (" in second, text

    finished = run_pgdb("launch", "--batch", "--json", *line[2:])
    said = {each["text"]: each["ranks"] for each in finished.of_type("output")}
    assert said["at place 10 of rank 1"] == "1"
    assert said["hook here"] == "0-1"
    signals = [each["signal"] for stop in finished.of_type("stop") for each in stop["classes"]]
    assert signals.count("SIGSEGV"), finished.out
    assert "SIGUSR1" not in signals


def test_a_rank_that_ends_after_a_signal_has_ended(
    mpi: Mpi, builder: Builder, tmp_path: Path
) -> None:
    script = tmp_path / "commands"
    script.write_text(
        "handle SIGUSR1 nostop print pass\nbreak place if i == 10\ncontinue\ndelete\ncontinue\n"
    )
    program = builder.build(mpi, "signals.c")
    finished = run_pgdb("launch", "--batch", "-x", script, *mpi.line(2, program))
    assert "[0-1] exited normally" in finished.out, finished.out
    assert finished.status == 0, finished.out


FAILING = r"""set python print-stack message
python print("before %d" % gdb.parse_and_eval("$_rank")); raise ValueError("at end")
define both
print 41 + 1
print nosuch
end
both
frame apply all print nosuch
thread apply all print nosuch
"""


def test_output_before_an_error_is_shown_and_in_json(
    mpi: Mpi, builder: Builder, tmp_path: Path
) -> None:
    script = tmp_path / "commands"
    script.write_text(FAILING)
    line = (*mpi.line(2, builder.build(mpi, "signals.c")),)
    text = run_pgdb("launch", "--batch", "-x", script, *line).out
    assert "<class 'ValueError'>: at end\nerror: Error while executing Python code." in text, text
    assert "[0-1]\n$1 = 42\nerror: No symbol" in text, text
    finished = run_pgdb("launch", "--batch", "--json", "-x", script, *line)
    (both,) = finished.answer("both")["classes"]
    assert both["record"] == {
        "kind": "error",
        "message": 'No symbol "nosuch" in current context.',
        "output": "$1 = 42",
    }
    python = [each for each in finished.of_type("answer") if each["command"].startswith("python")]
    shown = {each["ranks"]: each["record"]["output"] for each in python[0]["classes"]}
    assert {ranks: text.partition("\n")[0] for ranks, text in shown.items()} == {
        "0": "before 0",
        "1": "before 1",
    }
    (threads,) = finished.answer("thread apply all print nosuch")["classes"]
    assert threads["record"]["output"].startswith("Thread 1 ")
