"""Output of GDB while ranks run, and the stops that come after signals that do not stop."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pgdb.ranks import RankSet
from tests.support.programs import Builder, Mpi
from tests.support.terminal import ex, run_pgdb

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


@pytest.mark.any_mpi
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
        # One line, or two where the ranks stop apart.
        assert _ranks_of("hook here", part) == RankSet([0, 1]), text
        assert "[New Thread" not in part, text
    # It comes behind the stop, with which the command is over, and from each rank by itself.
    assert _ranks_of("a handler was here", text) == RankSet([0, 1]), text
    # The signals before the stops are not the reasons of the stops.
    assert "Breakpoint 1, place (i=" in first, text
    assert _ranks_of(r"SIGSEGV, Segmentation fault: main \(.*", second) == RankSet([0, 1]), text

    finished = run_pgdb("launch", "--batch", "--json", *line[2:])
    said: dict[str, RankSet] = {}
    for each in finished.of_type("output"):
        said[each["text"]] = said.get(each["text"], RankSet()) | RankSet.parse(each["ranks"])
    assert said["at place 10 of rank 1"] == RankSet([1])
    assert said["hook here"] == RankSet([0, 1])
    signals = [each.get("signal") for stop in finished.of_type("stop") for each in stop["classes"]]
    assert signals.count("SIGSEGV"), finished.out
    assert "SIGUSR1" not in signals


def _ranks_of(pattern: str, text: str) -> RankSet:
    """Return the ranks of all lines of a screen that match."""
    return RankSet.union(map(RankSet.parse, re.findall(rf"^\[([-,\d]+)\] {pattern}$", text, re.M)))


def test_a_rank_that_ends_after_a_signal_has_ended(
    mpi: Mpi, builder: Builder, tmp_path: Path
) -> None:
    script = tmp_path / "commands"
    script.write_text(
        "handle SIGUSR1 nostop print pass\nbreak place if i == 10\ncontinue\ndelete\ncontinue\n"
    )
    program = builder.build(mpi, "signals.c")
    finished = run_pgdb("launch", "--batch", "-x", script, *mpi.line(2, program))
    assert finished.ranks_reported("exited normally") == "0-1", finished.out
    assert finished.status == 0, finished.out


FAILING = r"""define both
print 41 + 1
printf "on %d\n", $_rank
print nosuch
end
both
frame apply all print nosuch
thread apply all print nosuch
"""


@pytest.mark.any_mpi
def test_output_before_an_error_is_shown_and_in_json(
    mpi: Mpi, builder: Builder, tmp_path: Path
) -> None:
    script = tmp_path / "commands"
    script.write_text(FAILING)
    line = (*mpi.line(2, builder.build(mpi, "signals.c")),)
    text = run_pgdb("launch", "--batch", "-x", script, *line).out
    for rank in (0, 1):
        assert f"on {rank}" in text, text
    assert 'error: No symbol "nosuch" in current context.' in text, text
    finished = run_pgdb("launch", "--batch", "--json", "-x", script, *line)
    both = {each["ranks"]: each["record"] for each in finished.answer("both")["classes"]}
    assert both == {
        str(rank): {
            "kind": "error",
            "message": 'No symbol "nosuch" in current context.',
            "output": f"$1 = 42\non {rank}",
        }
        for rank in (0, 1)
    }
    (threads,) = finished.answer("thread apply all print nosuch")["classes"]
    assert threads["record"]["output"].startswith("Thread 1 ")


@pytest.mark.any_mpi
@pytest.mark.parametrize("first", ["echo loud\\n", "silent"])
def test_commands_of_a_breakpoint_print_behind_its_stop_and_let_the_rank_run_on(
    mpi: Mpi, builder: Builder, first: str
) -> None:
    program = builder.build(mpi, "language.c")
    lines = ("break twice", f"commands 1\n{first}\nprint value\ncontinue\nend", "tbreak factorial")
    script = "\n".join(lines)
    text = run_pgdb(
        "launch",
        "--batch",
        *ex(*script.split("\n"), "continue", "print 5", "info breakpoints", "kill"),
        *mpi.line(2, program),
    ).out
    printed = text.partition(") continue\n")[2].partition(") print 5\n")[0]
    once = ["print"] if first == "silent" else ["stop", "loud", "print"]
    for rank in (0, 1):
        assert _events_of(rank, printed) == once * 6 + ["last"], text
    assert "Breakpoint 1, factorial" not in text


@pytest.mark.any_mpi
def test_what_commands_of_a_breakpoint_print_comes_before_the_next_answer(
    mpi: Mpi, builder: Builder
) -> None:
    lines = ("break work", "commands 1", "print round", "end", "continue", "print 5", "continue")
    text = run_pgdb(
        "launch", "--batch", *ex(*lines, "kill"), *mpi.line(4, builder.build(mpi, "language.c"))
    ).out
    for part in text.split(") continue\n")[1:]:
        printed = part.partition("(pgdb ")[0]
        for rank in range(4):
            assert _events_of(rank, printed) == ["stop", "print"], text


def _events_of(rank: int, text: str) -> list[str]:
    """Return the events of a rank on a screen, in order."""
    kinds = {"Breakpoint 1, ": "stop", "loud": "loud", "$": "print", "Temporary": "last"}
    return [
        kinds[begin]
        for ranks, line in re.findall(r"^\[([-,\d]+)\] +(.*)", text, re.M)
        for begin in kinds
        if rank in RankSet.parse(ranks) and line.startswith(begin)
    ]
