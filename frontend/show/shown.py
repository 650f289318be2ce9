"""The presented result of a command, for people and for programs."""

from __future__ import annotations

import msgspec

from pgdb.frontend.analysis.answers import Answer
from pgdb.ranks import RankSet


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
