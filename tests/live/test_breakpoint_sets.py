"""Breakpoints of a set of ranks that is read at each hit, by each command that makes one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pgdb.ranks import RankSet
from tests.conftest import Build
from tests.support.programs import Mpi, Program
from tests.support.terminal import Finished, ex, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

RANKS = 3


@pytest.fixture
def sets(build: Build) -> Program:
    return build("sets.c")


def run(mpi: Mpi, program: Program, *commands: str, settle_s: int = 3) -> Finished:
    """Launch the program and carry out commands; the others wait for a rank that is stopped."""
    line = mpi.line(RANKS, program)
    return run_pgdb("launch", "--batch", "--settle", settle_s, *ex(*commands), *line)


def stopped(out: str, text: str) -> str:
    """Return the ranks of the stops of that text, in their order."""
    return " ".join(re.findall(rf"^\[([0-9,-]+)\] +{text}", out, re.M))


def test_a_temporary_breakpoint_stays_where_a_rank_has_run_on(mpi: Mpi, sets: Program) -> None:
    commands = (
        "defset mine 1",
        f"tbreak {sets.at('inner')} --ranks @mine",
        "continue",
        "info breakpoints",
        "defset mine all",
        "proc 1 break helper",
        "proc 1 continue",
        "info breakpoints",
    )
    out = run(mpi, sets, *commands).out
    assert stopped(out, "Temporary breakpoint 1, inner") == "1", out
    listed = out[out.index("info breakpoints") :]
    assert re.search(r"^1 +breakpoint +del +y .*\[0,2\]$", listed, re.M), out
    assert stopped(out, "Breakpoint 2, helper") == "1", out


def test_a_set_is_judged_for_all_breakpoints_of_a_command(mpi: Mpi, sets: Program) -> None:
    commands = ("defset mine 1", r"rbreak sets.c:^\(inner\|helper\)$ --ranks @mine", *["c"] * 2)
    out = run(mpi, sets, *commands).out
    assert sorted(re.findall(r"^\[1\] +Breakpoint [12], (\w+)", out, re.M)) == ["helper", "inner"]
    assert not re.search(r"^\[[02].*Breakpoint [12], ", out, re.M), out


def test_watchpoints_and_catchpoints_are_judged_too(mpi: Mpi, sets: Program) -> None:
    commands = (
        f"tbreak {sets.at('work')}",
        "continue",
        "defset mine 1",
        "watch local --ranks @mine",
        "catch fork --ranks @mine",
        "continue",
        "delete 2",
        "proc 1 continue",
    )
    out = run(mpi, sets, *commands).out
    assert stopped(out, "Hardware watchpoint 2, work") == "1", out
    assert stopped(out, r"Catchpoint 3 \(forked") == "1", out


def test_a_dprintf_stops_no_rank_and_has_ranks_of_its_own(mpi: Mpi, sets: Program) -> None:
    place = sets.at("local")
    commands = (
        "defset mine 1",
        rf'dprintf {place},"set %d\n",local --ranks @mine',
        rf'proc @mine dprintf {place},"proc %d\n",local',
        rf'dprintf {place},"ranks %d\n",local --ranks 2',
        "break work if i == 1",
        "continue",
    )
    finished = run(mpi, sets, *commands)
    out = finished.out + finished.err
    assert "so @mine is not read at its hits; 'proc @mine dprintf" in out, out
    assert "set 0" not in out, out
    assert re.search(r"^\[1\] +proc 0$", out, re.M) and out.count("proc 0") == 1, out
    assert re.search(r"^\[2\] +ranks 0$", out, re.M) and out.count("ranks 0") == 1, out


# Each run command from the line of the call: the function in which ranks outside the set stop, and
# the place of the breakpoint.
ON_THE_WAY = {
    "next": ("work", "inner"),
    "finish": ("main", "inner"),
    "until": ("work", "inner"),
    "advance inner": ("inner", "helper"),
    "nexti 5": ("work", "inner"),
    "next --lockstep 2": ("work", "inner"),
}


def test_a_running_rank_stops_at_the_breakpoints_of_its_sets_alone(mpi: Mpi, sets: Program) -> None:
    """A rank outside the set completes the command: a 'continue' would take it too far."""
    commands = ["defset mine 1"]
    for word, (_, place) in ON_THE_WAY.items():
        commands += [
            f"tbreak {sets.at('call')}",
            "continue",
            f"break {sets.at(place)} --ranks @mine",
            word,
            "info breakpoints",
            "delete",
        ]
    out = run(mpi, sets, *commands, settle_s=600).out  # all ranks stop at each command
    for word, (function, place) in ON_THE_WAY.items():
        _, _, part = out.partition(f") {word}\n")
        part, _, _ = part.partition(") delete\n")
        # Ranks that do not stop at one moment have a line each.
        outside = stopped(part, rf"(?:stopped in|returned to) {function}\b")
        assert outside.replace(" ", ",") in ("0,2", "2,0"), (word, out)
        assert stopped(part, rf"Breakpoint \d+, {place} ") == "1", (word, out)
        # The breakpoint is as it was, on all ranks.
        assert re.search(r"^\d+ +breakpoint +keep y +in \w+ at \S+$", part, re.M), (word, out)


def test_run_commands_name_the_way_to_choose_ranks(mpi: Mpi, sets: Program) -> None:
    words = ("step", "next", "finish", "until", "continue", "advance")
    finished = run(mpi, sets, *(f"{word} --ranks 1" for word in words), "print 6 * 7")
    out = finished.out + finished.err
    for word in words:
        assert f"'proc SET {word}' chooses the ranks" in out, (word, out)
    assert "= 42" in out


def printed(out: str, word: str) -> dict[int, list[int]]:
    """Return the numbers that each rank has printed behind a word, in their order."""
    found: dict[int, list[int]] = {rank: [] for rank in range(RANKS)}
    for ranks, number in re.findall(rf"^\[([0-9,-]+)\] +{word} (\d+)$", out, re.M):
        for rank in RankSet.parse(ranks):
            found[rank].append(int(number))
    return found


def test_commands_are_for_the_ranks_of_the_set(mpi: Mpi, sets: Program, tmp_path: Path) -> None:
    """As with commands that GDB has itself: a line that continues is the last one."""
    script = tmp_path / "commands.gdb"
    script.write_text(
        f"""defset mine 1
break {sets.at("inner")} --ranks @mine
commands
silent
printf "at %d\\n", i
if i < 3
  continue
end
print i * 10
end
break {sets.at("helper")} --ranks @mine
commands
bogus
print 77
end
continue
delete 2
continue
info breakpoints
defset mine 0,2
tbreak {sets.at("helper")} --ranks @running
commands
printf "helper %d\\n", i
end
proc 1 continue
"""
    )
    line = mpi.line(RANKS, sets)
    out = run_pgdb("launch", "--batch", "--settle", 3, "-x", script, *line).out
    assert re.search(r'^\[1\] +error: Undefined command: "bogus"', out, re.M), out
    assert printed(out, "at") == {0: [], 1: [1, 2, 3], 2: []}, out
    assert re.findall(r"^(.*) +\$\d+ = (?:30|77)$", out, re.M) == ["[1]"], out
    # The stops of silent commands that run on are not shown.
    assert re.findall(r"^\[1\] +Breakpoint 1,.*i=(\d)", out, re.M) == ["3"], out
    assert "        silent\n" in out and "          continue\n" in out, out
    assert printed(out, "helper") == {0: [], 1: [4], 2: []}, out


def test_commands_of_a_set_take_no_rank_past_a_barrier(
    mpi: Mpi, sets: Program, tmp_path: Path
) -> None:
    script = tmp_path / "commands.gdb"
    script.write_text(
        f"""tbreak {sets.at("work")}
continue
defset mine 1-2
barrier {sets.at("inner")}
break {sets.at("inner")} --ranks @mine
commands
printf "at %d\\n", i
print nosuch
end
proc 0 continue
proc 1-2 continue
commands 3
printf "at %d\\n", i
continue
end
continue
"""
    )
    line = mpi.line(RANKS, sets)
    out = run_pgdb("launch", "--batch", "--settle", 20, "-x", script, *line).out
    refused = "error: 'continue' has no effect: barrier 2 holds the rank"
    assert printed(out, "at") == {0: [], 1: [1, 2], 2: [1, 2]}, out
    assert RankSet.union(
        RankSet.parse(each) for each in re.findall(rf"^\[([0-9,-]+)\] +{refused}$", out, re.M)
    ) == RankSet([1, 2]), out
    assert "barrier 2: [0-2] are there for the 2nd time; they stay stopped" in out, out
    assert "exited" not in out, out


def test_commands_of_a_set_hold_in_the_next_launch(mpi: Mpi, sets: Program, tmp_path: Path) -> None:
    saved = tmp_path / "saved.gdb"
    script = tmp_path / "commands.gdb"
    script.write_text(
        f"""defset mine 0,2
break {sets.at("inner")} --ranks @mine
commands
silent
printf "then %d\\n", i
continue
printf "behind %d\\n", i
end
disable 1
enable 1
continue
restart
defset mine 1
continue
save breakpoints {saved}
delete
source {saved}
restart
continue
"""
    )
    line = mpi.line(RANKS, sets)
    out = run_pgdb("launch", "--batch", "--settle", 20, "-x", script, *line).out
    first, _, rest = out.partition(") restart\n")
    second, _, third = rest.partition(") restart\n")
    all_hits = [*range(1, 7)]
    assert printed(first, "then") == {0: all_hits, 1: [], 2: all_hits}, out
    assert printed(second, "then") == printed(third, "then") == {0: [], 1: all_hits, 2: []}, out
    assert "behind" not in re.sub(r"(?m)^ .*", "", out), out
