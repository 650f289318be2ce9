"""The events of a report: signals, ends, output and the time line."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from pgdb.frontend.api.chronicle import Chronicle
from pgdb.frontend.api.notifications import (
    BarrierNews,
    JobEnded,
    Notification,
    RankEvents,
    RanksBack,
    RanksLost,
    SessionNotice,
    WorldJoined,
)
from pgdb.frontend.api.session import Session
from pgdb.frontend.report.model import OutputTail, ReportStop, TimedEvent, parse_ranks
from pgdb.frontend.show.text.event_text import event
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import DIFFERENT
from pgdb.ranks import RankSet
from pgdb.records import Event, Exit, Frame, Stop, is_error

_FROM_OUTSIDE = frozenset({"SIGTERM", "SIGKILL", "SIGINT", "SIGHUP", "SIGQUIT"})
"""Signals by which launchers and batch systems end ranks."""


def stops_of(session: Session) -> tuple[ReportStop, ...]:
    """Return the last event of each rank that has stopped or ended, the first failures first.

    Ranks that stopped or ended alike are together, although they did so at different moments, or
    with different values of arguments.
    """
    latest = session.state.latest(session.state.stopped | session.state.exited)
    groups: dict[Event, list[EquivalenceClass[Event]]] = {}
    for each in latest:
        record = each.record
        alone = replace(record, run=0) if isinstance(record, Stop | Exit) else record
        groups.setdefault(alone, []).append(each)
    found = [stop_of(_together(group), session.killed) for group in groups.values()]
    if not any(each.is_first for each in found):
        found = _with_first_end(found, session.chronicle)
    return tuple(sorted(found, key=lambda each: (not each.is_first, not each.is_error)))


def _with_first_end(stops: Sequence[ReportStop], chronicle: Chronicle) -> list[ReportStop]:
    """Return the stops with the bad end marked that began a failure, if there is one.

    It is the first one that a launcher did not make, as it ends the others by a signal. If all have
    ended by such a signal, the ranks that ended before the others stand alone.
    """
    bad = [each for each in stops if each.is_error and each.has_ended]
    if not bad:
        return list(stops)
    times = _times_of_ends(chronicle)

    def order(stop: ReportStop) -> tuple[bool, float, int]:
        ranks = parse_ranks(stop.ranks)
        time_s = min(times.get(rank, math.inf) for rank in ranks)
        return stop.signal in _FROM_OUTSIDE, time_s, len(ranks)

    first = min(bad, key=order)
    is_from_outside, time_s, _ = order(first)
    ranks = parse_ranks(first.ranks)
    earliest = ranks
    if is_from_outside:
        earliest = RankSet(rank for rank in ranks if times.get(rank, math.inf) <= time_s)
    found = [replace(first, ranks=str(earliest), is_first=True)]
    if others := ranks - earliest:
        found.append(replace(first, ranks=str(others)))
    return [*found, *(each for each in stops if each is not first)]


def _times_of_ends(chronicle: Chronicle) -> dict[int, float]:
    """Return the times of the ends of ranks."""
    times: dict[int, float] = {}
    for each in chronicle.events:
        if isinstance(each.notification, RankEvents):
            for part in each.notification.classes:
                if isinstance(part.record, Exit):
                    times |= dict.fromkeys(part.ranks, each.time_s)
    return times


def last_frame(chronicle: Chronicle, ranks: RankSet, signal: str) -> Frame | None:
    """Return the frame in which some of *ranks* stopped at *signal*, the last time; None if none
    did."""
    for each in reversed(chronicle.events):
        if isinstance(each.notification, RankEvents):
            for part in each.notification.classes:
                record = part.filled
                if isinstance(record, Stop) and record.signal == signal and part.ranks & ranks:
                    return record.frame
    return None


def _together(group: list[EquivalenceClass[Event]]) -> EquivalenceClass[Event]:
    """Return classes of one template as one class, with ``…`` for values that differ."""
    slots = tuple(
        values[0] if len(set(values)) == 1 else DIFFERENT
        for values in zip(*(each.slots for each in group), strict=True)
    )
    ranks = RankSet.union(each.ranks for each in group)
    return EquivalenceClass(ranks=ranks, record=group[0].record, slots=slots)


def stop_of(each: EquivalenceClass[Event], killed: RankSet = RankSet()) -> ReportStop:
    """Return the last event of some ranks as part of a report."""
    record = each.filled
    base = ReportStop(ranks=str(each.ranks), text=event(record))
    if isinstance(record, Exit):
        is_bad = (bool(record.signal) or bool(record.code)) and not each.ranks <= killed
        return replace(
            base,
            signal=record.signal,
            code=record.code,
            is_error=is_bad,
            has_ended=True,
        )
    if isinstance(record, Stop):
        is_bad = is_error(record)
        return replace(
            base,
            reason=record.reason,
            signal=record.signal,
            meaning=record.meaning,
            dying=record.dying,
            is_error=is_bad,
            is_first=is_bad and not record.after,
        )
    return base


def output_of(chronicle: Chronicle) -> tuple[OutputTail, ...]:
    """Return the end of the job's output."""
    return tuple(
        OutputTail(
            stream=stream,
            text=tail.data.decode("utf-8", "replace"),
            dropped_bytes=tail.dropped_bytes,
        )
        for stream, tail in chronicle.output.items()
        if tail.data
    )


def timeline_of(chronicle: Chronicle) -> tuple[TimedEvent, ...]:
    """Return the events of a session in the order of their times."""
    found = [TimedEvent(time=chronicle.begun_s, kind="action", text="PGDB began to start")]
    if chronicle.dropped:
        found.append(
            TimedEvent(
                time=chronicle.begun_s,
                kind="notice",
                text=f"{chronicle.dropped} earlier events are left out",
            )
        )
    for each in chronicle.events:
        found += _timed(each.time_s, each.notification)
    return tuple(found)


def _timed(time_s: float, notification: Notification) -> list[TimedEvent]:
    match notification:
        case RankEvents(classes=classes):
            found = []
            for each in classes:
                record = each.filled
                if not isinstance(record, Stop | Exit):
                    continue
                is_bad = stop_of(each).is_error
                kind = "stop" if isinstance(record, Stop) else "exit"
                found.append(
                    TimedEvent(
                        time=time_s,
                        kind=kind,
                        text=event(record),
                        ranks=str(each.ranks),
                        is_error=is_bad,
                    )
                )
            return found
        case RanksLost(ranks=ranks, text=text):
            return [
                TimedEvent(time=time_s, kind="lost", text=text, ranks=str(ranks), is_error=True)
            ]
        case RanksBack(ranks=ranks, text=text):
            return [TimedEvent(time=time_s, kind="joined", text=text or "back", ranks=str(ranks))]
        case WorldJoined(world=world):
            text = f"world {world.number} of MPI_Comm_spawn has joined"
            return [TimedEvent(time=time_s, kind="joined", text=text, ranks=str(world.ranks))]
        case SessionNotice(text=text):
            return [TimedEvent(time=time_s, kind="notice", text=text)]
        case BarrierNews() as news:
            text = f"barrier {news.barrier.number}: {news.event}"
            return [TimedEvent(time=time_s, kind="notice", text=text, ranks=str(news.ranks))]
        case JobEnded(code=code):
            how = f"exited with status {code}" if code >= 0 else f"ended by signal {-code}"
            return [
                TimedEvent(
                    time=time_s, kind="exit", text=f"the launcher {how}", is_error=bool(code)
                )
            ]
        case _:
            return []
