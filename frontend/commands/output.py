"""The output side of a user interface, as commands see it."""

from __future__ import annotations

from typing import Protocol

from pgdb.errors import PgdbError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.show.shown import Shown, Waiting
from pgdb.frontend.show.transcript import Transcript
from pgdb.ranks import RankSet


class Display(Protocol):
    """The output side of a user interface."""

    @property
    def width(self) -> int:
        """Columns that a line may have, 0 for no limit."""

    def command(self, focus: RankSet, line: str) -> None:
        """Show a command that comes from a script."""

    def answer(self, answer: Answer, text: str, *, is_source: bool) -> None:
        """Show the answer to a command; *text* is its text for people."""

    def text(self, text: str) -> None:
        """Show a message."""

    def shown(self, shown: Shown) -> None:
        """Show a tree, a picture, a comparison: output with a text and a JSON line of its own."""

    def error(self, error: PgdbError, command: str) -> None:
        """Show the error of a command that was not carried out."""

    def waiting(self, progress: Waiting | None) -> None:
        """Show the progress of a command that waits for stops; None when the wait is over."""

    def flush(self) -> None:
        """Show the notifications that are kept back."""

    diverted: tuple[type, ...]
    """The notifications that another display shows meanwhile."""

    transcript: Transcript
    """Transcript, which gets a copy of all output."""

    @property
    def owns_output(self) -> bool:
        """Whether no other program may write to standard output."""
