"""Reports of real jobs: a crash, a running job that runs on, the prompt, the Python API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pgdb
from pgdb.frontend.report import model
from tests.conftest import Build, StartJob
from tests.support.processes import wait_until
from tests.support.programs import Mpi
from tests.support.terminal import assert_untouched, ex, run_pgdb

pytestmark = pytest.mark.mpi


def read(path: Path) -> pgdb.Report:
    return model.decode(path.read_bytes(), str(path))


def test_a_report_of_a_crash(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    crash = build("crash.c")
    files = [tmp_path / f"r.{suffix}" for suffix in ("json", "html", "txt", "xml", "sarif", "md")]
    finished = run_pgdb(
        "launch",
        "--batch",
        *ex("continue", f"report {' '.join(map(str, files))}"),
        *mpi.line(3, crash, "1"),
        changes={"MY_TOKEN": "sesame-open"},
    )
    assert f"{files[0]}: report of [0-2]" in finished.out
    report = read(files[0])
    cause = report.cause
    assert (cause.kind, cause.who) == ("signal", "1")
    assert cause.file == str(crash.source) and cause.line == crash.line("crash")
    first, second = report.classes
    assert (first.ranks, second.ranks) == ("1", "0,2")
    assert first.source is not None and second.source is not None
    assert first.source.marked == crash.line("crash")
    assert second.source.marked == crash.line("barrier")
    rank = next(each for each in second.variables if each.name == "rank")
    assert rank.differs
    assert [(each.ranks, each.text) for each in rank.places[0].values] == [("0", "0"), ("2", "2")]
    assert {each.text for each in first.variables if each.name == "target"} == {"0x0"}
    assert report.job.line[-2:] == (str(crash.path), "1")
    assert report.environment is not None
    token = next(each for each in report.environment.variables if each.name == "MY_TOKEN")
    assert token.is_secret
    assert any(each.is_error and "SIGSEGV" in each.text for each in report.timeline)
    texts = {path.suffix: path.read_text(encoding="utf-8") for path in files}
    assert not [suffix for suffix, text in texts.items() if "sesame-open" in text]
    assert texts[".txt"].splitlines()[-1] == "who:   rank 1"
    assert all("SIGSEGV" in text for text in texts.values())


@pytest.mark.any_mpi
def test_a_rank_that_dies_inside_a_library_is_shown_where_it_called(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    # abort() has no lines, and no variables.
    deaths = build("deaths.c")
    path = tmp_path / "r.json"
    with pgdb.launch(mpi.line(6, deaths, "5"), on_output=lambda *_: None) as job:
        job.continue_(timeout_s=60)
        before = job.execute("info frame")
        report = job.report(path)
        assert [each.filled for each in job.execute("info frame")] == [
            each.filled for each in before
        ], "the selected frame is as it was"
    assert report.cause.kind == "assertion"
    first = report.classes[0]
    assert first.ranks == "5"
    assert first.source is not None and first.source.file == str(deaths.source)
    assert first.frames[first.source.frame].line == first.source.marked
    assert read(path) == report


def test_a_running_job_runs_on(start_job: StartJob, build: Build, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with start_job(2, build("ring.c")) as job:
        finished = run_pgdb(
            "report", "--attach", job.pid, "-o", path, "-o", tmp_path / "no" / "r.html"
        )
        assert_untouched(job.ranks)
    assert finished.status == 1
    assert f"{tmp_path}/no/r.html: cannot be written" in finished.err
    assert finished.out.splitlines()[-1].startswith("who:   ")
    report = read(path)
    assert report.ranks == "0-1" and report.cause.kind == "none"
    shown = run_pgdb("report", path, "--github")
    assert (shown.status, shown.out[:9]) == (0, "::notice ")
    compared = run_pgdb("report", "--compare", path, path)
    assert (compared.status, "nothing differs" in compared.out) == (0, True)


@pytest.mark.any_mpi
def test_a_deadlock_has_a_verdict(start_job: StartJob, build: Build, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with start_job(2, build("deadlock_tags.c")) as job:
        finished = run_pgdb("report", "--attach", job.pid, "-o", path)
        # The ranks spin, and never go to sleep of their own accord.
        assert_untouched(job.ranks, progress=0)
    assert finished.status == 0, finished.err
    report = read(path)
    assert report.verdicts and report.waits
    assert report.cause.kind == "hang"
    assert report.cause.what == next(each.text for each in report.verdicts if each.is_error)


@pytest.mark.any_mpi
def test_a_report_names_no_commands_of_the_prompt(
    start_job: StartJob, build: Build, tmp_path: Path
) -> None:
    path = tmp_path / "r.json"
    with start_job(2, build("deadlock_tags.c")) as job, pgdb.attach(job.pid) as session:
        wait_until(lambda: session.why().verdicts, "the ranks have come to the deadlock")
        session.report(path)
        (found,) = session.why(look_only=True).verdicts
    (only,) = read(path).verdicts
    # A report of a session lets no rank run, so that nothing is certain.
    assert (only.confidence, found.commands) == ("cannot tell", ("why",))
    assert f"to decide: {found.decides}" in only.details
    assert not [each for each in only.details if "'" in each]


@pytest.mark.any_mpi
def test_threads_are_in_the_report(start_job: StartJob, build: Build, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with start_job(2, build("threads.c")) as job:
        finished = run_pgdb("report", "--attach", job.pid, "-o", path)
    assert finished.status == 0, finished.err
    workers = [
        each
        for each in read(path).threads
        if any("wait_for_work" in frame.function for frame in each.frames)
    ]
    assert sum(each.threads for each in workers) == 4


@pytest.mark.any_mpi
def test_no_job_and_no_report(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"type": "other"}))
    for arguments, words in (
        ((), "give --attach JOB for a running job, FILE.json"),
        ((other,), "is no report of PGDB"),
        ((tmp_path / "none.json",), "No such file"),
        (("--attach", "1", other), "give --attach JOB for a running job"),
        ((other, "-o", "r.pdf"), "must end in .json, .txt, .html, .xml, .sarif or .md"),
        ((other, "--title", "x"), "--title needs --attach"),
        (("--compare", other, other, "--github"), "--github is for one report"),
    ):
        finished = run_pgdb("report", *arguments)
        assert finished.status in (2, 3), arguments
        assert words in finished.err, finished.err
