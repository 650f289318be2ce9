"""Answers kept under a name, to compare later answers with."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.merge.classes import EquivalenceClass
from pgdb.patterns import pattern
from pgdb.records import Block, Record

MOST_SAVED = 100
"""Answers that are kept under names."""
MOST_SAVED_BYTES = 256 * 1024 * 1024
"""What they may take together."""
_NAME = pattern(r"[A-Za-z_]\w*\Z")
_CLASS_BYTES = 200


class Saved(msgspec.Struct, frozen=True):
    """An answer under a name."""

    name: str
    answer: Answer
    time_s: float
    """When it was saved, in seconds since 1970."""
    job: str = ""
    """The job it is from, in words."""
    is_own: bool = False
    """Whether this session has saved it; what a file or a recording says may be anybody's."""


class SavedAnswers:
    """The answers that are kept under names, the oldest first."""

    def __init__(self) -> None:
        self._saved: OrderedDict[str, Saved] = OrderedDict()

    def put(self, saved: Saved) -> Saved | None:
        """Keep an answer; return what had its name before.

        :raises UsageError: if the name is none.
        :raises CommandError: if there are too many already, or they would take too much room.
        """
        if not _NAME.match(saved.name) or saved.name == "all":
            raise UsageError(f"save: {saved.name!r} cannot be a name; use letters and digits")
        others = [each for each in self if each.name != saved.name]
        if len(others) >= MOST_SAVED:
            raise CommandError(
                f"save: {MOST_SAVED} answers are kept already; 'saved -d NAME' forgets one"
            )
        size_bytes = sum(answer_size_bytes(each.answer) for each in (*others, saved))
        if size_bytes > MOST_SAVED_BYTES:
            raise CommandError(
                f"save: with this the saved answers would take {size_bytes >> 20} MiB, more than "
                f"{MOST_SAVED_BYTES >> 20}; 'saved -d NAME' forgets one"
            )
        before = self._saved.pop(saved.name, None)
        self._saved[saved.name] = saved
        return before

    def get(self, name: str) -> Saved | None:
        """Return what was saved under a name, or None."""
        return self._saved.get(name)

    def forget(self, name: str) -> bool:
        """Forget a saved answer; return whether there was one of that name."""
        return self._saved.pop(name, None) is not None

    def __iter__(self) -> Iterator[Saved]:
        return iter(self._saved.values())

    def __len__(self) -> int:
        return len(self._saved)


def answer_size_bytes(answer: Answer) -> int:
    """Return about how much room an answer takes."""
    return sum(_class_bytes(each) for each in answer.classes)


def _class_bytes(each: EquivalenceClass[Record]) -> int:
    # A dump's bytes need not be copied to be counted.
    record = each.record
    size = len(record.data) if isinstance(record, Block) else len(msgspec.msgpack.encode(record))
    return _CLASS_BYTES + size + sum(map(len, each.slots)) + len(each.ranks.to_bytes())
