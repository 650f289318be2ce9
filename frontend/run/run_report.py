"""The report of a run: what the watchers and the output have shown, and looks at the ranks."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from pgdb.frontend.report.cause import own_frame, user_frame, with_place
from pgdb.frontend.report.collect import versions
from pgdb.frontend.report.environment import cleaned, environment_of, public_line, secrets_of
from pgdb.frontend.report.model import (
    Cause,
    HostRanks,
    Job,
    OutputTail,
    RankClass,
    RankStates,
    Report,
    ReportFrame,
    ReportStop,
    TimedEvent,
    parse_ranks,
)
from pgdb.frontend.run.batch_words import end_in_words
from pgdb.frontend.run.causes import (
    Found,
    RankEnd,
    first_failure,
    said_before,
    signal_name,
    words_before_abort,
    words_before_signal,
)
from pgdb.frontend.run.rank_reports import RankStart, RankTail
from pgdb.jobs.output_relay import Ring
from pgdb.ranks import RankSet

MOST_TAIL_BYTES = 1 << 16
MIXED_OUTPUT = "the output of each rank: the launcher has mixed it; --output-by-rank keeps it apart"
_REASON = "cause: "
"""Beginning of the line behind a signal that has the reason for it."""
_SENT = f"{_REASON}sent by "
"""Beginning of such a line that says no more than that the fault is unknown."""
_ABORTED = signal_name(signal.SIGABRT)
_NO_FAILURES = ("hang", "time-limit", "request", "ended")
"""Kinds of causes with which ranks may live until the job is ended."""


class RunRecord:
    """The events of a run so far."""

    def __init__(self, line: Sequence[str]) -> None:
        self.line = tuple(line)
        self.begun = time.time()
        self.timeline: list[TimedEvent] = []
        self.notes: list[str] = []
        self.mpi = ""
        self.look: Report | None = None
        """The last report of a session that looked at the ranks."""
        self.cores: Report | None = None
        """The report of core files that ranks have left."""
        self.last_words = ""
        """The words by which the job said why it ended, as the first rank failed."""
        self.ended_by = ""
        """The reason why ranks die of a signal from now on, once that is PGDB."""
        self.killed: set[int] = set()
        """The ranks that have died for that reason."""
        self.add("action", "the job was started")

    def add(self, kind: str, text: str, ranks: str = "", *, is_error: bool = False) -> None:
        """Add an event to the time line."""
        self.timeline.append(
            TimedEvent(time=time.time(), kind=kind, text=text, ranks=ranks, is_error=is_error)
        )

    def note(self, text: str) -> None:
        """Add a fact that could not be found out, unless it is there."""
        if text not in self.notes:
            self.notes.append(text)


def report_of(
    record: RunRecord,
    cause: Cause,
    *,
    starts: Iterable[RankStart],
    ends: Iterable[RankEnd],
    rings: Sequence[tuple[str, Ring]],
    status: int | None,
    tails: Mapping[tuple[str, int], Mapping[str, RankTail]] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Report:
    """Return the report of a run: the last look, with what only the run knows."""
    begun = {each.rank: each for each in starts if not each.world}
    ended = [each for each in ends if not each.world]
    ranks = RankSet(begun.keys() | {each.rank for each in ended})
    gone = RankSet(each.rank for each in ended)
    base = record.look or Report(
        time=time.time(), title=" ".join(public_line(record.line)), cause=cause, ranks=str(ranks)
    )
    stops = stops_of(
        ended,
        has_failed=cause.kind not in (*_NO_FAILURES, "none"),
        guilty=parse_ranks(cause.who),
        killed=record.killed,
        ended_by=record.ended_by,
    )
    seen = [each for each in base.stops if parse_ranks(each.ranks).isdisjoint(gone)]
    dead = () if record.cores is None else record.cores.classes
    classes = tuple(
        replace(each, number=number)
        for number, each in enumerate((*dead, *_without(base.classes, dead)), 1)
    )
    notes = []
    if len(ranks) > 1 and not tails and any(ring.total for _, ring in rings):
        notes.append(MIXED_OUTPUT)
    if status is not None and begun and (unknown := ranks - gone):
        notes.append(
            f"the ends of ranks [{unknown}]: their launcher has ended without a report of them"
        )
    everyone = ranks | base.rank_set
    whole = replace(
        base,
        classes=classes,
        time=time.time(),
        title=" ".join(public_line(record.line)),
        cause=_placed(_in_core(_explained(cause, record.cores), dead), base.classes, everyone),
        ranks=str(everyone),
        job=Job(
            line=public_line(record.line),
            description=base.job.description,
            mode="run",
            mpi=record.mpi,
            begun=record.begun,
            exit_code=status,
        ),
        versions=base.versions if base.versions.pgdb else versions(),
        hosts=base.hosts if len(base.hosts) > 1 and not begun else hosts_of(begun.values()),
        states=RankStates(running=str(ranks - gone) if status is None else "", exited=str(gone)),
        stops=(*_with_reasons(stops, record.cores), *seen),
        output=(*tails_of(rings), *rank_tails(tails or {}, _failed(stops))),
        environment=base.environment or environment_of(environment, "pgdb run, on this host"),
        timeline=tuple(record.timeline),
        notes=(*base.notes, *record.notes, *notes),
    )
    return cleaned(whole, secrets_of(environment))


def stops_of(
    ends: Sequence[RankEnd],
    *,
    has_failed: bool,
    guilty: RankSet = RankSet(),
    killed: Collection[int] = (),
    ended_by: str = "",
) -> tuple[ReportStop, ...]:
    """Return the ends of ranks, those alike together; the first failure first.

    *guilty* are the ranks of the cause. One of them began the failure if the launcher has killed
    all ranks that ended badly: a rank that leaves without MPI_Finalize ends with status 0.
    Unless the job *has_failed*, a signal from outside is how it was ended. Behind the first
    failure, such a signal is how the launcher ends the others, and no failure of theirs.

    The ranks *killed* have died because PGDB has ended the job, as *ended_by* says.
    """
    first = first_failure([each for each in ends if each.rank not in killed])
    if first is not None and first.is_from_outside and not has_failed:
        first = None
    if first is not None and first.is_from_outside and first.rank not in guilty:
        first = next((each for each in ends if each.rank in guilty and not each.world), first)
    if first is None and has_failed and len(guilty) == 1:
        first = next((each for each in ends if each.rank in guilty and not each.world), None)
    of_cause = [each.status for each in ends if each.rank in guilty and not each.world]
    if first is not None and first.is_from_outside and of_cause[1:] and len({*of_cause}) == 1:
        first = None  # the launcher has ended them together
    groups: dict[tuple[int, bool, bool], list[RankEnd]] = {}
    for each in ends:
        groups.setdefault((each.status, each is first, each.rank in killed), []).append(each)
    found = []
    for (_, is_first, is_killed), members in groups.items():
        one = members[0]
        words = one.in_words + (", core dumped" if one.has_core else "")
        words += f": {ended_by}" if is_killed else ""
        name, _, meaning = signal_name(one.signal).partition(", ") if one.signal else ("", "", "")
        found.append(
            ReportStop(
                ranks=str(RankSet(each.rank for each in members)),
                text=words,
                signal=name,
                meaning=meaning,
                code=None if one.signal else one.code,
                is_error=is_first or (one.is_bad and not one.is_from_outside),
                is_first=is_first,
                has_ended=True,
            )
        )
    return tuple(sorted(found, key=lambda each: (not each.is_first, not each.is_error)))


def hosts_of(starts: Iterable[RankStart]) -> tuple[HostRanks, ...]:
    """Return the ranks of each host."""
    hosts: dict[str, dict[int, int]] = {}
    for each in starts:
        hosts.setdefault(each.host, {})[each.rank] = each.pid
    return tuple(
        HostRanks(
            host=host, ranks=str(RankSet(pids)), pids=tuple(pids[each] for each in sorted(pids))
        )
        for host, pids in hosts.items()
    )


def tails_of(rings: Sequence[tuple[str, Ring]]) -> tuple[OutputTail, ...]:
    """Return the end of the job's output."""
    found = []
    for stream, ring in rings:
        data = ring.tail[-MOST_TAIL_BYTES:]
        if data:
            found.append(
                OutputTail(
                    stream=stream,
                    text=data.decode("utf-8", "replace"),
                    dropped_bytes=ring.total - len(data),
                )
            )
    return tuple(found)


def rank_tails(
    tails: Mapping[tuple[str, int], Mapping[str, RankTail]], first: RankSet
) -> tuple[OutputTail, ...]:
    """Return the end of the output of each rank: that of the ranks *first*, then of the others."""
    found = []
    for (world, rank), streams in sorted(
        tails.items(), key=lambda item: (item[0][1] not in first, item[0])
    ):
        for each in streams.values() if not world else ():
            found.append(
                OutputTail(
                    ranks=str(rank),
                    stream=each.stream,
                    text=each.data.decode("utf-8", "replace"),
                    dropped_bytes=each.total - len(each.data),
                )
            )
    return tuple(found)


def _failed(stops: Sequence[ReportStop]) -> RankSet:
    return RankSet.union(parse_ranks(each.ranks) for each in stops if each.is_error)


def cause_of_found(found: Found) -> Cause:
    """Return a cause as part of a report."""
    return Cause(
        kind=found.kind,
        what=found.what,
        where=found.where,
        who=str(found.who),
        file=found.file,
        line=found.line,
    )


def cause_of_event(kind: str, what: str, ranks: RankSet, gone: RankSet) -> Cause:
    """Return an event that is no failure of a rank as a cause: it is of the ranks that live.

    *gone* are those of the *ranks* that have ended.
    """
    living = ranks - gone
    if kind != "ended" and gone and living:
        what = f"{what}; [{gone}] had ended before"
    return Cause(
        kind=kind,
        what=what,
        who=str(living or ranks),
        severity="warning" if kind == "hang" else "error",
    )


def cause_of_good_end(ranks: str, text: str) -> Cause:
    """Return the summary of a job whose ranks have ended with status 0.

    An exception in a thread, or in a function of atexit, ends no program of Python.
    """
    what = "the job ended well"
    if said := said_before(text):
        what += f"; a rank has written: {said}"
    return Cause(kind="none", what=what, who=ranks, severity="note")


def with_words_of_job(cause: Cause, text: str) -> Cause:
    """Return the cause of an end from outside, with what the job has written that explains it."""
    what = cause.what
    if cause.kind == "ended" and (ended := end_in_words(text)) and ended not in what:
        what = f"{what}; {ended}"
    if cause.kind in _NO_FAILURES and cause.kind != "request" and (said := said_before(text)):
        what = f"{what}; before, a rank has written: {said}"
    return replace(cause, what=what)


def with_last_words(cause: Cause, said_at_death: str, texts: Sequence[str]) -> Cause:
    """Return the cause of a failure, with the words by which the job most likely said why.

    :param said_at_death: the words that the job had said when the first rank died.
    :param texts: the ends of the job's outputs.
    """
    words = ""
    if cause.kind == "exit-code":
        words = said_at_death
        if (words.partition(": ")[2] or words) in cause.what:
            return cause
    elif cause.what.endswith(_ABORTED):
        words = words_before_signal(*texts)
    elif cause.where == "MPI_Abort" or "without MPI_Finalize" in cause.what:
        words = words_before_abort(*texts)
    return replace(cause, what=f"{cause.what}; {words}") if words else cause


def _without(classes: Sequence[RankClass], dead: Sequence[RankClass]) -> list[RankClass]:
    """Return the classes of ranks that are in none of the others."""
    known = RankSet.union(parse_ranks(each.ranks) for each in dead)
    return [each for each in classes if parse_ranks(each.ranks).isdisjoint(known)]


def _with_reasons(stops: Sequence[ReportStop], cores: Report | None) -> list[ReportStop]:
    """Return the ends of ranks with what their core files say beside the place, such as a cause."""
    found = []
    for stop in stops:
        ranks = parse_ranks(stop.ranks)
        text = stop.text
        for each in () if cores is None else cores.stops:
            reason = each.text.partition("\n")[2]
            if reason and (those := parse_ranks(each.ranks) & ranks):
                text += "\n" + (reason if those == ranks else f"[{those}] {reason.strip()}")
        found.append(replace(stop, text=text))
    return found


def _explained(cause: Cause, cores: Report | None) -> Cause:
    """Return a cause that is a signal with the reason for it in the core file of its rank."""
    if cause.kind != "signal" or cores is None or len(who := parse_ranks(cause.who)) != 1:
        return cause
    for each in cores.stops:
        reason = each.text.partition("\n")[2].strip().partition("\n")[0]
        if (
            reason.startswith(_REASON)
            and not reason.startswith(_SENT)
            and who <= parse_ranks(each.ranks)
        ):
            return replace(cause, what=f"{cause.what}; {reason}")
    return cause


def _in_core(cause: Cause, dead: Sequence[RankClass]) -> Cause:
    """Return a cause with the place in the core file of its rank, unless it has one."""
    who = parse_ranks(cause.who)
    if cause.line:
        return cause
    for each in dead:
        at = user_frame(each.frames)
        if at is not None and not who.isdisjoint(parse_ranks(each.ranks)):
            return with_place(cause, each.frames[at])
    return cause


def _placed(cause: Cause, classes: Sequence[RankClass], ranks: RankSet) -> Cause:
    """Return the cause of a job that runs with its ranks, and the place of its smallest class.

    A launcher may have started no rank yet when the event came.
    """
    if cause.kind not in _NO_FAILURES:
        return cause
    cause = replace(cause, who=cause.who or str(ranks))
    if cause.where:
        return cause
    places = [
        f"[{each.ranks}] {_place(each)}" for each in sorted(classes, key=lambda each: each.count)
    ]
    more = f", and {len(places) - 4} more" if len(places) > 4 else ""
    odd = min(classes, key=lambda each: each.count, default=None)
    frame = None
    if odd is not None:
        frame = _own_frame(odd)
    return replace(
        cause,
        where=", ".join(places[:4]) + more,
        file="" if frame is None else frame.fullname or frame.file,
        line=0 if frame is None else frame.line,
    )


def _place(each: RankClass) -> str:
    if not each.frames:
        return each.error or "no stack"
    top = each.frames[0]
    user = _own_frame(each)
    if user is None:
        return top.function
    place = f"{user.function} at {os.path.basename(user.file)}:{user.line}"
    return place if user is top else f"{top.function} <- {place}"


def _own_frame(each: RankClass) -> ReportFrame | None:
    at = own_frame(each.frames)
    return None if at is None else each.frames[at]
