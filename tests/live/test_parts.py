"""Answers of which only parts differ: registers, threads, frames, displays, locals, results."""

from __future__ import annotations

import re

import pytest

from tests.conftest import Build
from tests.support.programs import Mpi
from tests.support.shown_answers import shown
from tests.support.terminal import ex, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]


def parts(lines: list[str]) -> dict[str, list[str]]:
    """Return the texts at each place, by its label; a text begins with its ranks."""
    found: dict[str, list[str]] = {}
    label = ""
    for line in lines:
        match = re.match(r"    (?:(\S.*?)  +|\s+)(\[[\d,-]+\].*?)(?:  @\d+)?$", line)
        if match is not None:
            label = match[1] or label
            found.setdefault(label, []).append(re.sub(r"\] +", "] ", match[2]))
    return found


def test_the_parts_that_differ(mpi: Mpi, build: Build) -> None:
    program = build("parts.cpp")
    commands = (
        f"tbreak {program.at('look')}",
        "c",
        "info locals",
        "print cell",
        "expand",
        "expand [2]",
        "print $rax = rank == 3",
        "print $rbx = 5",
        "info registers rax rbx rsp rip",
        "info frame",
        "info threads",
        "bt full",
        "output cell",
        "display odd",
        "display cell",
        "next",
        "info display",
    )
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(4, program))
    assert finished.status == 0, finished.out
    differs = "  <-- differs"

    locals_ = shown(finished.out, "info locals")
    assert [line.split("  @")[0] for line in locals_[:4]] == [
        "[0,2-3] odd = 0.5",
        f"[1]     odd = inf{differs}",
        "[0-2]   outlier = 0",
        f"[3]     outlier = 1{differs}",
    ]
    assert sum(" mine = " in line for line in locals_) == 4
    for name in ("turn", "c_turn", "members", "nested", "ages", "both", "name", "is_on", "letter"):
        assert [line[:7] for line in locals_ if f" {name} = " in line] == ["[0-3]  "], name

    cell = shown(finished.out, "print cell")
    assert list(parts(cell)) == [".last", ".kind", ".rank", ".first"]
    assert parts(cell)[".kind"] == ["[0-2] 4", f"[3] 5{differs}"]

    unfolded = shown(finished.out, "expand")
    assert list(parts(unfolded)) == [".last", ".kind", ".rank", ".first", "cell"]
    assert re.fullmatch(r"\[3\] \(Cell &\) @0x[0-9a-f]+", parts(unfolded)["cell"][3])
    whole = "".join(shown(finished.out, "expand [2]"))
    assert re.match(
        r"\[2\] cell = \(Cell &\) @0x[0-9a-f]+: \{rank = 2, same = 7, first = \{2,", whole
    )

    registers = shown(finished.out, "info registers rax rbx rsp rip")
    assert registers[0] == "[0-3]"
    assert [line.split() for line in registers[1:3]] == [["rax", "…"], ["rbx", "0x5", "5"]]
    assert registers[3].split() == ["rsp", "…", "…"]
    assert re.fullmatch(r"rip +… +… <look\(Cell&, int\)\+\d+>", registers[4])
    assert parts(registers) == {"rax": ["[0-2] 0x0  0", f"[3] 0x1  1{differs}"]}

    by_rank = [f"[{rank}] {rank}" for rank in range(4)]
    frame = shown(finished.out, "info frame")
    assert frame[0] == "[0-3]" and frame[1].startswith("Stack level 0, frame at …")
    assert parts(frame) == {"Arglist at rank": by_rank}

    threads = shown(finished.out, "info threads")
    assert threads[0] == "[0-3]" and "look (cell=..., rank=…) at " in threads[2]

    full = shown(finished.out, "bt full")
    assert full[0] == "[0-3]" and "        letter = 120 'x'" in full
    assert parts(full)["odd"] == ["[0,2-3] 0.5", f"[1] inf{differs}"]
    assert list(parts(full))[:4] == ["odd", "cell.last", "outlier", "cell.kind"]

    output = shown(finished.out, "output cell")
    assert output[0].startswith("[0-3] (Cell &) @…: {rank = …, same = 7, first = …, level = 1.5")
    assert list(parts(output)) == [".last", ".kind", ".rank", ".first"]

    displays = shown(finished.out, "next")
    assert displays[2:5] == [
        "[0-3]",
        "1: odd = …",
        "2: cell = (Cell &) @…: {rank = …, same = 7, first = …, level = 1.5, kind = …, last = …}",
    ]
    assert list(parts(displays)) == ["odd", "cell.last", "cell.kind", "cell.rank", "cell.first"]
    assert shown(finished.out, "info display")[0] == "[0-3]"


def test_values_that_functions_returned_and_watchpoints_saw(mpi: Mpi, build: Build) -> None:
    program = build("parts.cpp")
    commands = [f"tbreak {program.at('call')}", "c"]
    # One rank is elsewhere.
    commands += ("proc 2 tbreak change", "proc 2 c")
    commands += ("info registers rip cs", "info frame", "bt full")
    commands += ("watch watched", "c", "c", "delete")
    for function in ("scalar", "by_rank", "pair_of", "cells_of"):
        commands += (f"tbreak {function}", "c", "finish")
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(4, program))
    assert finished.status == 0, finished.out
    lines = [re.sub(r" +", " ", line.strip()) for line in finished.out.splitlines()]
    for expected in (
        ["[0-1,3] watched: 0 -> 1", "[2] watched: 0 -> 3 <-- differs"],
        ["[0-1,3] watched: 1 -> 5", "[2] watched: 3 -> 5 <-- differs"],
        ["[0-1,3] value returned: 4", "[2] value returned: 9 <-- differs"],
        [f"[{rank}] value returned: {text}" for rank, text in enumerate(("0", "1.5", "3", "4.5"))],
        ["[0-3] value returned: {left = 3, right = …}", ".right [0,2-3] 0.5"],
        ["[0-3] value returned: std::vector of length 3, capacity 3 = {1, …, 3}", "[1] [0-2] 2"],
        ["[3] 8 <-- differs"],
    ):
        at = lines.index(expected[0])
        assert lines[at : at + len(expected)] == expected

    outlier = parts(shown(finished.out, "info registers rip cs"))["rip"]
    assert re.fullmatch(r"\[0-1,3\] main\(int, char\*\*\)\+\d+", outlier[0])
    assert re.fullmatch(r"\[2\] change\(int\)\+\d+  <-- differs", outlier[1])
    frame = parts(shown(finished.out, "info frame"))
    assert [text.partition(" (")[0] for text in frame["rip"]] == ["[0-1,3] main", "[2] change"]
    # The variables of other frames are not compared with one another.
    full = shown(finished.out, "bt full")
    assert [line.split()[0] for line in full if line.startswith("[")] == ["[2]", "[0-3]"]
    assert full[1].startswith("#0  change (by=") and full.index("[0-3]") > 1
