"""The presented result of a command, for people and for programs."""

from __future__ import annotations

import msgspec

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.still_running import counted
from pgdb.ranks import RankSet


class Waiting(msgspec.Struct, frozen=True):
    """The progress of a command that waits for stops."""

    command: str
    ranks: RankSet
    """The ranks that the command is for, without those that have ended."""
    running: RankSet
    """The ranks among them that still run."""
    elapsed_s: float


class Unanswered(msgspec.Struct, frozen=True):
    """The progress of a command that waits for answers."""

    ranks: RankSet
    """The ranks that have been asked."""
    elapsed_s: float


def progress_text(progress: Waiting | Unanswered) -> str:
    """Return the progress of a wait.

    It is ``3 of 32 still running: [4-6], for 12 s``, or ``no answer from [0-3] yet, for 12 s``.
    """
    if isinstance(progress, Unanswered):
        return f"no answer from [{progress.ranks}] yet, for {progress.elapsed_s:.0f} s"
    count = counted(progress.running, progress.ranks)
    return f"{count}: [{progress.running}], for {progress.elapsed_s:.0f} s"


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
