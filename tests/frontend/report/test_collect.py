"""Reports of sessions with made-up ranks, and their text."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from pgdb.errors import CommandError
from pgdb.frontend.api.notifications import JobEnded, JobOutput
from pgdb.frontend.api.session import Session
from pgdb.frontend.report import writing
from pgdb.frontend.report.cause import cause_of, place_text, user_frame
from pgdb.frontend.report.collect import collect
from pgdb.frontend.report.model import RankClass, Report, ReportFrame, Verdict
from pgdb.frontend.startup.replay import replay
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import normalize_record
from pgdb.overlay.messages import AnyOperation, Backtrace, ListVariables
from pgdb.overlay.operations import ReadFile
from pgdb.ranks import RankSet
from pgdb.records import (
    Block,
    Event,
    Exit,
    Failure,
    Frame,
    Record,
    Stack,
    Stop,
    Variable,
    Variables,
)
from tests.fakes.recorded import ALL, Job, begin, recorded
from tests.support.cores import core


class CrashedJob(Job):
    """Job in which rank 2 has received SIGSEGV in g; the others are in f."""

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


def test_ranks_that_end_alike_at_different_moments_are_together() -> None:
    def then(session: Session) -> None:
        for rank in (0, 3, 1):
            session.state.start_run(rank + 1, RankSet([rank]))
            happened(session, [rank], Exit(code=0, run=rank + 1))

    ends = [each for each in report_of(Job(), then).stops if each.has_ended]
    assert [(each.ranks, each.text) for each in ends] == [("0-1,3", "exited normally")]


def test_ranks_that_stop_alike_with_other_arguments_are_together() -> None:
    def then(session: Session) -> None:
        for rank in (1, 3):
            arguments = (Variable("n", "7"), Variable("v", f"0x7ffd{rank}000"))
            frame = Frame(level=0, function="f", arguments=arguments, file="a.c", line=5)
            session.state.start_run(rank + 1, RankSet([rank]))
            happened(session, [rank], Stop(reason="interrupted", frame=frame, run=rank + 1))

    (stop,) = [each for each in report_of(Job(), then).stops if each.reason == "interrupted"]
    assert stop.ranks == "1,3"
    assert "f (n=7, v=…) at a.c:5" in stop.text


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


def test_the_place_of_a_sanitizers_report_is_in_the_users_code() -> None:
    path = "/build/gcc-12/src/libsanitizer/"
    frames = (
        ReportFrame(function="__sanitizer_report_error_summary", file="a.cpp", line=347),
        ReportFrame(function="ReportGenericError", file="b.cpp", fullname=f"{path}b.cpp", line=9),
        ReportFrame(function="__interceptor_memcpy", file="c.inc", line=3),
        ReportFrame(function="fill", file="grid.c", fullname="/home/a/grid.c", line=41),
        ReportFrame(function="main", file="grid.c", fullname="/home/a/grid.c", line=60),
    )
    assert user_frame(frames) == 3


def test_the_place_of_a_death_is_in_no_header_of_a_library() -> None:
    header = "/usr/include/c++/12/bits/stl_vector.h"
    frames = (
        ReportFrame(function="std::vector::_M_range_check", fullname=header, line=1153),
        ReportFrame(function="sum", fullname="/home/a/include/sum.hpp", line=7),
        ReportFrame(function="main", fullname="/home/a/main.cpp", line=60),
    )
    assert user_frame(frames) == 1
    assert user_frame(frames[:1]) == 0


def test_a_place_names_functions_without_a_namespace_name() -> None:
    own = ReportFrame(function="(anonymous namespace)::sum(int)", file="main.cpp", line=7)
    assert place_text(own) == "(anonymous namespace)::sum at main.cpp:7"
    deep = ReportFrame(function=f"apply<{'std::vector<int>, ' * 9}int>::run", file="x.hpp", line=2)
    assert place_text(deep) == "apply<…>::run at x.hpp:2"


def test_exit_codes_are_failures() -> None:
    def then(session: Session) -> None:
        happened(session, [3], Exit(code=7))
        happened(session, [0, 1, 2], Exit(code=0))

    report = report_of(Job(), then)
    assert report.cause.kind == "exit-code" and report.cause.who == "3"
    assert report.cause.what == "rank 3 exited with code 7"
    assert report.states.exited == "0-3" and not report.classes


@pytest.mark.parametrize(
    "ends",
    [
        [([3], Exit(code=3)), ([0, 1, 2], Exit(signal="SIGTERM"))],
        # The end of rank 3 is seen after those of the others.
        [([0, 1, 2], Exit(signal="SIGTERM")), ([3], Exit(code=3))],
        [([3], Exit(signal="SIGKILL")), ([0, 1, 2], Exit(signal="SIGTERM"))],
        [([3], Exit(signal="SIGKILL")), ([0, 1, 2], Exit(signal="SIGKILL"))],
    ],
)
def test_the_first_failure_is_the_end_that_no_launcher_has_made(
    ends: list[tuple[list[int], Exit]],
) -> None:
    def then(session: Session) -> None:
        for ranks, end in ends:
            happened(session, ranks, end)

    report = report_of(Job(), then)
    assert report.cause.who == "3"
    assert [each.ranks for each in report.stops if each.is_first] == ["3"]


def test_the_place_of_a_signal_that_has_ended_a_rank_is_that_of_its_stop() -> None:
    def end(session: Session) -> None:
        frame = Frame(level=3, function="die", file="a.c", line=5)
        stop = Stop(reason="signal-received", signal="SIGUSR2", frame=frame, run=1)
        session.state.start_run(1, RankSet([2]))
        happened(session, [2], stop)
        session.state.start_run(2, RankSet([2]))
        happened(session, [2], Exit(signal=signal, run=2))

    signal = "SIGUSR2"
    cause = report_of(CrashedJob(), end).cause
    assert (cause.where, cause.file, cause.line, cause.who) == ("die at a.c:5", "a.c", 5, "2")
    signal = "SIGTERM"  # which came later, somewhere else
    assert report_of(CrashedJob(), end).cause.where == ""


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
    asked = zip(job.asked, job.reached, strict=True)
    assert not [each for each, ranks in asked if 1 in ranks and each.needs_stopped_rank]
    assert "why: ranks [1] run, and were not stopped for it" in report.notes


class PythonJob(Job):
    """Ranks whose innermost frame with a line is one of Python."""

    def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
        record = super().answer(operation, rank, request_id)
        if isinstance(record, Stack):
            frames = tuple(replace(each, language="python") for each in record.frames)
            return replace(record, frames=frames)
        if isinstance(operation, ListVariables):
            # CPython's own function has variables, too.
            assert operation.which == "python"
            return Variables(items=(Variable(name="step", value="3"),))
        return record


def test_a_frame_of_python_has_the_variables_of_python_alone() -> None:
    report = report_of(PythonJob())
    assert report.classes
    for each in report.classes:
        assert [(one.name, one.text) for one in each.variables] == [("step", "3")], report.notes


class JobElsewhere(Job):
    """Ranks on hosts that are not this one; the first does not answer."""

    def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
        if isinstance(operation, ReadFile):
            assert operation.path == f"/proc/{100 + rank}/environ"
            if not rank:
                return Failure(message="Permission denied")
            # getenv(3) returns the first of two; the last one is cut off.
            data = b"LEVEL=7\0MY_TOKEN=sesame-open\0LINES=a\nb\0broken\0LEVEL=8\0CUT=of"
            return Block(dtype="|u1", shape=(0,), data=data)
        return super().answer(operation, rank, request_id)


def test_the_environment_of_ranks_on_other_hosts_is_read_there() -> None:
    def on_other_hosts(session: Session) -> None:
        processes = tuple(
            replace(each, host=f"other{each.rank}", pid=100 + each.rank)
            for each in session.table.processes
        )
        session.table = replace(session.table, processes=processes)

    environment = report_of(JobElsewhere(), on_other_hosts).environment
    assert environment is not None
    assert environment.source == "rank 1, process 101 on other1"
    assert [(each.name, each.value, each.is_secret) for each in environment.variables] == [
        ("LEVEL", "7", False),
        ("LINES", "a\nb", False),
        ("MY_TOKEN", "", True),
    ]


def test_the_environment_of_a_core_file_is_that_of_its_process(tmp_path: Path) -> None:
    file = tmp_path / "core"
    file.write_bytes(core(environment={"LEVEL": "7"}))

    def of_core(session: Session) -> None:
        # A process that lives now can have the number of the one that died.
        move_here(session, pid=os.getpid())
        session.core_files = dict.fromkeys(range(4), str(file))

    environment = report_of(Job(), of_core).environment
    assert environment is not None
    assert environment.source == f"rank 0, process {os.getpid()}, from its core file"
    assert [each.name for each in environment.variables] == ["LEVEL"]


def test_a_core_file_of_another_host_is_asked_for_its_environment() -> None:
    def on_another_host(session: Session) -> None:
        processes = tuple(
            replace(each, host="other", pid=100 + each.rank) for each in session.table.processes
        )
        session.table = replace(session.table, processes=processes)
        session.core_files = dict.fromkeys(range(4), "/none/core")

    environment = report_of(JobElsewhere(), on_another_host).environment
    assert environment is not None
    assert environment.source == "rank 1, process 101, from its core file on other"
    assert "LEVEL" in [each.name for each in environment.variables]


def move_here(session: Session, *, pid: int) -> None:
    processes = tuple(replace(each, pid=pid, host="localhost") for each in session.table.processes)
    session.table = replace(session.table, processes=processes)


def test_a_printed_report_has_no_environment(tmp_path: Path) -> None:
    file = tmp_path / "core"
    file.write_bytes(core(environment={"LEVEL": "level-seven"}))

    def of_core(session: Session) -> None:
        move_here(session, pid=100)
        session.core_files = dict.fromkeys(range(4), str(file))

    report = report_of(Job(), of_core)
    bad = tmp_path / "no" / "r.txt"
    text, _ = asyncio.run(writing.write_all(report, [bad]))
    assert "level-seven" not in text
    assert "1 variables of the environment: only reports in files" in text
    good = tmp_path / "r.txt"
    asyncio.run(writing.write_all(report, [good]))
    assert "LEVEL=level-seven" in good.read_text()


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
