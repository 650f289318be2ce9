"""Blocked ranks and kinds of notifications, which a user interface does not show. No I/O."""

from __future__ import annotations

from msgspec.structs import replace

from pgdb.errors import UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.notifications import (
    JobOutput,
    LateAnswer,
    Notification,
    RankEvents,
    RanksBack,
    RanksLost,
    SessionNotice,
)
from pgdb.ranks import RankSet
from pgdb.records import Exit, Running, Stop

_EVENTS = {"stops": Stop, "ends": Exit, "runs": Running}
_OTHERS = {
    "output": JobOutput,
    "notices": SessionNotice,
    "late": LateAnswer,
    "lost": RanksLost | RanksBack,
}
TYPES = (*_EVENTS, *_OTHERS)
"""The kinds of notifications that ``filter`` leaves out."""
# The kinds of MI's records, which the PGDB of 2014 has filtered.
_OF_MI = {
    "exec": ("stops", "ends", "runs"),
    "target": ("output",),
    "notify": ("notices",),
    "status": ("notices",),
    "log": ("notices",),
}


class Visibility:
    """The ranks and the notifications that one user interface does not show."""

    def __init__(self) -> None:
        self.blocked = RankSet()
        """The ranks of which nothing is shown."""
        self.filtered: set[str] = set()
        """The kinds of notifications that are left out."""

    def answer(self, answer: Answer) -> Answer | None:
        """Return the visible part of an answer, None if nothing of it is visible."""
        if self.blocked.isdisjoint(answer.ranks):
            return answer
        ranks = answer.ranks - self.blocked
        if not ranks:
            return None
        parts = (each.part(each.ranks - self.blocked) for each in answer.classes)
        return replace(
            answer,
            ranks=ranks,
            classes=tuple(each for each in parts if each.ranks),
            missing=answer.missing - self.blocked,
        )

    def notification(self, notification: Notification) -> Notification | None:
        """Return the visible part of a notification, None if nothing of it is visible."""
        for name, kind in _OTHERS.items():
            if name in self.filtered and isinstance(notification, kind):
                return None
        match notification:
            case RankEvents(classes=classes):
                hidden = tuple(_EVENTS[name] for name in self.filtered & _EVENTS.keys())
                left = (each for each in classes if not isinstance(each.record, hidden))
                parts = (each.part(each.ranks - self.blocked) for each in left)
                shown = tuple(each for each in parts if each.ranks)
                return RankEvents(shown) if shown else None
            case LateAnswer(answer=answer):
                part = self.answer(answer)
                return LateAnswer(part) if part is not None else None
        return notification


def read_types(word: str, text: str) -> set[str]:
    """Return the kinds of notifications that the argument of ``filter`` names.

    :raises UsageError: for another word.
    """
    found: set[str] = set()
    for name in text.replace(",", " ").split():
        kinds = _OF_MI.get(name, (name,))
        if not set(kinds) <= set(TYPES):
            raise UsageError(f"{word}: no kind {name!r}; there are {', '.join(TYPES)}")
        found |= set(kinds)
    return found
