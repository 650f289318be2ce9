"""Values of real programs, compared field by field as GDB prints them in C, C++ and Fortran."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import Build
from tests.support.programs import Mpi
from tests.support.shown_answers import shown
from tests.support.terminal import PGDB, Terminal, ex, run_json, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]


def test_fields_of_c(mpi: Mpi, build: Build) -> None:
    program = build("fields.c")
    where = f"tbreak {program.at('look')}"
    commands = (where, "c", "p *particle", "p grid", "p table", "info locals", "p step", "p move")
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(4, program))
    assert finished.status == 0, finished.out
    common, *places = shown(finished.out, "p *particle")
    assert common.startswith("[0-3] *particle = {id = 5, x = {1, …, 0}, name = …, label = ")
    assert "flags = (FAST | LOUD), is_ghost = 0, kind = 5, corner = {{x = 0, y = 0}," in common
    assert [line.split() for line in places] == [
        ["particle->x[1]", "[0-2]", "2.5"],
        ["[3]", "nan(0x8000000000000)", "<--", "differs", "@3"],
        ["particle->name", "[0,2]", '"even",', "'\\000'", "<repeats", "11", "times>", "@1"],
        ["[1,3]", '"odd",', "'\\000'", "<repeats", "12", "times>"],
        ["particle->colour", "[0,2]", "GREEN", "@1"],
        ["[1,3]", "BLUE"],
    ]
    grid = shown(finished.out, "p grid")
    assert grid[0] == "[0-3] grid = {{0, 0, 0}, {0, 0, 0}, {0, …, 0}, {0, 0, 0}}"
    assert grid[1:] == [
        "    [2][1]  [0] 0  @1",
        *(f"            [{rank}] {rank}  @{rank + 1}" for rank in (1, 2, 3)),
    ]
    assert shown(finished.out, "p table") == [
        "[0-3] table = {0 <repeats 500 times>, …, 0 <repeats 499 times>}",
        "    [500]  [0,2-3] 0  @1",
        "           [1]     7  <-- differs  @2",
    ]
    locals_ = shown(finished.out, "info locals")
    assert locals_[:3] == [
        "[1-3] energy = 1.5",
        "[0]   energy = inf  <-- differs  @1",
        "[0-3] same = 42",
    ]
    assert locals_[-1].startswith("[0-3] text = ") and locals_[-1].endswith(' "all alike"')
    assert re.fullmatch(
        r"\[0-3\] move = \{void \(struct particle \*\)\} .* <move>",
        shown(finished.out, "p move")[0],
    )


@pytest.mark.parametrize(
    ("source", "expressions", "paths"),
    [
        ("fields.cpp", ("derived",), (".cells", ".cells[1]", ".cells[3]")),
        ("fields.f90", ("p", "grid", "many"), ("%x(2)", "(3,2)", "(50)")),
    ],
)
def test_fields_of_other_languages(
    mpi: Mpi, build: Build, source: str, expressions: tuple[str, ...], paths: tuple[str, ...]
) -> None:
    program = build(source)
    at = program.at("look")
    commands = (f"tbreak {at}", "c", "up" if source.endswith("f90") else "p 1")
    commands += tuple(f"p {each}" for each in expressions)
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    assert finished.status == 0, finished.out
    found = [
        line.split()[0]
        for each in expressions
        for line in shown(finished.out, f"p {each}")[1:]
        if not line.lstrip().startswith("[") or line.startswith("    [")
    ]
    assert found == list(paths), finished.out


def test_summaries_in_json(mpi: Mpi, build: Build) -> None:
    program = build("fields.c")
    commands = (f"tbreak {program.at('look')}", "c", "p *particle", "p energy")
    finished = run_json("launch", *ex(*commands), *mpi.line(3, program))
    assert finished.status == 0, finished.out
    said = {each["ranks"]: each for each in finished.answer("print energy")["classes"]}
    assert said["1-2"]["value"] == 1.5
    assert "value" not in said["0"] and said["0"]["text"] == "energy = inf"
    assert len(finished.answer("print *particle")["classes"]) == 3


def test_widths_colours_and_classes_at_a_terminal(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("fields.c")
    changes = {"XDG_STATE_HOME": str(tmp_path), "NO_COLOR": "", "TERM": "xterm-256color"}
    line = (*PGDB, "launch", *mpi.line(4, program))
    with Terminal(*line, changes=changes, columns=80) as terminal:
        terminal.expect(r"\(pgdb 0-3\)")
        terminal.line(f"tbreak {program.at('look')}")
        terminal.expect(r"\(pgdb 0-3\)")
        terminal.line("c")
        terminal.expect(r"reakpoint 1, look ")
        terminal.expect(r"\(pgdb 0-3\)")
        terminal.line("p *particle")
        common = terminal.expect(r"(\[0-3\] \*particle = [^\n]*…)\n")[1]
        assert len(common) <= 80
        terminal.expect(r"\[3\] +nan\(0x8000000000000\)  <-- differs  @3")
        terminal.expect(r"\(expand \d+ shows all of it\)")
        terminal.line("focus @3")
        terminal.expect(r"\(pgdb 3\)")
        terminal.line("list")
        terminal.expect(r"double energy = step")
        # The escape sequences get through prompt_toolkit's stream.
        assert b"\x1b[1;35m<-- differs\x1b[0m" in terminal._shown
        assert re.search(rb"\x1b\[[\d;]+mdouble\x1b\[0m", terminal._shown)
        terminal.line("quit")
        terminal.expect(r"\(y or n\)")
        terminal.line("y")
        terminal.wait()


FORTRAN_PLACES = {
    "a": ("a(5)", "50"),
    "g": ("g(1,-1)", "99"),
    "z": ("z(2)", "98"),
    "p": ("p(3)%cell(1)", "77"),
    "q%w": ("q%w(-1)", "8"),
    "q%names": ("q%names(0)", "'ZZ  '"),
    "big": ("big(7)", "9"),
    "s": ("s(2)", "44"),
    "s2": ("s2(0,6)", "44"),
}
"""The place at which rank 1 differs, and the value there, of the arrays of bounds.f90."""


def test_places_in_fortran_are_those_that_can_be_typed(mpi: Mpi, build: Build) -> None:
    program = build("bounds.f90")
    places = [place for place, _ in FORTRAN_PLACES.values()]
    commands = (
        f"tbreak {program.at('look')}",
        "c",
        "print x",
        "up",
        *(f"print {each}" for each in (*FORTRAN_PLACES, *places)),
        "print own",
        "print own(12)",
        "assert a < 20",
        "assert own < 6",
        "assert s2 < 20",
        "compare g 0 with 1",
        "info locals",
    )
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    assert shown(finished.out, "print x")[1].split() == ["(11)", "[0,2]", "1", "@1"]
    for expression, (place, value) in FORTRAN_PLACES.items():
        _, first, second = shown(finished.out, f"print {expression}")
        assert expression + first.split()[0] == place
        assert second.split("[1]")[1].strip().startswith(value)
        typed = shown(finished.out, f"print {place}")
        assert f"[1]   {place} = {value}  <-- differs  @2" in typed
    assert shown(finished.out, "print own")[1].startswith("[1]   own = (5, 5, 6, 5, 5)")
    assert shown(finished.out, "assert a < 20")[1] == "[1] a(5) = 50"
    assert shown(finished.out, "assert own < 6")[1] == "[1] own(12) = 6"
    assert shown(finished.out, "assert s2 < 20")[1] == "[1] s2(0,6) = 44"
    assert shown(finished.out, "compare g 0 with 1")[2].split()[0] == "(1,-1)"
    locals_ = [line.split()[:2] for line in shown(finished.out, "info locals")]
    for path in ("(5)", "(1,-1)", "(3)%cell(1)", "(0,6)"):
        assert [path, "[0,2]"] in locals_, locals_


CONTAINER_PLACES = {
    "ages": 'ages["b, c"]',
    "cells": "cells[5].y",
    "sides": "sides[Side::left][1]",
    "times": "times[1.5]",
    "index": "index._element(1)",
    "letters": "letters[120]",
    "named": 'named["k"].x',
    "pairs": "pairs._element(1)",
    "deep": 'deep["n"][4][1]',
    "ids": "ids[1]",
    "queue": "queue[1]",
    "free": "free[1]",
    "steps": "steps[1]",
    "pair": "pair.second.y",
    "maybe": "maybe.value().y",
    "either": "either[0].x",
    "flags": "flags[1]",
    "masks": "masks[1]",
    "rows": "rows[1][1]",
    "names": "names[1]",
    "stack": "stack[1]",
    "domain": "domain.Block::id",
}
"""The place at which rank 1 differs in the containers of containers.cpp."""


def test_places_in_containers_are_those_that_can_be_typed(mpi: Mpi, build: Build) -> None:
    program = build("containers.cpp", "-std=c++17")
    commands = (
        f"tbreak {program.at('look')}",
        "c",
        *(f"print {each}" for pair in CONTAINER_PLACES.items() for each in pair),
        "print *unique",
        "print shared.get()->y",
        'assert deep["n"][4][1] < 5',
        "stat cells[5].y",
        'compare ages["b, c"] 0 with 1',
        'whatis deep["n"][4]',
        'print ages["none"]',
    )
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    assert finished.status == 1, finished.out
    for expression, place in CONTAINER_PLACES.items():
        lines = shown(finished.out, f"print {expression}")
        # A few values without anything in common are listed whole.
        if len(lines) > 2:
            path, _, value = lines[1].strip().partition("  ")
            assert expression + path == place
            assert value.strip().startswith("[0,2] ")
        typed = shown(finished.out, f"print {place}")
        assert len(typed) == 2, typed
        assert re.search(r" = (?:9|\"nine\"|1|true)  <-- differs", typed[1]), typed
    assert shown(finished.out, 'assert deep["n"][4][1] < 5')[1] == '[1] deep["n"][4][1] = 9'
    assert "9" in shown(finished.out, "print shared.get()->y")[1]
    assert shown(finished.out, "stat cells[5].y")[0] == "[0-2] cells[5].y: 3 numbers"
    assert "2 values on one side only" in shown(finished.out, 'compare ages["b, c"] 0 with 1')[0]
    assert "std::vector<double" in shown(finished.out, 'whatis deep["n"][4]')[0]
    assert shown(finished.out, 'print ages["none"]') == [
        "[0-2] error: The container has no such element."
    ]


def test_unordered_containers_are_compared_by_content(mpi: Mpi, build: Build) -> None:
    program = build("orders.cpp", "-std=c++17")
    names = ("ids", "ages", "pairs", "rows", "domain", "many")
    asked = [f"{word} {name}" for name in names for word in ("print", "assert")]
    asked += [f"compare {name} 0 with 1" for name in names]
    commands = (f"tbreak {program.at('look')}", "c", *asked, "print more", "assert more")
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    for name in names:
        printed = shown(finished.out, f"print {name}")
        assert len(printed) == 1 and printed[0].startswith(f"[0-2] {name} = "), printed
        assert shown(finished.out, f"assert {name}") == [
            f"{name} is the same on all ranks: passed on [0-2]"
        ]
        assert "the same values on" in shown(finished.out, f"compare {name} 0 with 1")[0]
    more = "\n".join(shown(finished.out, "print more"))
    assert "has element 1" in more and "[0,2] " in more, more
    assert "FAILED on [1] (1 of 3)" in shown(finished.out, "assert more")[0]
    assert finished.status == 1


OBJECT_PLACES = {
    "whole": ("whole%_data%x(1)", "9"),
    "whole%x": ("whole%x(1)", "9"),
    "other": ("other%_data%radius", "8"),
    "anything": ("anything%_data", "4.5"),
    "owners": ("owners(1)%rank", "7"),
    "owners(2)": ("owners(2)%one%_data%body%id", "5"),
    "meshes": ("meshes(1)%x(2)", "5"),
    "meshes(2)": ("meshes(2)%name", "'grid'"),
    "back": ("back(3)", "44"),
}
"""The place at which rank 1 differs, and the value there, of the variables of objects.f90."""
OBJECT_VALUES = {
    "title": "'heAding'",
    "title(3:3)": "'A'",
    "whole%name": "'whole'",
    "meshes(2)%name(2:4)": "'rid'",
    "rank": "1",
    "size + rank": "4",
    "back(4)": "1",
}
"""Values of rank 1 for which GDB has no expression, or shows another one."""


def test_objects_and_strings_of_fortran_are_values_with_places(mpi: Mpi, build: Build) -> None:
    program = build("objects.f90")
    places = [place for place, _ in OBJECT_PLACES.values()]
    commands = (
        *(f"tbreak {program.at('look')}", "c", "print single", "print all", "print all(2)%name"),
        *("up", *(f"print {each}" for each in (*OBJECT_PLACES, *places, *OBJECT_VALUES))),
        *(
            "stat back",
            "stat whole%x",
            "assert rank < 2",
            "assert whole%x < 4",
            "assert nosuch > 0",
        ),
        *("set var rank = 5", "output rank + 1", "compare meshes 0 with 1", "info locals"),
    )
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    out = finished.out
    path, _, nine = shown(out, "print single")[1].partition("[0,2]")
    assert path.split() == ["%_data%x(1)"] and nine.split() == ["3", "@1"], out
    assert "%_data(1)%x(2)" in "".join(shown(out, "print all")), out
    assert "[1]   all(2)%name = 'grid'  <-- differs  @2" in shown(out, "print all(2)%name"), out
    for expression, (place, value) in OBJECT_PLACES.items():
        lines = shown(out, f"print {expression}")
        rest = place.removeprefix(expression)
        at = next(number for number, each in enumerate(lines) if each.split()[:1] == [rest])
        assert lines[at + 1].split()[1] == value, (expression, lines)
        assert f"[1]   {place} = {value}  <-- differs  @2" in shown(out, f"print {place}"), out
    for expression, value in OBJECT_VALUES.items():
        assert f"{expression} = {value}" in "\n".join(shown(out, f"print {expression}")), out
    assert shown(out, "stat back")[0] == "[0-2] back: 12 numbers on 3 ranks", out
    assert "max     44 [1]" in shown(out, "stat back")[1], out
    assert "max     9 [1]" in shown(out, "stat whole%x")[1], out
    assert shown(out, "assert rank < 2")[:2] == ["rank < 2: FAILED on [2] (1 of 3)", "[2] rank = 2"]
    assert shown(out, "assert whole%x < 4")[1] == "[1] whole%x(1) = 9"
    assert shown(out, "assert nosuch > 0")[0] == "nosuch > 0: NOT CHECKED on [0-2] (3 of 3)"
    assert shown(out, "output rank + 1") == ["[0-2] 6"], out
    for command in ("compare meshes 0 with 1", "info locals"):
        found = [line.split()[0] for line in shown(out, command)]
        assert {"(1)%x(2)", "(2)%name"} <= {*found}, out
