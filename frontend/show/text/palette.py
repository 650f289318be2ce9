"""Colours for a terminal; the text is complete without them.

Only a session on a terminal imports this module, since rich takes 0.1 s to import.
"""

from __future__ import annotations

from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

_MOST_PAINTED = 200_000
"""Maximum length of a text with colours, in characters."""

# GDB's own colours where it has one: functions yellow, files green.
_THEME = Theme(
    {
        "pgdb.ranks": "bold cyan",
        "pgdb.note": "dim",
        "pgdb.differs": "bold magenta",
        "pgdb.error": "red",
        "pgdb.function": "yellow",
        "pgdb.file": "green",
        "pgdb.path": "blue",
        "pgdb.bars": "cyan",
    }
)


class _Highlighter(RegexHighlighter):
    """Highlighter of ranks, functions, files and values."""

    base_style = "pgdb."
    highlights = [  # noqa: RUF012  # rich declares it so
        # Except the index of an element, which follows a name.
        r"(?<![\w\])@])(?P<ranks>\[\d[\d,/-]*(?:,?… \d+ ranks)?\])(?! = )",
        r"(?m)(?P<note> @\d+)$",
        r"(?m)^ *(?P<note>\((?:expand \d+ shows|\d+ more ).*\))$",
        r"(?P<differs><-- differs|\b(?:NaN|-?inf) on (?=\[))",
        r"(?m)(?:^|\] *)(?P<error>error: .*)$",
        r"(?P<error>\bSIG[A-Z]+\d*, [^:\n]*)",
        r"(?P<error>lost: [^;\n]*)",
        r"(?m)(?:^#[\d*]+ +|\bin |<- |, )(?P<function>[\w:~<>.$]+)(?= \()",
        r"(?:\bat )(?P<file>[^\s:()]+:\d+)\b",
        r"(?m)^    (?P<path>(?:\.|\[\d|%)\S*)(?=  )",
        r"(?P<bars>[▁-█]{2,})",
    ]


class Palette:
    """Texts with the escape sequences of this terminal."""

    def __init__(self) -> None:
        self._console = Console(force_terminal=True, theme=_THEME, legacy_windows=False)
        self._highlighter = _Highlighter()

    def paint(self, text: str) -> str:
        """Return *text* with colours; a very long text is returned unchanged."""
        if len(text) > _MOST_PAINTED:
            return text
        return self._render(self._highlighter(Text(text, tab_size=8)))

    def error(self, text: str) -> str:
        """Return *text* in the colour of errors."""
        return self._render(Text(text, style="pgdb.error"))

    def source(self, text: str) -> str:
        """Return numbered source lines with the colours of their language."""
        lines = [line.partition("\t") for line in text.split("\n")]
        # A margin with marks can stand before the number.
        is_code = [bool(tab) and number[-1:].isdigit() for number, tab, _ in lines]
        # Highlighted as one text: a comment can span several lines.
        code = "\n".join(line[2] for line, is_one in zip(lines, is_code, strict=True) if is_one)
        syntax = Syntax("", "cpp", theme="ansi_dark", background_color="default")
        coloured = iter(syntax.highlight(code).split("\n", allow_blank=True))
        painted = []
        for (number, tab, rest), is_one in zip(lines, is_code, strict=True):
            if is_one:
                source = next(coloured, Text(rest))
                source.rstrip()
                start = number if number.isdigit() else self.paint(number)
                painted.append(f"{start}\t{self._render(source)}")
            else:
                painted.append(self.paint(number + tab + rest))
        return "\n".join(painted)

    def _render(self, text: Text) -> str:
        with self._console.capture() as capture:
            # Lines already have their final width.
            self._console.print(text, soft_wrap=True, end="", highlight=False)
        return capture.get()
