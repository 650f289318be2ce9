"""``pgdb report``: a report of a running job, other forms of a report, and comparisons of two."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from typing import TYPE_CHECKING

import msgspec

from pgdb import core_limit
from pgdb.controls import harmless
from pgdb.errors import UsageError
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.show.display import StartProgress
from pgdb.frontend.startup.start import attach
from pgdb.frontend.system.shielding import to_its_end
from pgdb.frontend.ui import job_arguments
from pgdb.frontend.ui.cli_jobs import choose_job

if TYPE_CHECKING:
    from pgdb.frontend.report.comparing import ReportComparison
    from pgdb.frontend.report.model import Report

_USAGE = (
    "report: give --attach JOB for a running job, FILE.json for other forms of a report, or "
    "--compare A.json B.json"
)


class ReportArguments(msgspec.Struct, frozen=True):
    """The arguments of ``pgdb report``."""

    attach: str | None
    """The job to attach to, empty to look for one; None for reports in files."""
    pids: tuple[str, ...]
    file: str
    """A report in JSON."""
    compare: tuple[str, ...]
    """Two reports in JSON, or none."""
    output: tuple[str, ...]
    """The files to write; the text is printed without any."""
    title: str
    is_for_github: bool
    """Whether annotations of GitHub Actions are printed."""
    options: SessionOptions


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``pgdb report``, besides those of a session."""
    parser.add_argument(
        "--attach",
        metavar="JOB",
        nargs="?",
        const="",
        help="make a report of a running job, which runs on: pid of mpirun, mpiexec or srun, or of "
        "a rank; or JOB[.STEP] of Slurm's; by default the only job there is",
    )
    job_arguments.add_pids(parser, "make a report of these processes")
    parser.add_argument(
        "--compare", nargs=2, metavar=("A.json", "B.json"), help="show how two reports differ"
    )
    parser.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        action="append",
        default=[],
        help="write the report to FILE in the form of its suffix (repeatable); without -o the text "
        "is printed",
    )
    parser.add_argument("--title", metavar="TEXT", default="", help="the title of the report")
    parser.add_argument(
        "--github",
        action="store_true",
        help="print the annotations of GitHub Actions, which show failures at their source lines",
    )
    parser.add_argument(
        "target", nargs="?", default="", metavar="FILE.json", help="a report in JSON"
    )


def check(arguments: ReportArguments) -> None:
    """Check that one source of a report is given.

    :raises UsageError: if none is given, or several are.
    """
    has_job = arguments.attach is not None or bool(arguments.pids)
    if arguments.attach and arguments.pids:
        raise UsageError(job_arguments.JOB_AND_PIDS)
    if has_job + bool(arguments.file) + bool(arguments.compare) != 1:
        raise UsageError(_USAGE)
    if arguments.is_for_github and arguments.compare:
        raise UsageError("--github is for one report, not for --compare")
    if arguments.title and not has_job:
        raise UsageError("--title needs --attach or --pids: a report in a file has its title")


async def run(arguments: ReportArguments) -> int:
    """Make the report, and write or print it; return the exit status.

    :raises PgdbError: if there is nothing to report.
    """
    from pgdb.frontend.report import comparing, writing

    for path in arguments.output:
        writing.check_suffix_of(path)
    found: Report | ReportComparison
    if arguments.compare:
        one, other = arguments.compare
        before, after = await writing.read(one), await writing.read(other)
        found = comparing.compare(before, after, names=(one, other))
    elif arguments.file:
        found = await writing.read(arguments.file)
    else:
        found = await _of_job(arguments)
    return await _write(found, arguments)


async def _write(found: Report | ReportComparison, arguments: ReportArguments) -> int:
    from pgdb.frontend.report import writing
    from pgdb.frontend.report.forms import github
    from pgdb.frontend.report.model import Report

    text, errors = await writing.write_all(found, arguments.output)
    for error in errors:
        sys.stderr.write(f"pgdb: {harmless(error)}\n")
    if arguments.is_for_github and isinstance(found, Report):
        text = github.render(found) if not errors else text + github.render(found)
    sys.stdout.write(text)
    sys.stdout.flush()
    return 1 if errors else 0


async def _of_job(arguments: ReportArguments) -> Report:
    from pgdb.frontend.report.collect import collect

    core_limit.leave_none()
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    progress = StartProgress(sys.stderr, verbose=arguments.options.verbose)
    time_keeper = asyncio.create_task(progress.keep_time())
    try:
        target = arguments.attach or ""
        if not target and not arguments.pids:
            target = await choose_job(arguments.options, asks=False)
        session = await attach(
            target, arguments.options, pids=arguments.pids, on_step=progress.step
        )
    finally:
        time_keeper.cancel()
        progress.end()
    try:
        return await collect(session, title=arguments.title, watches=True)
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            await to_its_end(session.close(kill=False))
