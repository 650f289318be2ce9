"""The launcher of a job, and the choice of a launcher for its aggregators."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pgdb.errors import PgdbError, StartError
from pgdb.frontend.discovery.found_job import FoundJob
from pgdb.frontend.startup.site import Located
from pgdb.jobs import procfs
from pgdb.jobs.launchers import Launcher, find_launcher, launcher_of_process
from pgdb.jobs.tracing_rights import why_not_traceable
from pgdb.overlay.archive_bootstrap import is_safe_place


def locate(job: FoundJob) -> Located:
    """Add the job's launcher, and the reason if none of its ranks here can be traced."""
    launcher, notes = _launcher_of(job.launcher_pid) if job.launcher_pid else (None, ())
    refusals = []
    for process in job.table.processes:
        if process.rank not in job.local_ranks:
            break
        if (why := why_not_traceable(process.pid)) is None:
            break
        refusals.append(f"rank {process.rank} on {process.host}: {why}")
    else:
        return Located(job=job, launcher=launcher, refusals=tuple(refusals[:1]), notes=notes)
    return Located(job=job, launcher=launcher, notes=notes)


def _launcher_of(pid: int) -> tuple[Launcher | None, tuple[str, ...]]:
    """Return the launcher of a job, if we may run its program, and notes for the user."""
    if not procfs.is_foreign(pid):
        return launcher_of_process(pid, lambda path: True), ()
    refused: list[Path] = []

    def may_run(path: Path) -> bool:
        if not (is_ours := _is_ours(path)):
            refused.append(path)
        return is_ours

    found = launcher_of_process(pid, may_run)
    return found, tuple(
        f"{path} may be another user's file and is not run for you; the aggregators "
        "are started by what PATH has (--overlay-launcher names another)"
        for path in refused
    )


def _is_ours(path: Path) -> bool:
    """Return whether only this user and root can have made the file at *path*."""
    real = os.path.realpath(path)
    try:
        status = os.stat(real)
    except OSError:
        return False
    is_safe = status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022
    return is_safe and is_safe_place(os.path.dirname(real))


def launcher_for_hosts(words: Sequence[str], environment: Mapping[str, str]) -> Launcher | None:
    """Return the launcher of aggregators on hosts without a job: None for ssh.

    Inside an allocation of Slurm's it is srun, as its hosts need not allow ssh.

    :raises StartError: if there is none.
    """
    if words:
        return None if Path(words[0]).name == "ssh" else find_launcher(words[0])
    if environment.get("SLURM_JOB_ID") and shutil.which("srun"):
        return find_launcher("srun")
    if not shutil.which("ssh"):
        raise StartError(
            "there is no ssh in PATH to start aggregators on other hosts with; "
            "--overlay-launcher names a launcher"
        )
    return None


def choose_launcher(words: Sequence[str], located: Located) -> Launcher | None:
    """Return the launcher for the aggregators of a job: None for ssh.

    In a Slurm job that is srun, whatever launched the ranks: its steps can run beside them.

    :raises StartError: if there is none.
    """
    if words:
        return None if Path(words[0]).name == "ssh" else find_launcher(words[0])
    job = located.job
    if job.slurm_job and shutil.which("srun"):
        try:
            return find_launcher("srun")
        except StartError:
            if located.launcher is None:
                raise
    if located.launcher is not None:
        return located.launcher
    for word in ("mpirun", "mpiexec"):
        try:
            return find_launcher(word)
        except PgdbError:
            continue
    if len(job.hosts) <= 1 or not shutil.which("ssh"):
        raise StartError(
            "there is no mpirun or mpiexec in PATH to start the aggregators with; "
            "install an MPI (pip install 'pgdb-mpi[embedded]' brings MPICH)"
        )
    return None
