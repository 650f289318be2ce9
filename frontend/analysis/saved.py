"""Answers kept under a name, to compare with later answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.patterns import pattern
from pgdb.sizes import size_text, whole_size

MOST_SAVED = 100
"""Maximum number of saved answers."""
MOST_SAVED_BYTES = 256 * 1024 * 1024
"""Maximum size of all saved answers together, in bytes."""
_NAME = pattern(r"[A-Za-z_]\w*\Z")


class Saved(msgspec.Struct, frozen=True):
    """An answer under a name."""

    name: str
    answer: Answer
    time_s: float
    """Time of saving, in seconds since 1970."""
    job: str = ""
    """Description of the answer's job."""
    is_own: bool = False
    """Whether this session saved the answer; an answer of a file or recording can be from anyone.
    """


class SavedAnswers:
    """The saved answers, oldest first."""

    def __init__(self) -> None:
        self._saved: OrderedDict[str, Saved] = OrderedDict()

    def put(self, saved: Saved) -> Saved | None:
        """Keep an answer; return the answer that had the name before.

        :raises UsageError: if the name is not valid.
        :raises CommandError: if too many answers are saved, or if they would be too large.
        """
        if not _NAME.match(saved.name) or saved.name == "all":
            raise UsageError(f"save: {saved.name!r} cannot be a name; use letters and digits")
        others = [each for each in self if each.name != saved.name]
        if len(others) >= MOST_SAVED:
            raise CommandError(
                f"save: {MOST_SAVED} answers are kept already; 'saved -d NAME' forgets one"
            )
        size_bytes = sum(each.answer.size_bytes for each in (*others, saved))
        if size_bytes > MOST_SAVED_BYTES:
            raise CommandError(
                f"save: with this the saved answers would take {size_text(size_bytes)}, more "
                f"than {whole_size(MOST_SAVED_BYTES)}; 'saved -d NAME' forgets one"
            )
        before = self._saved.pop(saved.name, None)
        self._saved[saved.name] = saved
        return before

    def get(self, name: str) -> Saved | None:
        """Return the answer with a name, or None."""
        return self._saved.get(name)

    def forget(self, name: str) -> bool:
        """Forget a saved answer; return whether the name was known."""
        return self._saved.pop(name, None) is not None

    def __iter__(self) -> Iterator[Saved]:
        return iter(self._saved.values())

    def __len__(self) -> int:
        return len(self._saved)
