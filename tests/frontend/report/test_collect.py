"""Reports of sessions with made-up ranks, and their text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from pgdb.errors import CommandError
from pgdb.frontend.api.notifications import JobEnded, JobOutput
from pgdb.frontend.api.session import Session
from pgdb.frontend.report import writing
from pgdb.frontend.report.cause import cause_of
from pgdb.frontend.report.collect import collect
from pgdb.frontend.report.model import RankClass, Report, ReportFrame, Verdict
from pgdb.frontend.startup.replay import replay
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import normalize_record
from pgdb.overlay.messages import AnyOperation, Backtrace, ListVariables
from pgdb.ranks import RankSet
from pgdb.records import Event, Exit, Failure, Frame, Record, Stack, Stop
from tests.fakes.recorded import ALL, Job, begin, recorded


class CrashedJob(Job):
    """Rank 2 has received SIGSEGV in g; the others are in f."""

    def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
        if isinstance(operation, Backtrace) and rank == 2:
            main = Frame(level=1, function="main", file="a.c", line=9)
            return Stack(frames=(Frame(level=0, function="g", file="a.c", line=5), main))
        return super().answer(operation, rank, request_id)

    def frame(self, rank: int) -> Frame:
        return Frame(level=0, function="f", file="a.c", line=self.line)


def happened(session: Session, ranks: Sequence[int], event: Event) -> None:
    normalized = normalize_record(event)
    each = EquivalenceClass(RankSet(ranks), normalized.record, normalized.slots)
    session.traffic.on_events((each,))


def crash(session: Session) -> None:
    stop = Stop(
        reason="signal-received",
        signal="SIGSEGV",
        meaning="Segmentation fault",
        frame=Frame(level=0, function="g", file="a.c", line=5),
    )
    # A stop of the run that began with the session counts, as it would for ranks that ran.
    session.state.start_run(1, RankSet([2]))
    happened(session, [2], replace(stop, run=1))


def report_of(job: Job, then: Callable[[Session], None] = lambda session: None) -> Report:
    async def work() -> Report:
        session = begin(job)
        then(session)
        report = await collect(session, read_source=lambda path, line: f"line {line} of {path}")
        await session.close()
        return report

    return asyncio.run(work())


def test_the_rank_that_has_crashed_is_the_cause() -> None:
    report = report_of(CrashedJob(), crash)
    cause = report.cause
    assert (cause.kind, cause.who, cause.where) == ("signal", "2", "g at a.c:5")
    assert cause.what == "rank 2 received SIGSEGV, Segmentation fault"
    assert [each.ranks for each in report.classes] == ["2", "0-1,3"]
    assert [(each.ranks, each.is_error, each.is_first) for each in report.stops] == [
        ("2", True, True),
        ("0-1,3", False, False),
    ]
    assert any(each.is_odd and each.ranks == "2" for each in report.tree)


def test_source_and_variables_of_each_class() -> None:
    first, second = report_of(CrashedJob(), crash).classes
    assert first.source is not None and second.source is not None
    assert (first.source.marked, first.source.first) == (5, 1)
    assert first.source.lines[4] == "line 5 of a.c"
    assert second.source.marked == 26
    (place,) = next(each for each in second.variables if not each.is_argument).places
    assert [(each.ranks, each.text) for each in place.values] == [
        ("0", "0"),
        ("1", "1"),
        ("3", "3"),
    ]


def test_hosts_output_and_time_line() -> None:
    def then(session: Session) -> None:
        session.chronicle.on_notification(JobOutput(text="it", data=b"it\xff\n"))
        session.chronicle.on_notification(JobEnded(code=139))

    report = report_of(Job(), then)
    assert [(each.host, each.ranks, each.pids) for each in report.hosts] == [
        ("node0", "0-1", (100, 101)),
        ("node1", "2-3", (102, 103)),
    ]
    assert [each.text for each in report.output] == ["it\ufffd\n"]
    assert "the launcher exited with status 139" in [each.text for each in report.timeline]


def test_exit_codes_are_failures() -> None:
    def then(session: Session) -> None:
        happened(session, [3], Exit(code=7))
        happened(session, [0, 1, 2], Exit(code=0))

    report = report_of(Job(), then)
    assert report.cause.kind == "exit-code" and report.cause.who == "3"
    assert report.cause.what == "rank 3 exited with code 7"
    assert report.states.exited == "0-3" and not report.classes


def test_nothing_has_failed() -> None:
    report = report_of(Job())
    assert (report.cause.kind, report.cause.severity) == ("none", "note")


def test_failing_questions_become_notes() -> None:
    class Refusing(Job):
        def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
            if isinstance(operation, ListVariables):
                return Failure(message="no frame")
            return super().answer(operation, rank, request_id)

    report = report_of(Refusing())
    assert "local variables: ranks [0-3]: no frame" in report.notes
    assert report.classes[0].frames


def test_the_reason_for_missing_python_frames_is_a_note() -> None:
    class OfPython(Job):
        def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
            found = super().answer(operation, rank, request_id)
            return replace(found, note="no reader") if isinstance(found, Stack) else found

    assert "no reader" in report_of(OfPython()).notes


def test_a_deadlock_is_the_cause_where_nothing_has_failed() -> None:
    verdict = Verdict(kind="cycle", text="ranks 0 and 1 wait", ranks="0-1", confidence="certain")
    classes = (
        RankClass(
            number=1, ranks="0-3", count=4, frames=(ReportFrame(function="f", file="a.c", line=3),)
        ),
    )
    cause = cause_of((), classes, (verdict,))
    assert (cause.kind, cause.what, cause.who) == ("hang", "ranks 0 and 1 wait", "0-1")
    assert (cause.where, cause.severity) == ("f at a.c:3", "error")
    likely = cause_of((), classes, (replace(verdict, confidence="likely"),))
    assert likely.severity == "warning"
    merely = cause_of((), classes, (replace(verdict, is_error=False),))
    assert merely.kind == "none"


def test_running_ranks_stay_as_they_are() -> None:
    job = Job()

    def then(session: Session) -> None:
        session.state.start_run(5, RankSet([1]))

    report = report_of(job, then)
    assert report.states.running == "1"
    assert all(RankSet([1]).isdisjoint(ranks) for ranks in job.reached)
    assert "why: ranks [1] run, and were not stopped for it" in report.notes


def test_a_recording_makes_a_report_of_the_questions_it_has(tmp_path: Path) -> None:
    path = tmp_path / "job.pgdb"
    recorded(path)

    async def work() -> Report:
        session = await replay(path)
        report = await collect(session)
        await session.close()
        return report

    report = asyncio.run(work())
    assert report.job.mode == "replay"
    assert report.environment is None
    assert report.classes
    assert any("arguments" in note for note in report.notes)


def test_the_text_ends_with_three_lines(tmp_path: Path) -> None:
    text = writing.render(report_of(CrashedJob(), crash), ".txt")
    assert text.splitlines()[-3:] == [
        "what:  rank 2 received SIGSEGV, Segmentation fault",
        "where: g at a.c:5",
        "who:   rank 2",
    ]
    assert ">     5  line 5 of a.c" in text
    assert "x: [0] 0, [1] 1, [3] 3" in text


def test_a_report_that_cannot_be_written_is_printed(tmp_path: Path) -> None:
    report = report_of(Job())
    good = tmp_path / "r.json"
    text, errors = asyncio.run(writing.write_all(report, [tmp_path / "no" / "r.json", good]))
    assert text.endswith("who:   ranks 0-3\n")
    (error,) = errors
    assert f"{tmp_path}/no/r.json: cannot be written: there is no directory" in error
    assert asyncio.run(writing.read(good)) == report


def test_no_report_where_there_is_none(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json"):
        try:
            asyncio.run(writing.read(path))
        except CommandError as error:
            assert str(path) in str(error)
        else:
            raise AssertionError(path)


def test_all_is_the_whole_job() -> None:
    assert report_of(Job()).rank_set == ALL
