"""Colours: only on a terminal, and without a change of the text."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import pytest

from pgdb.errors import CommandError
from pgdb.frontend.show.display import TextDisplay
from pgdb.frontend.show.text.palette import Palette

_ESCAPES = re.compile(r"\x1b\[[\d;]*m")
LINES = """[0-6,8-31] p = {id = 5, x = {1, …, 3}, name = "even"}
    .x[1]  [0-6,8-31] 2.5  @1
           [7]        nan  <-- differs  @2
[0-31] local = 0 … 46.5, 32 different values  ▁▁▂▂▃▃▄▄▅▅▆▆▇▇█
       min 0 [0,2,5,… 120 ranks]  NaN on [7]
#0  exchange (rank=1, size=4) at ring.c:27
[2] error: Cannot access memory at address 0x8
(expand 5 shows all of it)"""


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def painted(text: str) -> dict[str, str]:
    """Return the coloured parts of a text with their escape sequences."""
    return {part: style for style, part in re.findall(r"(\x1b\[[\d;]+m)([^\x1b]*)\x1b\[0m", text)}


def test_the_text_stays_as_it_is() -> None:
    text = Palette().paint(LINES)
    assert text != LINES
    assert _ESCAPES.sub("", text) == LINES


def test_what_stands_out() -> None:
    parts = painted(Palette().paint(LINES))
    assert {"[0-6,8-31]", "[7]", "[0,2,5,… 120 ranks]", "<-- differs", " @2", "exchange"} <= set(
        parts
    )
    assert {"ring.c:27", "error: Cannot access memory at address 0x8", "▁▁▂▂▃▃▄▄▅▅▆▆▇▇█"} <= set(
        parts
    )
    assert ".x[1]" in parts
    assert "[1]" not in parts
    assert parts["[7]"] != parts["<-- differs"] != parts[" @2"]


def test_source_lines() -> None:
    text = '[0-3]\n1\t/* a comment\n2\t   goes on */ int x = "a";\n\nno source'
    coloured = Palette().source(text)
    assert _ESCAPES.sub("", coloured) == text
    second = coloured.split("\n")[2]
    assert second.startswith(("2\t   \x1b[", "2\t\x1b["))


class Screen(io.StringIO):
    """A terminal that keeps its output."""

    def isatty(self) -> bool:
        return True


def test_colours_and_width_of_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    screen, log, plain = Screen(), io.StringIO(), Screen()
    for out in (screen, log):
        display = TextDisplay(out)
        display.text("[0-3] x = 5")
        display.error(CommandError("no"), "p x")
    assert "\x1b[" in screen.getvalue()
    assert _ESCAPES.sub("", screen.getvalue()) == log.getvalue() == "[0-3] x = 5\nno\n"
    assert (TextDisplay(screen).width, TextDisplay(log).width) == (72, 0)
    monkeypatch.setenv("NO_COLOR", "1")
    display = TextDisplay(plain)
    display.text("[0-3] x = 5")
    assert plain.getvalue() == "[0-3] x = 5\n"
    assert display.width == 72


def test_rich_is_loaded_for_a_terminal_only() -> None:
    program = (
        "import io, sys; from pgdb.frontend.show.display import TextDisplay; "
        "TextDisplay(io.StringIO()).text('[0]'); print('rich' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "False\n"
