"""The host where the job's launcher lives: jobs are found, and aggregators started, from there.

Mostly that is this host. With ``--host`` it is another one, reached over ssh, where
:mod:`pgdb.frontend.startup.remote` carries out what :class:`LocalSite` does here.
"""

from __future__ import annotations

import asyncio
import io
import os
import shlex
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec.structs import replace

import pgdb
from pgdb.errors import DiscoveryError, PgdbError, StartError
from pgdb.frontend.discovery import discover, explicit_pids, listing, mpir, slurm
from pgdb.frontend.discovery.found_job import DiscoveryStep, FoundJob
from pgdb.frontend.discovery.listing import RunningJob
from pgdb.frontend.startup.job import OverlayLauncher
from pgdb.frontend.startup.session_directory import check_own
from pgdb.jobs import procfs
from pgdb.jobs.launchers import Family, Launcher, find_launcher, launcher_of_process
from pgdb.jobs.placement import (
    absolute_parts,
    bootstrap_environment,
    bootstrap_options,
    mpi4py_environment,
    overlay_line,
    scrubbed_environment,
)
from pgdb.overlay import addresses
from pgdb.overlay.archive_bootstrap import is_safe_place
from pgdb.overlay.rendezvous import (
    FIRST_NODE_VARIABLE,
    RENDEZVOUS_TEXT_VARIABLE,
    RENDEZVOUS_VARIABLE,
    USER_LIBRARY_PATH_VARIABLE,
    USER_PYTHONPATH_VARIABLE,
    WATCH_INPUT_VARIABLE,
    WIRE_UP_VARIABLE,
)
from pgdb.proctable import ProcTable
from pgdb.ranks import RankSet

OnLine = Callable[[str], None]
Telling = Callable[[], Awaitable[str]]
"""Gives what aggregators are told, once it is known."""

PROBE_TIMEOUT_S = 2.0
_SSH_PORT = 22


class Located(msgspec.Struct, frozen=True):
    """A job that was found, and what can start aggregators beside it."""

    job: FoundJob
    launcher: Launcher | None
    """The job's own, where it could be told."""
    refusals: tuple[str, ...] = ()
    """Why ranks of the site's host cannot be traced, if none of them can be."""
    notes: tuple[str, ...] = ()
    """What the user is to be told besides."""

    @property
    def lacks_ranks(self) -> bool:
        """Whether ranks may run that nothing on the site's host names."""
        job = self.job
        is_short = job.job_size is not None and len(job.table.ranks | job.ended) < job.job_size
        return bool(job.selector) and (is_short or not job.table.processes)


class AggregatorStart(msgspec.Struct, frozen=True, kw_only=True):
    """One process that starts aggregators."""

    launcher: Launcher | None = None
    """None: the first host's own ssh."""
    words: tuple[str, ...] = ()
    """Options of the user's for the launcher, or the ssh to use."""
    hosts: tuple[str, ...] = ()
    """Empty for the site's own host."""
    per_host: int = 1
    wire_up: str = "direct"
    first_node: int = 0
    slurm_job: str = ""
    job_pid: int = 0
    """Launcher of the job, whose way to other hosts is taken; 0 for none."""
    job_command: tuple[str, ...] = ()
    python: str = ""
    """Python on the hosts; empty for the site's own."""
    python_path: str | None = None
    """PYTHONPATH on the hosts; None for the site's own."""
    program: tuple[str, ...] = ()
    """What to run in place of the Python with the aggregator's module."""
    variables: dict[str, str] = {}
    """Further environment variables of the aggregators."""
    log: str = "aggregators.log"
    prints_addresses: bool = False
    """Whether lines that the aggregators print are wanted."""


class Starter(Protocol):
    """A running process that starts aggregators, here or elsewhere."""

    @property
    def pid(self) -> int:
        """Process id on the site's host."""
        ...

    async def wait(self) -> int:
        """Return its exit status when it has ended."""
        ...

    async def end(self) -> None:
        """End it, and with it the aggregators it has started."""
        ...

    def last_words(self) -> str:
        """Return the last that it said, on one line."""
        ...


class Site(Protocol):
    """Where jobs are looked for and aggregators started."""

    async def find(self, target: str) -> Located:
        """Find a job by a process id or ``JOB[.STEP]``."""
        ...

    async def find_pids(self, entries: Sequence[str]) -> Located:
        """Take the processes that were given by hand as the job."""
        ...

    async def jobs(self) -> tuple[RunningJob, ...]:
        """List the jobs that could be attached to."""
        ...

    async def start(self, start: AggregatorStart, on_line: OnLine, rendezvous: Telling) -> Starter:
        """Start aggregators, which are told *rendezvous* and nothing else."""
        ...

    async def silent_hosts(self, hosts: Sequence[str]) -> tuple[str, ...]:
        """Return those of *hosts* that do not even refuse a connection."""
        ...

    async def settle(self) -> None:
        """Take that the aggregators have started: remove what they had to read."""
        ...

    async def examine(self, *, as_json: bool, gdb: str) -> tuple[str, int]:
        """Return what the doctor says of the host, and the exit status for that."""
        ...

    async def choose_launcher(self, words: Sequence[str], located: Located) -> Launcher | None:
        """Return what starts the aggregators: None for ssh."""
        ...

    async def close(self) -> None:
        """Leave the site."""
        ...


class LocalSite:
    """This host."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._rendezvous = directory / "rendezvous"

    async def find(self, target: str) -> Located:
        """Find a job by a process id of this host, or by a Slurm job or step.

        :raises DiscoveryError: if there is none.
        """
        job = await asyncio.to_thread(_find, target)
        return await asyncio.to_thread(_locate, job)

    async def find_pids(self, entries: Sequence[str]) -> Located:
        """Take the processes that were given by hand, ``PID`` or ``HOST:PID``, as the job.

        :raises DiscoveryError: if one of them cannot be.
        """
        job = await asyncio.to_thread(explicit_pids.find_pids, entries)
        return await asyncio.to_thread(_locate, job)

    async def jobs(self) -> tuple[RunningJob, ...]:
        """List the jobs of this host, and of its Slurm."""
        return await asyncio.to_thread(listing.list_jobs)

    async def choose_launcher(self, words: Sequence[str], located: Located) -> Launcher | None:
        """Return what starts the aggregators of a job: None for ssh.

        In a Slurm job srun does, whatever has launched the ranks: its steps can run beside them.

        :raises StartError: if there is nothing.
        """
        return await asyncio.to_thread(_choose_launcher, words, located)

    async def start(
        self, start: AggregatorStart, on_line: OnLine, rendezvous: Telling
    ) -> OverlayLauncher:
        """Start aggregators; where they are told by their input, before *rendezvous* has ended.

        :raises StartError: if what starts them cannot be run.
        """
        addresses.check_host_names(start.hosts)
        check_own(self._directory)
        if start.job_pid and procfs.is_foreign(start.job_pid):
            # What reaches its hosts are programs of its user's choice, which we would be running.
            start = replace(start, job_pid=0, job_command=())
        environment = await self._environment(start, rendezvous)
        keep_input = False
        if start.launcher is None:
            argv = _ssh_line(start, environment)
            environment = dict(os.environ)
            keep_input = True
        else:
            exported = [name for name in environment if _must_travel(name)]
            host_file = self._directory / f"{start.log}.hosts"
            argv = overlay_line(
                start.launcher,
                start.per_host,
                _program(start),
                hosts=start.hosts,
                host_file=host_file,
                exported=exported,
                slurm_job=start.slurm_job,
                bootstrap=(*start.words, *bootstrap_options(start.launcher, start.job_command)),
            )
        return await OverlayLauncher.start(
            argv,
            environment=environment,
            rendezvous=rendezvous,
            log=self._directory / start.log,
            keep_input=keep_input,
            on_line=on_line if start.prints_addresses else None,
        )

    async def silent_hosts(self, hosts: Sequence[str]) -> tuple[str, ...]:
        """Return those of *hosts* that do not even refuse a connection from here.

        A launcher gives no sign while ssh waits for a host that is down, for two minutes as a rule.
        """
        own = addresses.own_names()
        others = [host for host in hosts if host not in own]
        answers = await asyncio.gather(*map(_answers, others))
        return tuple(host for host, here in zip(others, answers, strict=True) if not here)

    async def settle(self) -> None:
        """Take that the aggregators have started: remove what they had to read."""
        self._rendezvous.unlink(missing_ok=True)

    async def examine(self, *, as_json: bool, gdb: str) -> tuple[str, int]:
        """Return what the doctor says of this host, and the exit status for that."""
        # Its imports cost more than those of the rest of the start, and few sessions want it.
        from pgdb.frontend.startup.doctor import run_doctor

        out = io.StringIO()
        status = await asyncio.to_thread(run_doctor, as_json=as_json, gdb=gdb, out=out)
        return out.getvalue(), status

    async def close(self) -> None:
        """Leave the site; nothing is to be done here."""

    async def _environment(self, start: AggregatorStart, rendezvous: Telling) -> dict[str, str]:
        environment = scrubbed_environment(os.environ)
        for name in await asyncio.to_thread(_unusable_folders, environment):
            # Open MPI's launcher would end at once, while there is another place for all else.
            del environment[name]
        if start.job_pid:
            environment.update(bootstrap_environment(start.job_pid))
        if libraries := absolute_parts(environment.pop("LD_LIBRARY_PATH", "")):
            environment["LD_LIBRARY_PATH"] = libraries
        environment[USER_LIBRARY_PATH_VARIABLE] = environment.get("LD_LIBRARY_PATH", "")
        if start.launcher is not None and start.wire_up == "mpi":
            environment.update(mpi4py_environment(start.launcher, self._directory))
        if os.geteuid() == 0:
            # Open MPI asks root whether that is meant; for our own processes it is.
            for name in ("OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT"):
                environment[name] = environment[f"{name}_CONFIRM"] = "1"
        environment[WIRE_UP_VARIABLE] = start.wire_up
        environment[FIRST_NODE_VARIABLE] = str(start.first_node)
        environment[USER_PYTHONPATH_VARIABLE] = environment.get("PYTHONPATH", "")
        environment["PYTHONPATH"] = (
            own_python_path() if start.python_path is None else start.python_path
        )
        environment.update(start.variables)
        family = start.launcher.family if start.launcher is not None else None
        if start.wire_up == "direct" and family not in (None, Family.SLURM):
            if start.hosts:
                # No file is there for all hosts, and their input goes to the first alone.
                environment[RENDEZVOUS_TEXT_VARIABLE] = await rendezvous()
            else:
                environment[RENDEZVOUS_VARIABLE] = str(self._write_rendezvous(await rendezvous()))
        return environment

    def _write_rendezvous(self, text: str) -> Path:
        path = self._rendezvous
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
        return path


def _find(target: str) -> FoundJob:
    """Find a job by a number that can be a process's or a Slurm job's; the process comes first."""
    if not target.isdecimal():
        return _find_in_slurm(target)
    try:
        return _with_slurm_hosts(discover.find_job(int(target)))
    except DiscoveryError as error:
        if not slurm.is_available():
            raise
        try:
            return _find_in_slurm(target)
        except DiscoveryError as in_slurm:
            raise DiscoveryError(f"{error}; nor is it a job of Slurm: {in_slurm}") from None


def _with_slurm_hosts(job: FoundJob) -> FoundJob:
    """Add the hosts that only Slurm knows: of a launcher whose daemons srun has started."""
    has_all = job.job_size is not None and len(job.table.processes) >= job.job_size
    if not job.slurm_job or has_all or len(job.hosts) > 1 or not slurm.is_available():
        return job
    try:
        # The whole job's, whatever else runs in it as a step.
        hosts = slurm.find_step(f"{job.slurm_job}.batch").hosts
    except DiscoveryError as error:
        step = DiscoveryStep(name="Slurm", outcome=str(error))
        return replace(job, steps=(*job.steps, step))
    return replace(job, hosts=hosts)


def _find_in_slurm(target: str) -> FoundJob:
    found = slurm.find_step(target)
    step = found.step
    steps = []
    if step is not None and step.srun_pid and mpir.is_this_host(step.srun_host):
        try:
            return discover.find_job(step.srun_pid)
        except DiscoveryError as error:
            steps.append(DiscoveryStep(name="srun's MPIR_proctable", outcome=str(error)))
    name = f"Slurm job {found.job}" if step is None else f"Slurm step {step.target}"
    outcome = f"{name} runs on {', '.join(found.hosts)}"
    steps.append(DiscoveryStep(name="Slurm", outcome=outcome))
    return FoundJob(
        launcher_pid=0,
        table=ProcTable(processes=(), source=name),
        steps=tuple(steps),
        job_size=step.tasks if step is not None else None,
        local_ranks=RankSet(),
        ended=RankSet(),
        hosts=found.hosts,
        selector=f"slurm:{found.job if step is None else step.target}",
        slurm_job=found.job,
        command=(),
    )


def _locate(job: FoundJob) -> Located:
    launcher, notes = _launcher_of(job.launcher_pid) if job.launcher_pid else (None, ())
    refusals = []
    for process in job.table.processes:
        if process.rank not in job.local_ranks:
            break
        if (why := procfs.why_not_traceable(process.pid)) is None:
            break
        refusals.append(why)
    else:
        return Located(job=job, launcher=launcher, refusals=tuple(refusals[:1]), notes=notes)
    return Located(job=job, launcher=launcher, notes=notes)


def _launcher_of(pid: int) -> tuple[Launcher | None, tuple[str, ...]]:
    """Return what has launched a job, if it is a program that we may run, and notes."""
    if not procfs.is_foreign(pid):
        return launcher_of_process(pid, lambda path: True), ()
    refused: list[Path] = []

    def may_run(path: Path) -> bool:
        if not (is_ours := _is_ours(path)):
            refused.append(path)
        return is_ours

    found = launcher_of_process(pid, may_run)
    return found, tuple(
        f"{path} is what another user may have put there, and is not run for you; the aggregators "
        "are started by what PATH has (--overlay-launcher names another)"
        for path in refused
    )


def _is_ours(path: Path) -> bool:
    """Return whether nobody but this user and root can have made the file that is at *path*."""
    real = os.path.realpath(path)
    try:
        status = os.stat(real)
    except OSError:
        return False
    is_safe = status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022
    return is_safe and is_safe_place(os.path.dirname(real))


def _choose_launcher(words: Sequence[str], located: Located) -> Launcher | None:
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


async def _answers(host: str) -> bool:
    address = addresses.resolve(host)
    if address is None:
        return True  # ssh may know it by another name
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            _, writer = await asyncio.open_connection(address, _SSH_PORT)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _program(start: AggregatorStart) -> tuple[str, ...]:
    return start.program or (start.python or sys.executable, "-P", "-m", "pgdb.backend")


_TRAVELLING = frozenset({"PYTHONPATH", "LD_LIBRARY_PATH", "MPI4PY_LIBMPI", "XDG_CACHE_HOME"})


def _unusable_folders(environment: Mapping[str, str]) -> list[str]:
    """Return the variables whose place for temporary files we cannot write to."""
    return [
        name
        for name in ("TMPDIR", "TEMP", "TMP")
        if (folder := environment.get(name, ""))
        and not (os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK))
    ]


def _must_travel(name: str) -> bool:
    """Return whether a launcher must be told to bring a variable to other hosts."""
    return name.startswith("PGDB_") or name in _TRAVELLING


def _ssh_line(start: AggregatorStart, environment: dict[str, str]) -> tuple[str, ...]:
    """Return the line that starts the aggregator of one host over ssh.

    What is secret goes through its input; the line can be read by others.
    """
    told = {
        name: value
        for name, value in environment.items()
        if _must_travel(name) and name not in (RENDEZVOUS_TEXT_VARIABLE, RENDEZVOUS_VARIABLE)
    }
    told[WATCH_INPUT_VARIABLE] = "1"
    assignments = (f"{name}={value}" for name, value in told.items())
    command = shlex.join(["env", *assignments, *_program(start)])
    return (*(start.words or ("ssh",)), "-o", "BatchMode=yes", start.hosts[0], f"exec {command}")


def own_python_path() -> str:
    """Return a PYTHONPATH with which another Python imports the PGDB that is running here.

    :raises DiscoveryError: if it comes from no file.
    """
    if pgdb.__file__ is None:
        raise DiscoveryError("pgdb is not imported from a file; install it with pip")
    own = str(Path(pgdb.__file__).resolve().parent.parent)
    before = absolute_parts(os.environ.get("PYTHONPATH", ""))
    return os.pathsep.join(part for part in (own, before) if part)
