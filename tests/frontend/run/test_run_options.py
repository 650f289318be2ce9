"""Durations, pairs of conditions and locations, and the command line of ``pgdb run``."""

from __future__ import annotations

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.run import exit_status
from pgdb.frontend.run.options import RunOptions, duration
from pgdb.frontend.ui.arguments import parse
from tests.support.programs import ROOT


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("300", 300), ("300s", 300), ("10m", 600), ("1.5h", 5400), ("01:30:00", 5400), ("1d", 86400)],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text, "--hang-after") == seconds


@pytest.mark.parametrize("text", ["", "soon", "-3s", "0", "nan", "inf", "3 weeks"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="--hang-after"):
        duration(text, "--hang-after")


def run_options(*words: str) -> RunOptions:
    found = parse(["run", *words]).run
    assert found is not None
    return found


def test_options_and_line() -> None:
    found = run_options("-o", "a.txt", "-o", "b.json", "--hang-after", "5m", "--", "mpirun", "./a")
    assert found.outputs == ("a.txt", "b.json")
    assert found.hang_after_s == 300
    assert found.line == ("mpirun", "./a")
    assert run_options("-q", "mpirun", "-o", "x", "./a").line == ("mpirun", "-o", "x", "./a")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give the job's line"),
        (("--",), "give the job's line"),
        (("--hang-after", "x", "./a"), "is no duration"),
        (("--wall-time", "1h", "./a"), "--before-timeout"),
        (("--then", "wait", "./a"), "--then"),
    ],
)
def test_wrong_lines_name_the_faulty_part(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse(["run", *words])


def test_page_has_the_table_of_exit_statuses() -> None:
    page = (ROOT / "docs" / "guide" / "run.md").read_text(encoding="utf-8")
    rows = [f"| {status} | {meaning} |" for status, meaning in exit_status.MEANINGS.items()]
    assert "\n".join(rows) in page
