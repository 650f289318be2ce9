"""What reaches the user's terminal."""

from __future__ import annotations

import io

import pytest

from pgdb.errors import CommandError
from pgdb.frontend.answers import Answer
from pgdb.frontend.commands.table import Shown
from pgdb.frontend.display import TextDisplay
from pgdb.frontend.session import Told
from pgdb.merge.answer import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Exit, Text

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe"
TAME = r"\033]0;owned\007\033[2J\23331m\u202egnp.exe"


class Screen(io.StringIO):
    """A terminal that keeps what is written to it."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("way", ["answer", "source", "shown", "text", "error", "late"])
def test_no_control_characters_of_the_program_get_through(
    way: str, is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Screen(is_terminal=is_terminal)
    display = TextDisplay(out)
    said = EquivalenceClass(RankSet([0]), record=Text(text=EVIL))
    answer = Answer(command="echo", ranks=RankSet([0]), classes=(said,))
    match way:
        case "answer" | "source":
            display.answer(answer, f"1\t{EVIL}", is_source=way == "source")
        case "shown":
            display.shown(Shown(text=EVIL))
        case "text":
            display.text(EVIL)
        case "error":
            display.error(CommandError(EVIL), "")
        case _:
            display.told(Told(kind="late", answer=answer))
    seen = out.getvalue()
    assert "owned" in seen and "\x1b]" not in seen and "\x1b[2J" not in seen
    assert not {"\x07", "\x9b", "\u202e"} & set(seen)
    if not is_terminal:
        assert TAME in seen and "\x1b" not in seen


def test_tabs_and_lines_stay() -> None:
    out = Screen(is_terminal=False)
    TextDisplay(out).text("a\tb\nc")
    assert out.getvalue() == "a\tb\nc\n"


def test_events_are_merged_until_they_are_shown() -> None:
    out = Screen(is_terminal=False)
    display = TextDisplay(out)
    display._events.add(RankSet([0]), Exit(code=3), ())
    display._events.add(RankSet([1]), Exit(code=3), ())
    display.flush()
    assert out.getvalue() == "[0-1] exited with code 3\n"
