"""Completion of a command line by the GDB of one rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pgdb.errors import PgdbError
from pgdb.overlay.messages import Console
from pgdb.ranks import RankSet
from pgdb.records import Text

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

_CUT = "*** List may be truncated"
"""The end of GDB's last line, where there are more candidates than ``set max-completions``."""


class Completed(msgspec.Struct, frozen=True):
    """The candidates of a line, each a whole line."""

    lines: tuple[str, ...] = ()
    is_cut: bool = False
    """Whether GDB has more of them."""


async def complete_line(
    session: Session, line: str, ranks: RankSet, *, timeout_s: float
) -> Completed:
    """Ask the GDB of one of *ranks* how *line* can go on.

    It is a rank that is stopped, that no other command asks, and that has answered before. If none
    of *ranks* lives, it is one that has ended: its GDB has the program's file. Without a rank,
    or without an answer in time, there is no candidate.
    """
    traffic, state = session.traffic, session.state
    of_ended = not ranks & state.live
    able = state.exited if of_ended else state.stopped
    ready = ranks & able - session.asked - traffic.silent
    if not ready or session.is_recorded or session.has_ended or not line.isprintable():
        return Completed()
    one = RankSet([ready.first])
    try:
        gathered = await traffic.ask_quietly(
            Console(command=f"complete {line}"), one, timeout_s=timeout_s, of_ended=of_ended
        )
    except PgdbError:
        return Completed()
    texts = [each.record.text for each in gathered.classes if isinstance(each.record, Text)]
    return completed_of("\n".join(texts))


def completed_of(text: str) -> Completed:
    """Read the output of GDB's ``complete``.

    >>> completed_of("break main\\nbreak mark\\n").lines
    ('break main', 'break mark')
    """
    lines = text.split("\n")
    kept = [each for each in lines if each and _CUT not in each]
    return Completed(tuple(dict.fromkeys(kept)), any(_CUT in each for each in lines))
