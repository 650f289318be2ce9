"""``pgdb jobs`` and ``pgdb doctor``, and the choice of a job that was not named."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TextIO

import msgspec

from pgdb.controls import harmless
from pgdb.errors import DiscoveryError
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.discovery.listing import RunningJob
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.start import open_site


async def look(
    mode: str, options: SessionOptions, *, as_json: bool, out: TextIO | None = None
) -> int:
    """Carry out ``jobs`` or ``doctor``; return the exit status.

    :raises StartError: if the host that is asked for cannot be reached.
    """
    out = out or sys.stdout
    directory = SessionDirectory()
    try:
        site = await open_site(options, directory)
        try:
            if mode == "doctor":
                text, status = await site.examine(as_json=as_json, gdb=options.gdb)
                out.write(harmless(text))
                return status
            jobs = await site.jobs()
        finally:
            await site.close()
    finally:
        directory.remove()
    if as_json:
        for job in jobs:
            # Not msgspec's encoder, which refuses a command that is not UTF-8.
            out.write(json.dumps(msgspec.to_builtins(job)) + "\n")
    else:
        width = shutil.get_terminal_size().columns if out.isatty() else None
        out.write(table(jobs, width) if jobs else f"no running job {_where(options)}\n")
    return 0


def table(jobs: tuple[RunningJob, ...], width: int | None = None) -> str:
    """Return the jobs as a table, one line for each, cut to *width* columns if given."""
    rows = [("JOB", "LAUNCHER", "RANKS", "HOSTS", "AGE", "USER", "COMMAND")]
    for job in jobs:
        rows.append(
            (
                harmless(job.target),
                harmless(job.launcher),
                "+".join(map(_number, (job.ranks, *job.spawned))),
                _number(job.hosts),
                age(job.age_s),
                job.user if job.is_ours else f"{job.user} (not yours)",
                _line(job.command),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        line = "  ".join((*cells, row[-1])).rstrip()
        lines.append(line if width is None or len(line) <= width else f"{line[: width - 1]}…")
    return "\n".join(lines) + "\n"


def age(seconds: float) -> str:
    """Return a time as ``42 s``, ``7 min``, ``3.5 h`` or ``2.1 d``."""
    for limit, size, unit in ((120.0, 1.0, "s"), (7200.0, 60.0, "min")):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 3600:.1f} h" if seconds < 172800 else f"{seconds / 86400:.1f} d"


async def choose_job(options: SessionOptions, *, asks: bool) -> str:
    """Return the job to attach to: the only one there is, or what the user chooses.

    :raises DiscoveryError: if there is none, or there are several and nobody can be asked.
    """
    directory = SessionDirectory()
    try:
        site = await open_site(options, directory)
        try:
            found = await site.jobs()
        finally:
            await site.close()
    finally:
        directory.remove()
    jobs = tuple(job for job in found if job.is_ours)
    if not jobs:
        others = ", ".join(sorted({job.user for job in found}))
        whose = f" of yours, only of {harmless(others)}" if others else ""
        raise DiscoveryError(
            f"no running job{whose} {_where(options)}; "
            "give the pid of mpirun, mpiexec, srun or torchrun, "
            "a Slurm job, or --host"
        )
    if len(jobs) == 1:
        return jobs[0].target
    if not asks or not sys.stdin.isatty():
        listed = "; ".join(f"{job.target}: {_line(job.command)}" for job in jobs)
        raise DiscoveryError(f"several jobs are running, name one: {listed}")
    return await _ask(jobs)


async def _ask(jobs: tuple[RunningJob, ...]) -> str:
    # The import is slow, and only this prompt needs it.
    from prompt_toolkit import PromptSession

    sys.stdout.write(table(jobs, shutil.get_terminal_size().columns))
    targets = {job.target for job in jobs}
    prompt: PromptSession[str] = PromptSession()
    while True:
        try:
            chosen = (await prompt.prompt_async("attach to JOB: ")).strip()
        except (EOFError, KeyboardInterrupt):
            raise DiscoveryError("no job was chosen") from None
        if chosen in targets:
            return chosen
        if chosen in ("q", "quit", "exit"):  # what ends a session, too
            raise DiscoveryError("no job was chosen")
        sys.stdout.write(f"{chosen!r} is none of {', '.join(sorted(targets))}; 'quit' leaves\n")


def _line(command: str) -> str:
    """Return a command on one line, safe for a terminal: its arguments can hold any bytes."""
    return harmless(" ".join(command.split()))


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)


def _where(options: SessionOptions) -> str:
    return f"on {options.host}" if options.host else "on this host or in its Slurm"
