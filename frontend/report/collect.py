"""A report of a session: what its ranks answer now, and what the session has seen before."""

from __future__ import annotations

import platform
import time
from collections.abc import Awaitable, Sequence
from typing import Protocol

from msgspec.structs import replace

from pgdb.errors import PgdbError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.calltree import CallTree, label
from pgdb.frontend.analysis.calltree_text import lines_text
from pgdb.frontend.analysis.outliers import is_smallest
from pgdb.frontend.analysis.why.parties import Elsewhere
from pgdb.frontend.api.chronicle import Chronicle
from pgdb.frontend.api.session import Session
from pgdb.frontend.report.cause import cause_of, place_text, user_frame
from pgdb.frontend.report.environment import cleaned, public_line, secrets_of
from pgdb.frontend.report.events import last_frame, output_of, stops_of, timeline_of
from pgdb.frontend.report.explanation import explain
from pgdb.frontend.report.job_environment import rank_environment
from pgdb.frontend.report.model import (
    Argument,
    Cause,
    HostRanks,
    Job,
    RankClass,
    RankStates,
    RankValue,
    Report,
    ReportFrame,
    ReportNode,
    ReportStop,
    ReportThreads,
    SourceLines,
    Versions,
    parse_ranks,
)
from pgdb.frontend.report.variables import compared, first_differing
from pgdb.frontend.show.source_lines import source_line
from pgdb.frontend.show.text.thread_stacks import stacks_of
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import DIFFERENT
from pgdb.ranks import RankSet
from pgdb.records import (
    PLACEHOLDER,
    SLOT,
    Failure,
    Frame,
    Record,
    Stack,
    Variables,
    Various,
)
from pgdb.version import __version__

SOURCE_LINES = 6
"""Number of source lines before and behind the marked one."""
MOST_COMPARED_CLASSES = 64
"""Most classes of ranks whose source and variables are shown."""


class ReadLine(Protocol):
    """A function that returns a line of a source file, or None if the file cannot be read."""

    def __call__(self, path: str, line: int, /) -> str | None:
        """Return line *line* (from 1) of the file *path*."""


async def collect(
    session: Session,
    *,
    ranks: RankSet | None = None,
    title: str = "",
    mode: str = "",
    watches: bool = False,
    elsewhere: Sequence[Elsewhere] = (),
    read_source: ReadLine = source_line,
    clock: float | None = None,
) -> Report:
    """Return a report of a session, with the stacks of *ranks*, or of all.

    Ranks that run are asked nothing that would stop them. With *watches*, ranks that wait run for a
    moment, so that the verdict can be certain. *elsewhere* are ranks that ended before the session.
    A question that fails becomes a note of the report.
    """
    asking = _Asking(session)
    state = session.state
    classes: tuple[RankClass, ...] = ()
    tree: tuple[ReportNode, ...] = ()
    threads: tuple[ReportThreads, ...] = ()
    verdicts, waits, notes = await explain(session, watches=watches, elsewhere=elsewhere)
    for each in notes:
        asking.note(f"why: {each}")
    stops = stops_of(session)
    if asked := state.stopped & (session.set if ranks is None else ranks):
        stacks = await asking.answer("stacks", session.ranks(asked).backtrace())
        if stacks is not None:
            merged = CallTree.from_classes(stacks.classes)
            tree = _nodes(merged)
            classes = await _classes(asking, stacks, stops, read_source)
        everything = await asking.answer("threads", session.ranks(asked).backtrace(threads=True))
        threads = _threads(everything) if everything is not None else ()
    environment, variables = await rank_environment(session)
    report = Report(
        time=time.time() if clock is None else clock,
        title=title or _title(session),
        cause=_with_last_place(
            cause_of(stops, classes, verdicts, lost=state.lost, everyone=session.set),
            stops,
            session.chronicle,
        ),
        ranks=str(session.set),
        job=Job(
            line=public_line(session.argv),
            description=session.description,
            mode=mode or ("replay" if session.is_recorded else session.mode),
            mpi=session.mpi_version,
            begun=session.chronicle.begun_s,
            exit_code=session.job.process.returncode if session.job is not None else None,
        ),
        versions=versions(session.gdb_version),
        hosts=_hosts(session),
        states=RankStates(
            stopped=str(state.stopped),
            running=str(state.running),
            exited=str(state.exited),
            lost=str(state.lost),
            detached=str(state.detached),
        ),
        verdicts=verdicts,
        waits=waits,
        classes=classes,
        tree=tree,
        stops=stops,
        threads=threads,
        output=output_of(session.chronicle),
        environment=environment,
        timeline=timeline_of(session.chronicle),
        notes=tuple(asking.notes),
    )
    return cleaned(report, secrets_of(variables))


def _with_last_place(cause: Cause, stops: Sequence[ReportStop], chronicle: Chronicle) -> Cause:
    """Return *cause* with the place at which its ranks stopped at the signal that has ended them.

    A signal that a program can handle stops it, and it runs on; without a handler it ends then.
    """
    ended = (each for each in stops if each.ranks == cause.who and each.has_ended and each.signal)
    end = None if cause.where else next(ended, None)
    if end is None:
        return cause
    frame = last_frame(chronicle, parse_ranks(cause.who), end.signal)
    if frame is None:
        return cause
    file = frame.fullname or frame.file
    where = place_text(report_frame(frame))
    return replace(cause, where=where, file=_plain(file), line=frame.line)


def versions(gdb: str = "") -> Versions:
    """Return the versions of the programs on this host, and of the job's GDB."""
    return Versions(
        pgdb=__version__,
        python=platform.python_version(),
        gdb=gdb,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
    )


class _Asking:
    """Questions to the ranks, and notes of those that failed."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.notes: list[str] = []

    async def answer(self, what: str, question: Awaitable[Answer]) -> Answer | None:
        """Return the answer to a question, or None if it fails as a whole."""
        try:
            answer = await question
        except PgdbError as error:
            self.note(f"{what}: {error}")
            return None
        for each in answer.errors:
            record = each.filled
            if isinstance(record, Various):
                record = record.template
            if isinstance(record, Failure):
                self.note(f"{what}: ranks [{each.ranks}]: {_plain(record.message)}")
        if ranks := answer.missing.ranks:
            reasons = (
                (answer.missing.late, "have not answered in time"),
                (answer.missing.lost, "are lost"),
                (answer.missing.running, "run"),
                (ranks - answer.missing.late - answer.missing.lost - answer.missing.running, ""),
            )
            for part, why in reasons:
                if part and why:
                    self.note(f"{what}: ranks [{part}] {why}")
        return answer

    def note(self, text: str) -> None:
        """Add a note, unless it is there."""
        if text not in self.notes:
            self.notes.append(text)


def _title(session: Session) -> str:
    words = " ".join(public_line(session.argv)) or session.description
    return words or f"{len(session.set)} ranks"


# -- classes of ranks ----------------------------------------------------------------------------


async def _classes(
    asking: _Asking, stacks: Answer, stops: Sequence[ReportStop], read_source: ReadLine
) -> tuple[RankClass, ...]:
    failed = RankSet.union(parse_ranks(each.ranks) for each in stops if each.is_error)
    ordered = sorted(
        stacks.classes,
        key=lambda each: (each.ranks.isdisjoint(failed), len(each.ranks), each.ranks.first),
    )
    for each in ordered:
        if isinstance(each.record, Stack) and each.record.note:
            asking.note(each.record.note)
    sizes = [len(each.ranks) for each in ordered]
    made = [
        _rank_class(number, each, is_odd=is_smallest(len(each.ranks), sizes))
        for number, each in enumerate(ordered, 1)
    ]
    session = asking.session
    shown = RankSet.union(parse_ranks(each.ranks) for each in made[:MOST_COMPARED_CLASSES])
    if len(made) > MOST_COMPARED_CLASSES:
        left = len(made) - MOST_COMPARED_CLASSES
        asking.note(f"variables of {left} more classes of ranks are left out")
    shown_classes = made[:MOST_COMPARED_CLASSES]
    selected = await asking.answer("selected frame", session.ranks(shown).select_frame("frame"))
    moved = await _select_users_frames(asking, shown_classes, selected)
    at = {number: index for ranks, _, (number, index) in moved}
    places = {
        each.number: at.get(each.number, _selected_at(each, selected)) for each in shown_classes
    }
    # The function of CPython that runs a frame of Python has variables that say nothing.
    of_python = RankSet.union(
        parse_ranks(each.ranks) for each in shown_classes if _is_python(each, places[each.number])
    )
    of_c, python = session.ranks(shown - of_python), session.ranks(of_python)
    found = [
        (is_argument, await asking.answer(what, question()))
        for is_argument, what, ranks, question in (
            (True, "arguments", of_c.set, of_c.arguments),
            (False, "local variables", of_c.set, of_c.locals),
            (False, "variables of Python", of_python, python.python_locals),
        )
        if ranks
    ]
    for ranks, level, _ in moved:
        await asking.answer("selected frame", session.ranks(ranks).select_frame(f"frame {level}"))
    return tuple(
        _with_details(each, places[each.number], found, read_source)
        if number <= MOST_COMPARED_CLASSES
        else each
        for number, each in enumerate(made, 1)
    )


def _is_python(each: RankClass, at: int | None) -> bool:
    return at is not None and each.frames[at].language == "python"


async def _select_users_frames(
    asking: _Asking, classes: Sequence[RankClass], selected: Answer | None
) -> list[tuple[RankSet, int, tuple[int, int]]]:
    """Select the innermost frame with a line where ranks have stopped in a library without lines.

    Return the ranks, the level that they had selected before, and the number of the class with the
    index of the frame.
    """
    moved = []
    for each in classes:
        at, wanted = _selected_at(each, selected, or_users=False), user_frame(each.frames)
        if at is None or wanted is None or each.frames[at].line:
            continue
        if each.hidden and not (each.hidden.isdecimal() and len(each.hidden) < 10):
            continue  # ranks of the class have different levels
        hidden = int(each.hidden or 0)
        ranks = parse_ranks(each.ranks)
        view = asking.session.ranks(ranks)
        line = f"frame {hidden + wanted}"
        if await asking.answer("selected frame", view.select_frame(line)) is not None:
            moved.append((ranks, hidden + at, (each.number, wanted)))
    return moved


def _rank_class(number: int, each: EquivalenceClass[Record], *, is_odd: bool) -> RankClass:
    record: Record = each.filled
    if isinstance(record, Various):
        record = record.template
    base = RankClass(number=number, ranks=str(each.ranks), count=len(each.ranks), is_odd=is_odd)
    if isinstance(record, Stack) and record.frames:
        return replace(
            base,
            frames=tuple(map(report_frame, record.frames)),
            hidden=_plain(record.hidden),
            more=record.more,
        )
    message = record.message if isinstance(record, Failure) else "no stack"
    return replace(base, error=_plain(message))


def report_frame(frame: Frame) -> ReportFrame:
    """Return a frame of an answer as part of a report."""
    return ReportFrame(
        function=_plain(frame.function),
        arguments=tuple(
            Argument(name=each.name, value=_plain(each.value)) for each in frame.arguments
        ),
        file=_plain(frame.file),
        fullname=_plain(frame.fullname),
        line=frame.line,
        library=_plain(frame.library),
        language=getattr(frame, "language", ""),
        dying=frame.dying,
    )


def _with_details(
    each: RankClass,
    at: int | None,
    found: Sequence[tuple[bool, Answer | None]],
    read_source: ReadLine,
) -> RankClass:
    """Return a class with the source around its frame *at*, and the variables there."""
    ranks = parse_ranks(each.ranks)
    variables = []
    reasons = []
    for is_argument, answer in found:
        if answer is None:
            continue
        parts = [other.part(ranks) for other in answer.classes if not other.ranks.isdisjoint(ranks)]
        variables += compared(parts, is_argument=is_argument)
        reasons += [
            record.empty or "No locals."
            for part in parts
            if isinstance(record := part.record, Variables) and not record.items
        ]
    return replace(
        each,
        source=_source(each, at, read_source) if at is not None else None,
        variables=first_differing(variables),
        no_variables="" if variables or not reasons else reasons[-1],
    )


def _selected_at(each: RankClass, selected: Answer | None, *, or_users: bool = True) -> int | None:
    """Return the index of the frame that is selected on most ranks of a class.

    If it is not known, return that of the innermost frame with a line, unless *or_users* is off.
    """
    counts: dict[int, int] = {}
    ranks = parse_ranks(each.ranks)
    for other in selected.classes if selected is not None else ():
        record: Record = other.filled
        count = len(other.ranks & ranks)
        if not count or not isinstance(record, Stack) or not record.frames:
            continue
        wanted = record.frames[0]
        for at, frame in enumerate(each.frames):
            place = (_plain(wanted.function), _plain(wanted.file), wanted.line)
            if (frame.function, frame.file, frame.line) == place:
                counts[at] = counts.get(at, 0) + count
                break
    if counts:
        return max(counts, key=lambda at: counts[at])
    return user_frame(each.frames) if or_users else None


def _source(each: RankClass, at: int, read_source: ReadLine) -> SourceLines | None:
    frame = each.frames[at]
    path = frame.fullname or frame.file
    if not frame.line or read_source(path, frame.line) is None:
        return None
    first = max(1, frame.line - SOURCE_LINES)
    lines = [read_source(path, line) or "" for line in range(first, frame.line + SOURCE_LINES + 1)]
    while lines and not lines[-1] and first + len(lines) - 1 > frame.line:
        lines.pop()
    return SourceLines(file=path, first=first, marked=frame.line, lines=tuple(lines), frame=at)


# -- stacks of all -------------------------------------------------------------------------------


def _nodes(tree: CallTree) -> tuple[ReportNode, ...]:
    odd = tree.odd
    return tuple(
        ReportNode(
            number=each.number,
            parent=each.parent,
            ranks=str(each.ranks),
            count=len(each.ranks),
            frames=tuple(map(label, each.frames)),
            lines=(lines_text(each.sources),) if each.sources else (),
            is_leaf=each.is_leaf,
            is_odd=odd is not None and odd.number == each.number,
        )
        for each in tree.nodes
    )


def _threads(answer: Answer) -> tuple[ReportThreads, ...]:
    """Return the stacks of all threads; nothing if each rank has one thread."""
    groups = stacks_of(answer)
    ranks = RankSet.union(each.ranks for each in groups)
    if sum(each.thread_count for each in groups) <= len(ranks):
        return ()
    return tuple(
        ReportThreads(
            ranks=str(each.ranks),
            threads=each.thread_count,
            counts=tuple(
                RankValue(ranks=str(some), text=str(count)) for count, some in each.counts
            ),
            frames=tuple(map(report_frame, each.stack.frames)),
        )
        for each in groups
    )


# -- the job -------------------------------------------------------------------------------------


def _hosts(session: Session) -> tuple[HostRanks, ...]:
    members: dict[str, list[tuple[int, int]]] = {}
    for process in session.table.processes:
        members.setdefault(process.host, []).append((process.rank, process.pid))
    return tuple(
        HostRanks(
            host=host,
            ranks=str(RankSet(rank for rank, _ in some)),
            pids=tuple(pid for _, pid in sorted(some)),
        )
        for host, some in members.items()
    )


def _plain(text: str) -> str:
    """Return a text with ``…`` for the marks of parts that differ."""
    return text.replace(PLACEHOLDER, DIFFERENT).replace(SLOT, DIFFERENT)
