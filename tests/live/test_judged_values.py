"""Conditions on containers, strings and sections of real programs, with the places that fail."""

from __future__ import annotations

import pytest

from tests.conftest import Build
from tests.support.programs import Mpi
from tests.support.shown_answers import shown
from tests.support.terminal import ex, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

OF_CPP = {
    "edges < 5": "edges._element(1) = 9.5",
    "lists < 5": 'lists["b"][1] = 9',
    "some < 5": "some.value()[1] = 9",
    "either < 5": "either[0][1] = 9",
    "rows < 5": "rows[1][1] = 9",
    "found.second < 5": "found.second[1] = 9",
    "few < 5": "few[0] = 9",
    "bits == 0": "bits[69] = 1",
    "pause < 5": "pause.__r = 9",
    "wide < 100": "wide = 10625324586456701730816",
    'name == "two"': 'name = "nine"',
    'text == "two"': "text = 0x0",
    'buffer == "two"': "buffer = \"nine\", '\\000' <repeats 11 times>",
    'words["k"] == "two"': 'words["k"] = "nine"',
    "*shared < 5": "",
}
"""Conditions that hold on all ranks but rank 1, and the place that fails there."""
OF_FORTRAN = {
    "base(:,1) < 5": "base(:,1)(2) = 9",
    "words(1) == 'word'": "words(1) = 'nine    '",
    "words(0:1) == 'word'": "words(0:1)(2) = 'nine    '",
    "names == 'abcd'": "names(1) = 'nine'",
    "mask .eqv. .false.": "mask(3) = .TRUE.",
    "cells(3)%title == 'cell'": "cells(3)%title = 'nine'",
}


@pytest.mark.parametrize(
    ("source", "conditions", "text"),
    [
        ("judged.cpp", OF_CPP, 'words["k"] == "nine"'),
        ("judged.f90", OF_FORTRAN, "words(1) == 'nine'"),
    ],
)
def test_conditions_name_the_element_that_fails(
    mpi: Mpi, build: Build, source: str, conditions: dict[str, str], text: str
) -> None:
    program = build(source)
    commands = (
        "set stop-on-error off",
        f"tbreak {program.at('look')}",
        "c",
        *(f"assert {each}" for each in conditions),
        f"defset found if {text}",
        *(f"defset fine if {each}" for each in conditions),
        "defset within if (1 + 1) in 2..2",
        # Typed back, each place shows the same.
        *(f"print {place.partition(' = ')[0]}" for place in conditions.values() if place),
    )
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    for condition, place in conditions.items():
        lines = shown(finished.out, f"assert {condition}")
        fine = shown(finished.out, f"defset fine if {condition}")[0]
        if place:
            why = f"on which '{condition}' is true now"
            assert fine == f"@fine is [0,2]: 2 of 3 ranks, {why}"
        else:
            assert "failed on [0-2]" in fine
        if not place:
            assert "NOT CHECKED on [0-2]" in lines[0], lines
            continue
        assert lines[0] == f"{condition}: FAILED on [1] (1 of 3)", lines
        assert lines[1:] == [f"[1] {place}", "passed on [0,2]"]
        expression, _, value = place.partition(" = ")
        typed = "\n".join(shown(finished.out, f"print {expression}"))
        if value != "0x0":
            assert f"[1]   {expression} = {value}" in typed, typed
    assert shown(finished.out, f"defset found if {text}")[0].startswith("@found is [1]: 1 of 3")
    within = shown(finished.out, "defset within if (1 + 1) in 2..2")[0]
    assert within.startswith("@within is [0-2]: 3 of 3")


def test_a_member_of_a_base_class_behind_a_smart_pointer_is_a_place(mpi: Mpi, build: Build) -> None:
    program = build("judged.cpp")
    place = "(*shared).Base::id"
    commands = (f"tbreak {program.at('look')}", "c", "print *shared", f"print {place}")
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    assert shown(finished.out, "print *shared")[1].split()[0] == place
    assert f"[1]   {place} = 9  <-- differs  @2" in shown(finished.out, f"print {place}")


def test_varprint_of_fortran_names_places_by_the_bounds_of_its_arrays(
    mpi: Mpi, build: Build
) -> None:
    program = build("judged.f90")
    places = {"all%cells(3)%rho(2)": "9", "all%cells(3)%title": "'nine'", "all%cells(4)%id": "9"}
    commands = (f"tbreak {program.at('look')}", "c", "varprint all")
    commands += tuple(f"print {place}" for place in places)
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    lines = shown(finished.out, "varprint all")
    for place, value in places.items():
        assert any(line.split()[0] == place.removeprefix("all") for line in lines), lines
        typed = shown(finished.out, f"print {place}")
        assert f"[1]   {place} = {value}  <-- differs  @2" in typed


OF_SMALL_NUMBERS = {
    "flags in 0..9": "flags[7] = 77",
    "shifts >= -3": "shifts[2] = -100",
    "levels in 200..204": "levels[4] = 255",
    "rows < 6": "rows[2][1] = 6",
    "many < 7": "many[4711] = 7",
    "cell.kinds == 0": "cell.kinds[3] = 9",
    "modes in 0..4": "modes[4] = 5",
    "modes <= 4": "modes[4] = 5",
    "modes != 5": "modes[4] = 5",
    "grid < 4": "grid[1][2] = 9",
    "all_modes == 0": "all_modes[750] = 2",
    "all_modes == NONE": "all_modes[750] = WRITE",
}
"""Conditions that hold on rank 0, and the place that fails on rank 1."""


def test_arrays_in_words_are_numbers_beside_numbers(mpi: Mpi, build: Build) -> None:
    """GDB shows arrays of one-byte types as strings, and enumerators by name."""
    program = build("small_numbers.c")
    commands = (
        "set stop-on-error off",
        f"tbreak {program.at('look')}",
        "c",
        *(f"assert {each}" for each in OF_SMALL_NUMBERS),
        *(f"defset fine if {each}" for each in OF_SMALL_NUMBERS if " in " not in each),
        'assert name == "two"',
    )
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(2, program))
    for condition, place in OF_SMALL_NUMBERS.items():
        said, *lines = shown(finished.out, f"assert {condition}")
        assert said.endswith("FAILED on [1] (1 of 2)"), said
        assert lines == [f"[1] {place}", "passed on [0]"]
        if " in " not in condition:
            fine = shown(finished.out, f"defset fine if {condition}")[0]
            assert fine.startswith("@fine is [0]: 1 of 2 ranks")
    assert shown(finished.out, 'assert name == "two"') == ['name == "two": passed on [0-1]']


def test_an_optional_argument_that_is_absent_is_said_to_be(mpi: Mpi, build: Build) -> None:
    program = build("absent.f90")
    asked = {
        "print given": ("given", "[1] given = 1"),
        "print given + 1": ("given", "[1] given + 1 = 2"),
        "print weights": ("weights", "[1] weights = (2, 2, 2, 2)"),
        "print weights(2)": ("weights", "[1] weights(2) = 2"),
        "stat weights": ("weights", "[1] weights: 4 numbers"),
    }
    commands = (f"tbreak {program.at('look')}", "c", *asked, "info args", "bt")
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(2, program))
    for command, (name, of_other) in asked.items():
        lines = shown(finished.out, command)
        what = "is absent" if name == "given" else "has no place"
        why = f"[0] error: {name} {what}: the caller has not given "
        assert any(each.startswith(why) for each in lines), lines
        assert any(each.startswith(of_other) for each in lines), lines
    listed = shown(finished.out, "info args")
    assert any(each.startswith("[0] given = <absent>") for each in listed), listed
    assert "given=<absent>" in finished.out
