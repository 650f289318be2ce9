"""Frames of real programs: arguments that are big, or whose bounds are not set yet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pgdb
from pgdb.records import Stack
from tests.conftest import Build, StartJob
from tests.support.programs import Mpi
from tests.support.terminal import ex, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]
ABSENT = "maybe=<absent>"


def shown(out: str, command: str) -> list[list[str]]:
    """Return the lines that a batch run shows for each such command."""
    parts = re.split(r"^\(pgdb [\d,-]+\) (.*)\n", out, flags=re.M)
    return [
        text.splitlines()
        for line, text in zip(parts[1::2], parts[2::2], strict=True)
        if line == command
    ]


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_fortran_arrays_without_bounds_never_hang(mpi: Mpi, build: Build, level: str) -> None:
    program = build("unset.f90", level)
    commands = ("tbreak sweep", "c", "bt", "frame", "tree", "up", "down", "info args", "p pressure")
    if level == "-O0":
        commands += ("expand 3", "stat pressure", "plot pressure", "assert pressure > 0")
        commands += ("output pressure", "display density")
    inner = (f"tbreak {program.at('doubled')}", "c", "bt")
    finished = run_pgdb("launch", "--batch", *ex(*commands, *inner), *mpi.line(2, program))
    assert finished.status == (1 if level == "-O0" else 0), finished.out
    sweep = rf"fields_of_unset::sweep \(.*density=\.\.\., pressure=\.\.\., .*{ABSENT}"
    at_entry, in_result = shown(finished.out, "c")
    assert re.search(sweep, at_entry[0]), at_entry
    entry, result = shown(finished.out, "bt")
    assert entry[0] == "[0-1]" and re.match(rf"#0 +{sweep}", entry[1]), entry
    # GDB takes a string's length from the selected frame, whichever frame the string belongs to.
    assert not [line for line in result if "'" in line or "<error" in line], result
    *frames, hint = result[1:]
    assert re.fullmatch(r"\(expand \d+ shows all of it\)", hint), result
    assert [line.split()[1] for line in frames] == [
        "fields_of_unset::doubled",
        "fields_of_unset::once",
        "fields_of_unset::shaped",
        "fields_of_unset::sweep",
        "unset",
    ]
    (selected,), (again,) = shown(finished.out, "frame"), shown(finished.out, "down")
    assert re.search(sweep, selected[0]) and re.search(sweep, again[0])
    ((tree,),) = shown(finished.out, "tree")
    assert "fields_of_unset::sweep" in tree and tree.endswith("[0-1]")
    assert "<error" not in in_result[0]
    if level == "-O0":
        unset = "[0-1] pressure = <its bounds are not set yet>"
        assert unset in shown(finished.out, "info args")[0], finished.out
        # GDB itself prints these, without an end but for PGDB's printer.
        text = "<its bounds are not set yet>"
        assert shown(finished.out, "output pressure") == [[f"[0-1] {text}"]], finished.out
        assert shown(finished.out, "display density") == [[f"[0-1] 1: density = {text}"]]
        (refused,) = shown(finished.out, "p pressure")[0]
        assert refused.startswith("[0-1] error: pressure has no elements, and the shape "), refused
        for command in ("stat pressure", "plot pressure", "assert pressure > 0"):
            why = shown(finished.out, command)[0][-1]
            assert "pressure has no elements, and the shape" in why, finished.out
        whole = "".join(shown(finished.out, "expand 3")[0])
        assert "pressure=<its bounds are not set yet>, label='hello', c=( id = " in whole, whole


LENGTH = "<its length is not set yet>"
TEXTS = {
    "word": "'hello'",
    "words": "('hello', 'world')",
    "grid": "(('a    ', 'a    ') ('b    ', 'a    ') ('a    ', 'c    '))",
}
WITHOUT_LENGTH = "python print(gdb.Value(b'', gdb.parse_and_eval('words').type.target()))"
"""Command that prints a string whose length GDB does not find, as where that is optimized out."""


def test_fortran_strings_without_a_length_never_hang(mpi: Mpi, build: Build) -> None:
    program = build("lengths.f90")
    values = tuple(f"p {name}" for name in TEXTS)
    early = ("tbreak speak", "c", "info locals", *values, "output word", "bt -full")
    late = (f"tbreak {program.at('spoken')}", "c", "info locals", *values, WITHOUT_LENGTH)
    inside = (f"tbreak {program.at('leave')}", "c", "bt", "up", "up", "info locals", "bt -full")
    whole = ("set print frame-arguments all", "bt", "p 6 * 7")
    finished = run_pgdb(
        "launch", "--batch", *ex(*early, *late, *inside, *whole), *mpi.line(2, program)
    )
    assert finished.status == 0, finished.out
    entry, spoken, above = shown(finished.out, "info locals")
    full, full_inside = (
        [line.strip() for line in lines] for lines in shown(finished.out, "bt -full")
    )
    for name, text in TEXTS.items():
        unset, known = f"{name} = {LENGTH}", f"{name} = {text}"
        assert f"[0-1] {unset}" in entry and unset in full, finished.out
        assert f"[0-1] {known}" in spoken and f"[0-1] {known}" in above, finished.out
        assert known in full_inside, finished.out
        assert shown(finished.out, f"p {name}") == [[f"[0-1] {unset}"], [f"[0-1] {known}"]]
    assert shown(finished.out, "output word") == [[f"[0-1] {LENGTH}"]], finished.out
    unknown = [["[0-1] <its length is not known>"]]
    assert shown(finished.out, WITHOUT_LENGTH) == unknown, finished.out
    scalars, in_full = shown(finished.out, "bt")
    assert "words_of_lengths::counted (label=..., " in scalars[2], scalars
    assert "words_of_lengths::counted (label='hello', " in in_full[2], in_full
    assert shown(finished.out, "p 6 * 7") == [["[0-1] 6 * 7 = 42"]], finished.out


def test_elements_of_fortran_arrays_of_strings_with_a_length_of_a_variable(
    mpi: Mpi, build: Build
) -> None:
    program = build("lengths.f90")
    # GDB by itself shows, and changes, the first element.
    values = {
        "p words(1)": "words(1) = 'hello'",
        "p words(n - 3)": "words(n - 3) = 'world'",
        "p words(2)(2:3)": "words(2)(2:3) = 'or'",
        "output words(2)": "'world'",
        "p grid(1,2)": "grid(1,2) = 'b    '",
        "p grid(2,3)": "grid(2,3) = 'c    '",
        "p words(3)": "error: no such vector element: 3 is not in 1:2",
    }
    late = (f"tbreak {program.at('spoken')}", "c", *values, "set var words(2) = 'WORLD'", "p words")
    listed = (f"tbreak {program.at('listed')}", "c", "p names(1)", "p names(2)", "p names(0)")
    finished = run_pgdb("launch", "--batch", *ex(*late, *listed), *mpi.line(2, program))
    assert finished.status == 1, finished.out
    for command, text in values.items():
        assert shown(finished.out, command) == [[f"[0-1] {text}"]], finished.out
    assert shown(finished.out, "p words") == [["[0-1] words = ('hello', 'WORLD')"]], finished.out
    assert shown(finished.out, "p names(2)") == [["[0-1] names(2) = 'WORLD'"]], finished.out
    assert shown(finished.out, "p names(1)") == [["[0-1] names(1) = 'hello'"]], finished.out
    assert shown(finished.out, "p names(0)")[0][0].startswith("[0-1] error: "), finished.out


def test_big_arguments_take_no_more_than_a_line(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("frames.cpp", "-O0")
    modes = [("none", ()), ("presence", ()), ("all", ("set print elements 4",))]
    commands = ["tbreak advance", "c", "bt"]
    for mode, more in modes:
        commands += [f"set print frame-arguments {mode}", *more, "bt"]
    depth = ("set print max-depth 1", "bt", "set print frame-arguments scalars", "bt", "p mesh")
    unfolded = ("set print max-depth 20", "set print elements 200", "bt 1", "expand", "next")
    # PGDB leaves its own depth in place until a command may show it.
    script = tmp_path / "commands"
    script.write_text(f"tbreak {program.at('leaf')}\ncommands\nsilent\noutput mesh\nend\n")
    left = ("bt 3", "next", "bt 3", "show print max-depth", "bt 3", "info args", "bt 3")
    by_itself = (f"source {script}", "bt 3", "continue")
    lines = (*commands, *depth, *unfolded, "expand 18", *left, *by_itself)
    finished = run_pgdb("launch", "--batch", *ex(*lines), *mpi.line(2, program))
    assert finished.status == 0, finished.out
    left_out = '(domain=..., other=…, mesh=..., name="short", text=…, dt=..., mode=IMPLICIT, '
    assert left_out in shown(finished.out, "c")[0][0]
    scalars, names, presence, whole, shallow, again = shown(finished.out, "bt")
    assert left_out in scalars[1] and len(scalars) == 4
    assert re.fullmatch(r"\(expand \d+ shows all of it\)", scalars[3]), scalars
    assert "(expand" not in whole[-1] and "(expand" not in presence[-1]
    assert " advance (domain=..., other=..., mesh=..., name=..., " in names[1]
    assert " advance (...) at " in presence[1] and " main (...) at " in presence[2]
    assert 'name="shor"...' in whole[1] and "std::vector of length 3, capacity 3 = {" in whole[1]
    assert "mesh={rows = std::vector of length 3, capacity 3 = {...}, " in shallow[1]
    assert 'mesh=..., name="shor"..., ' in again[1]
    first, later = shown(finished.out, "expand")[0], shown(finished.out, "expand 18")[0]
    assert first[0].startswith("[0]") and "x = {0 <repeats 4000 times>}, energy = " in first[1]
    assert first[3].startswith("[1]") and "x = {0, 0, 1, 0 <repeats 3997 times>}" in first[4]
    assert later[-1] == "[0-1] moved since: what was left out is not known", later
    assert "domain=..., " in later[2]
    # The depth that the user has set holds for values after it was left for a moment.
    (value,) = shown(finished.out, "p mesh")
    assert "std::vector of length 3, capacity 3 = {...}" in value[0], value
    assert shown(finished.out, "show print max-depth") == [["[0-1] Maximum print depth is 20."]]
    in_full = "rows = std::vector of length 3, capacity 3 = {std::vector of length 2, "
    assert in_full in "".join(shown(finished.out, "info args")[0]), finished.out
    assert in_full in "".join(shown(finished.out, "continue")[0]), finished.out
    assert all(left_out[:20] in each[1] for each in shown(finished.out, "bt 3")), finished.out


def test_a_gdb_that_prints_without_end_is_replaced_where_the_rank_stands(
    mpi: Mpi, build: Build
) -> None:
    program = build("unset.f90")
    begin = ("tbreak sweep", "c", "set timeout 16", "output/r pressure", "p 1", "reattach")
    again = ("p x_max", "set print frame-arguments all", "bt", "frame", "bt full", "c")
    finished = run_pgdb("launch", "--batch", *ex(*begin, *again), *mpi.line(2, program))
    place = r"fields_of_unset::sweep \(x_min=1, .*density=\.\.\., pressure=\.\.\., "
    endless = [
        "[0-1] error: its GDB computes without end and ignores interrupts; 'reattach' gives "
    ]
    endless = [endless[0] + "the rank another GDB at the same place"]
    assert shown(finished.out, "output/r pressure") == [endless], finished.out
    assert shown(finished.out, "p 1") == [endless]
    (first,) = shown(finished.out, "reattach")
    assert re.match(rf"\[0-1\] stopped in {place}", first[0]), finished.out
    assert shown(finished.out, "p x_max") == [["[0-1] x_max = 10"]]
    # Whole arguments are listed by PGDB, which looks at their bounds first.
    known = r"density=<its bounds are not set yet>, pressure=<its bounds are not set yet>, "
    known += r"label='hello', c=.*maybe=<absent>"
    sweep = rf"#0 +fields_of_unset::sweep \(x_min=1, .*{known}"
    for lines in (*shown(finished.out, "bt"), *shown(finished.out, "frame")):
        assert re.search(sweep, "\n".join(lines)), lines
    (refused,) = shown(finished.out, "bt full")[0]
    assert refused.startswith("[0-1] error: 'backtrace full' would print density, pressure in #0 ")
    assert finished.ranks_reported("exited normally") == "0-1", finished.out


def test_assumed_shape_arrays_of_strings(mpi: Mpi, build: Build) -> None:
    program = build("lengths.f90")
    # GDB by itself shows <incomplete type>, and has no elements.
    values = {
        "p names": "names = ('hello', 'world')",
        "p names(2)": "names(2) = 'world'",
        "p names(2)(1:3)": "names(2)(1:3) = 'wor'",
        "output names(1)": "'hello'",
        "p names(3)": "error: no such vector element: 3 is not in 1:2",
    }
    commands = (f"tbreak {program.at('several')}", "c", "info args", *values)
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(2, program))
    assert finished.status == 1, finished.out
    for command, text in values.items():
        assert shown(finished.out, command) == [[f"[0-1] {text}"]], finished.out
    (listed,) = shown(finished.out, "info args")
    assert "[0-1] names = ('hello', 'world')" in listed, finished.out


def test_arrays_whose_bounds_are_not_known(mpi: Mpi, build: Build) -> None:
    program = build("unknown.f90")
    commands = (f"tbreak {program.at('look')}", "c", "info args", "p part(2)")
    refused = ("p part", "stat part", "assert part in 0..9")
    finished = run_pgdb("launch", "--batch", *ex(*commands, *refused), *mpi.line(2, program))
    assert finished.status == 1, finished.out
    (listed,) = shown(finished.out, "info args")
    assert "[0-1] part = <its bounds are not known here>" in listed, finished.out
    assert shown(finished.out, "p part(2)") == [["[0-1] part(2) = 7"]], finished.out
    for command in refused:
        assert "part: its bounds are not known here" in "".join(shown(finished.out, command)[0])


def test_a_stack_ends_at_the_main_program_with_and_without_an_index(
    build: Build, start_job: StartJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a nursery each GDB reads the program. A late one may find an index.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with start_job(3, build("naps.f90"), "600", in_mpi=False) as job:
        for has_index in (False, True):
            assert any(tmp_path.rglob("*.gdb-index")) == has_index
            with pgdb.attach(job.pid, nursery=False) as session:
                for each in session.backtrace().classes:
                    assert isinstance(each.record, Stack)
                    assert each.record.frames[-1].function == "naps", each
