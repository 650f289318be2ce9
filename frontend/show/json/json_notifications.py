"""The lines of notifications: events of ranks, late answers, output, losses."""

from __future__ import annotations

import signal
from collections.abc import Iterable

from msgspec.structs import replace

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.notifications import (
    BarrierNews,
    JobEnded,
    JobOutput,
    LateAnswer,
    Notification,
    RankEvents,
    RanksBack,
    RanksLost,
    SessionNotice,
    Starting,
    WorldJoined,
)
from pgdb.frontend.show.json import json_meeting
from pgdb.frontend.show.json.json_classes import (
    ClassText,
    answer_classes,
    events_of,
    exit_class,
    stop_class,
)
from pgdb.frontend.show.json.json_lines import breakpoints, world_ranks
from pgdb.frontend.show.json.json_parts import LauncherEnd
from pgdb.frontend.show.json.json_shapes import (
    ExitLine,
    LateLine,
    Line,
    LostLine,
    OutputLine,
    ProgressLine,
    RunningLine,
    StopLine,
    WorldsLine,
)
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import BreakpointsChanged, Event, Exit, Gone, Output, Progress, Running, Stop


def notification(news: Notification, text: ClassText, now_s: float) -> list[Line]:
    """Return the lines of a notification; *text* returns the text of a class for people."""
    match news:
        case RankEvents(classes=classes):
            return _events(classes, text, now_s)
        case LateAnswer(answer=answer):
            return _late(answer, text, now_s)
        case RanksLost(ranks=ranks, text=why):
            return [LostLine(time=now_s, ranks=str(ranks), why=why)]
        case Starting():
            return []
        case RanksBack(ranks=ranks):
            return [ProgressLine(time=now_s, stage="joined", ranks=str(ranks))]
        case WorldJoined(world=world):
            return [WorldsLine(time=now_s, worlds=(world_ranks(world),))]
        case BarrierNews(barrier=barrier, event=event, going=going):
            return [replace(json_meeting.barrier(barrier, event, going), time=now_s)]
        case SessionNotice(text=said):
            return [OutputLine(time=now_s, stream="pgdb", text=f"{said}\n")]
        case JobOutput(text=printed, stream=stream, data=data):
            is_exact = printed.encode("utf-8", "surrogatepass") == data
            return [
                OutputLine(time=now_s, stream=stream, text=printed, data=b"" if is_exact else data)
            ]
        case JobEnded(code=code):
            return [ExitLine(time=now_s, launcher=_launcher_end(code))]


def _late(answer: Answer | None, text: ClassText, now_s: float) -> list[Line]:
    if answer is None:
        return []
    late = LateLine(
        time=now_s,
        command=answer.command,
        request=answer.request_id,
        ranks=str(answer.ranks),
        classes=answer_classes(answer, text),
    )
    return [late, *breakpoints(answer, now_s)]


def _events(
    classes: Iterable[EquivalenceClass[Event]], text: ClassText, now_s: float
) -> list[Line]:
    """Return the lines of events in order; events of one kind and run share a line."""
    groups: dict[tuple[type, object], list[EquivalenceClass[Event]]] = {}
    for each in classes:
        event = each.record
        # Stops of one run share a line; every other event has its own line.
        key = event.run if isinstance(event, Stop | Exit | Running) else (event, each.slots)
        groups.setdefault((type(event), key), []).append(each)
    return [_event_line(group, text, now_s) for group in groups.values()]


def _event_line(group: list[EquivalenceClass[Event]], text: ClassText, now_s: float) -> Line:
    ranks = str(RankSet.union(each.ranks for each in group))
    match group[0].filled:
        case Stop(run=run):
            stops = tuple(stop_class(each, text) for each in events_of(Stop, group))
            return StopLine(time=now_s, request=run, classes=stops)
        case Exit(run=run):
            exits = tuple(exit_class(each, text) for each in events_of(Exit, group))
            return ExitLine(time=now_s, request=run, classes=exits)
        case Running(run=run):
            return RunningLine(time=now_s, request=run, ranks=ranks)
        case Output(text=printed):
            return OutputLine(time=now_s, stream="gdb", text=printed, ranks=ranks)
        case Progress(stage=stage):
            return ProgressLine(time=now_s, stage=stage, ranks=ranks)
        case Gone(why=why):
            return LostLine(time=now_s, ranks=ranks, why=why)
        case BreakpointsChanged():
            raise AssertionError("the session keeps these events to itself")


def _launcher_end(code: int) -> LauncherEnd:
    if code >= 0:
        return LauncherEnd(code=code)
    try:
        return LauncherEnd(signal=signal.Signals(-code).name)
    except ValueError:  # a real-time signal between SIGRTMIN and SIGRTMAX
        return LauncherEnd(signal=f"signal {-code}")
