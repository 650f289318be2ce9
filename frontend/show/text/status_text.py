"""The status line: the focus, and how many ranks are in which state."""

from __future__ import annotations

from typing import Protocol

from pgdb.ranks import RankSet

_MOST_OF_A_SET = 24
"""Longest set that is shown beside its count, in characters."""
_MOST_RANKS = 4096
"""Number of ranks up to which a set with gaps may be short."""


class States(Protocol):
    """The ranks of a job, by their state."""

    ranks: RankSet
    stopped: RankSet
    running: RankSet
    exited: RankSet
    lost: RankSet
    detached: RankSet

    @property
    def held(self) -> RankSet:
        """Ranks that ignore run commands."""
        ...


def status_line(states: States, focus: RankSet, width: int, *, note: str = "") -> str:
    """Return the status line, cut to *width* columns; *note* is a last word.

    States that no rank is in are left out. The ranks of a state that not
    all are in are named where the set is short.
    """
    total = len(states.ranks)
    of_all = "" if len(focus) == total else f" of {total}"
    parts = [f"focus {_short(focus) or '…'}: {len(focus)}{of_all} ranks"]
    for name in ("stopped", "running", "held", "exited", "lost", "detached"):
        ranks: RankSet = getattr(states, name)
        if ranks:
            which = "" if ranks == states.ranks else _short(ranks)
            parts.append(f"{len(ranks)} {name}{f' [{which}]' if which else ''}")
    if note:
        parts.append(note)
    text = f" {' · '.join(parts)}"
    return text if len(text) < width else text[: max(0, width - 2)] + "…"


def _short(ranks: RankSet) -> str:
    """Return a set as text, if it is short; a large one is not written to find that out."""
    if len(ranks) > _MOST_RANKS and ranks.last - ranks.first >= len(ranks):
        return ""
    text = str(ranks)
    return text if len(text) <= _MOST_OF_A_SET else ""
