"""Pairs of conditions and locations, and the command line of ``pgdb run``."""

from __future__ import annotations

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.run import exit_status
from pgdb.frontend.run.options import RunOptions
from pgdb.frontend.run.places import Place, read_place
from pgdb.frontend.ui.arguments import parse
from tests.support.programs import ROOT


def run_options(*words: str) -> RunOptions:
    found = parse(["run", *words]).run
    assert found is not None
    return found


def test_options_and_line() -> None:
    found = run_options("-o", "a.txt", "-o", "b.json", "--hang-after", "5m", "--", "mpirun", "./a")
    assert found.outputs == ("a.txt", "b.json")
    assert found.hang_after_s == 300
    assert found.line == ("mpirun", "./a")
    assert not found.needs_gdb
    assert run_options("--break-at", "f.c:3,x", "./a").needs_gdb
    assert run_options("--gdb", "mpirun", "./a").line == ("mpirun", "./a")
    assert run_options("-q", "mpirun", "-o", "x", "./a").line == ("mpirun", "-o", "x", "./a")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give the job's line"),
        (("--",), "give the job's line"),
        (("--hang-after", "x", "./a"), "is no duration"),
        (("--wall-time", "1h", "./a"), "--before-timeout"),
        (("--then", "wait", "./a"), "--then"),
        (("--check", "x > 0", "./a"), "--at"),
        (("--at", "f.c:3", "./a"), "--check"),
        (("--check", "x in", "--at", "f.c:3", "./a"), "--check"),
        (("--gdb", "--then", "hold", "./a"), "a rank has one debugger"),
        (("--break-at", ",x", "./a"), "a location is needed"),
        (("--break-at", "f.c:3,x,1:2:3", "./a"), "is for --trace-at"),
        (("--break-at", "f.c:3,,x", "./a"), "is empty"),
        (("--trace-at", "f.c:3", "./a"), "an expression is needed"),
        (("--trace-at", "f.c:3,x if ", "./a"), "no condition follows"),
    ],
)
def test_wrong_lines_name_the_faulty_part(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse(["run", *words])


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("f.c:3", Place("f.c:3")),
        ("f.c:3,x[1,2],f(a, b)", Place("f.c:3", ("x[1,2]", "f(a, b)"))),
        ("step,x if n > 1", Place("step", ("x",), "n > 1")),
        ("f.c:3,x,2:5:9 if n", Place("f.c:3", ("x",), "n", 2, 5, 9)),
        ("f.c:3,x,:5:", Place("f.c:3", ("x",), "", 1, 5, 0)),
    ],
)
def test_locations(text: str, place: Place) -> None:
    assert read_place(text, "--trace-at", is_trace="," in text) == place


def test_one_location_serves_several_conditions() -> None:
    assert run_options("--check", "a", "--check", "b", "--at", "f", "./a").checks == (
        Place("f", check="a"),
        Place("f", check="b"),
    )


def test_page_has_the_table_of_exit_statuses() -> None:
    page = (ROOT / "docs" / "guide" / "run.md").read_text(encoding="utf-8")
    rows = [f"| {status} | {meaning} |" for status, meaning in exit_status.MEANINGS.items()]
    assert "\n".join(rows) in page
