"""Source lines with the places of ranks and breakpoints, in C and in Python."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pgdb.errors import NotRecordedError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.line_marks import Listing, listed_files, marks, marks_of_frames
from pgdb.frontend.system import deadline
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Record, Stack, Text

Classes = tuple[EquivalenceClass[Record], ...]

if TYPE_CHECKING:
    from pgdb.frontend.api.rank_view import RankView
    from pgdb.frontend.api.session import Session


async def list_source(
    view: RankView, session: Session, line: str, *, timeout_s: float | None = None
) -> Answer:
    """List source lines, and find the marks in their files."""
    with deadline.within(timeout_s):
        answer = await view.execute_plain(line)
        around = await _around(session, answer, lambda some: some.execute_plain("info source"))
    if around is None:
        return answer
    source, breakpoints = around
    stops = session.state.latest(session.state.stopped)
    found = Listing(listed_files(source.classes), marks(stops, breakpoints))
    return replace(answer, listing=found)


async def list_python(
    view: RankView, session: Session, lines: str, *, timeout_s: float | None = None
) -> Answer:
    """List source lines of Python, and find the marks of the selected Python frames."""
    with deadline.within(timeout_s):
        answer = await view.machine_query("python source", [lines])
        around = await _around(session, answer, lambda some: some.machine_query("python frame"))
    if around is None:
        return answer
    selected, breakpoints = around
    frames = [
        (each.ranks, each.filled.frames[0])
        for each in selected.classes
        if isinstance(each.filled, Stack) and each.filled.frames
    ]
    files = tuple((ranks, frame.fullname) for ranks, frame in frames)
    return replace(answer, listing=Listing(files, marks_of_frames(frames, breakpoints)))


async def _around(
    session: Session, answer: Answer, ask: Callable[[RankView], Awaitable[Answer]]
) -> tuple[Answer, Classes] | None:
    """Ask the ranks that have listed lines where these are, and for their breakpoints.

    Return None if no rank has listed lines, or a recording does not know.
    """
    listed = RankSet.union(each.ranks for each in answer if isinstance(each.record, Text))
    if not listed:
        return None
    some = session.ranks(listed)
    try:
        places = await ask(some)
        has_some = session.has_breakpoints(listed)
        return places, (await some.breakpoints()).classes if has_some else ()
    except NotRecordedError:
        return None
