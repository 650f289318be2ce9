"""The line that starts a job with a watcher for each rank."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

from pgdb.errors import StartError
from pgdb.frontend.mpi_recorder.library import build_recorder
from pgdb.frontend.run.options import RunOptions
from pgdb.frontend.run.rank_reports import RankReports
from pgdb.frontend.startup.incoming_reports import offered_addresses
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.jobs import rank_watcher
from pgdb.jobs.launch_lines import LaunchLine, check_program
from pgdb.jobs.launcher_kinds import read_launch_line
from pgdb.jobs.launchers import Launcher, why_not_runnable

HOLD_MARGIN_S = 60.0
"""Time beyond a look for which a watcher keeps the end of its rank from the launcher."""
HOLD_FOR_EVER_S = 30 * 86400.0
LOOKS_IN_A_LIMIT = 4
# A library that the user has loaded before others stays.
PRELOAD = """if [ -e "$0" ]; then
LD_PRELOAD="$0${LD_PRELOAD:+:$LD_PRELOAD}" exec "$@"
fi
echo "pgdb: $0 is not there, so MPI calls are not recorded" >&2
exec "$@"
"""
"""Shell script that executes a program (second argument) and has a library (first one) loaded."""


class Prepared:
    """A job that can be started."""

    def __init__(
        self,
        argv: tuple[str, ...],
        reports: RankReports,
        directory: SessionDirectory,
        server: asyncio.Server | None,
        launcher: Launcher | None,
        notes: tuple[str, ...],
    ) -> None:
        self.argv = argv
        self.reports = reports
        self.launcher = launcher
        """The job's launcher; None for a program without one."""
        self.mpi = launcher.version if launcher is not None else ""
        self.notes = notes
        self._directory = directory
        self._server = server

    async def close(self) -> None:
        """Stop listening."""
        self.reports.release()
        if self._server is not None:
            self._server.close()
        self._directory.remove()


async def prepare(options: RunOptions) -> Prepared:
    """Read the job's line, and listen to the watchers that it will start.

    A line that begins with no launcher is one program; it has a watcher itself.

    :raises PgdbError: if the line cannot be read, or its program does not exist.
    """
    line = await asyncio.to_thread(_read, options)
    recorder: tuple[str, ...] = ()
    if options.session.mpi_record:
        mpicc = options.session.mpicc
        library = await build_recorder(options.line[0], mpicc, lambda step: None)
        recorder = ("/bin/sh", "-c", PRELOAD, library)
    directory = SessionDirectory()
    reports = RankReports(directory.mark)
    notes = list(line.doubts) if line is not None else []
    launcher = line.launcher if line is not None else None
    if not options.watch:
        notes.append("--no-watch: the ends of single ranks are not known")
        argv = (*recorder, *options.line) if line is None else line.held(recorder)
        return Prepared(tuple(argv), reports, directory, None, launcher, tuple(notes))
    offered = offered_addresses(
        options.session.listen, on_this_host_only=line is None or line.on_this_host_only
    )
    server, addresses = await reports.listen(offered)
    hold_s = HOLD_FOR_EVER_S if options.then == "hold" else options.look_s + HOLD_MARGIN_S
    prefix = (
        options.session.remote_python or sys.executable,
        "-I",
        "-S",
        rank_watcher.__file__,
        directory.mark,
        ",".join(addresses),
        f"{hold_s:g}",
        f"{options.hang_after_s / LOOKS_IN_A_LIMIT:g}",
        "on" if options.cores else "off",
        "by-rank" if options.output_by_rank else "as-it-is",
        "--",
        *recorder,
    )
    argv = (*prefix, *options.line) if line is None else line.held(prefix)
    return Prepared(tuple(argv), reports, directory, server, launcher, tuple(notes))


def _read(options: RunOptions) -> LaunchLine | None:
    """Return the launcher's line, None if it begins with another program.

    :raises PgdbError: if nothing can be started with it.
    """
    try:
        line = read_launch_line(options.line, options.session.launcher)
    except StartError:
        word = options.line[0]
        if options.session.launcher != "auto":
            raise
        if shutil.which(word) is None:
            raise StartError(why_not_runnable(word, Path(word))) from None
        return None
    for program in line.programs:
        check_program(program, os.environ.get("PATH", os.defpath))
    return line
