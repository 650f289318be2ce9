"""The presented result of a command, for people and for programs."""

from __future__ import annotations

import msgspec

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.still_running import counted
from pgdb.frontend.analysis.wording import by_number
from pgdb.ranks import RankSet


class Waiting(msgspec.Struct, frozen=True):
    """The progress of a command that waits for stops."""

    command: str
    ranks: RankSet
    """The ranks that the command is for, without those that have ended."""
    running: RankSet
    """The ranks among them that still run."""
    elapsed_s: float
    held: RankSet = RankSet()
    """The ranks of the session that are held where they have stopped."""
    stopped: RankSet = RankSet()
    """Further ranks that are stopped, and that the command is not for."""


class Unanswered(msgspec.Struct, frozen=True):
    """The progress of a command that waits for answers."""

    ranks: RankSet
    """The ranks that have been asked."""
    elapsed_s: float


def progress_text(progress: Waiting | Unanswered) -> str:
    """Return the progress of a wait.

    It is ``3 of 32 still running: [4-6], for 12 s``, or ``no answer from [0-3] yet, for 12 s``.
    Ranks that the others may wait for are named behind it: ``; [0-1] are held``.
    """
    if isinstance(progress, Unanswered):
        return f"no answer from [{progress.ranks}] yet, for {progress.elapsed_s:.0f} s"
    count = counted(progress.running, progress.ranks)
    return (
        f"{count}: [{progress.running}], for {progress.elapsed_s:.0f} s"
        f"{_standing(progress.held, 'held')}{_standing(progress.stopped, 'stopped')}"
    )


def _standing(ranks: RankSet, how: str) -> str:
    return f"; [{ranks}] {by_number(ranks, 'is', 'are')} {how}" if ranks else ""


class Shown(msgspec.Struct, frozen=True):
    """The result of a command that is more than an answer: a tree, a picture, a comparison."""

    text: str
    """Text for people."""
    answer: Answer | None = None
    """Answer behind the text: it counts for the exit status, and ``expand`` shows it."""
    sets: tuple[RankSet, ...] = ()
    """Rank sets of @1, @2 … from now on; if empty, the classes of *answer*."""
    line: msgspec.Struct | None = None
    """Line for programs, of :mod:`pgdb.frontend.show.json.json_shapes`."""
    failed: bool = False
    """Whether the command counts as failed although every rank has answered."""
    is_late: bool = False
    """Whether the time of the command was over before its end, although every rank has answered."""
