"""Progress of a wait: below the cursor at a terminal, nothing in a file, lines less and less often
in JSON."""

from __future__ import annotations

import io
import json

import pytest

from pgdb.frontend.show.display import TextDisplay
from pgdb.frontend.show.shown import Unanswered, Waiting
from pgdb.frontend.ui.batch import JsonDisplay
from pgdb.ranks import RankSet

PROGRESS = Waiting("continue", RankSet.parse("0-31"), RankSet.parse("4-6"), 12.4)
TEXT = "3 of 32 still running: [4-6], for 12 s"
ERASE = "\x1b[J"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    return Screen()


def test_progress_leaves_the_cursor_where_the_user_types(screen: Screen) -> None:
    display = TextDisplay(screen)
    display.waiting(PROGRESS)
    drawn = screen.getvalue()
    assert TEXT in drawn and "\n" not in drawn
    assert drawn.startswith(ERASE) and drawn.endswith(f"{TEXT}\x1b8")


def test_progress_is_gone_before_the_next_output(screen: Screen) -> None:
    display = TextDisplay(screen)
    display.waiting(PROGRESS)
    before = len(screen.getvalue())
    display.text("[4] stopped")
    assert screen.getvalue()[before:] == f"{ERASE}[4] stopped\n"
    display.waiting(None)
    assert screen.getvalue().endswith("[4] stopped\n")


def test_ranks_that_have_not_answered_are_shown(screen: Screen) -> None:
    TextDisplay(screen).waiting(Unanswered(RankSet.parse("0-3"), 12.4))
    assert screen.getvalue().endswith("no answer from [0-3] yet, for 12 s\x1b8")


def test_progress_is_not_in_a_file_or_at_a_prompt(screen: Screen) -> None:
    file = io.StringIO()
    TextDisplay(file).waiting(PROGRESS)
    assert not file.getvalue()
    display = TextDisplay(screen)
    with display.prompting():
        display.waiting(PROGRESS)
    assert not screen.getvalue()


def test_progress_in_json_has_the_ranks_that_stand() -> None:
    out = io.StringIO()
    held, stopped = RankSet.parse("2-3"), RankSet.parse("1")
    one = RankSet.parse("0")
    JsonDisplay(out).waiting(Waiting("next", one, one, 1.0, held=held, stopped=stopped))
    line = json.loads(out.getvalue())
    assert (line["running"], line["held"], line["stopped"]) == ("0", "2-3", "1")


def test_progress_in_json_comes_less_and_less_often() -> None:
    out = io.StringIO()
    display = JsonDisplay(out)
    for wait in range(2):
        for second in range(1, 200):
            display.waiting(
                Waiting("continue", RankSet.parse("0-3"), RankSet.parse(str(wait)), float(second))
            )
        display.waiting(None)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["elapsed_s"] for line in lines] == 2 * [1, 2, 4, 8, 16, 32, 64, 124, 184]
    assert {line["type"] for line in lines} == {"waiting"}
    assert [line["running"] for line in lines] == ["0"] * 9 + ["1"] * 9
