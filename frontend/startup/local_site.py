"""The front end's host as the site of a session."""

from __future__ import annotations

import asyncio
import io
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

import pgdb
from pgdb.errors import DiscoveryError
from pgdb.frontend.discovery import discover, explicit_pids, listing
from pgdb.frontend.discovery.listing import RunningJob
from pgdb.frontend.discovery.targets import find_target
from pgdb.frontend.startup import job_launchers
from pgdb.frontend.startup.job import OverlayLauncher
from pgdb.frontend.startup.session_directory import check_own
from pgdb.frontend.startup.site import (
    AggregatorStart,
    GetRendezvous,
    Located,
    OnLine,
    WorldPlaces,
)
from pgdb.jobs import procfs
from pgdb.jobs.launchers import Family, Launcher
from pgdb.jobs.placement import (
    absolute_parts,
    bootstrap_environment,
    bootstrap_options,
    mpi4py_environment,
    overlay_line,
    scrubbed_environment,
)
from pgdb.overlay import addresses
from pgdb.overlay.rendezvous import (
    FIRST_NODE_VARIABLE,
    RENDEZVOUS_TEXT_VARIABLE,
    RENDEZVOUS_VARIABLE,
    USER_LIBRARY_PATH_VARIABLE,
    USER_PYTHONPATH_VARIABLE,
    USER_SEARCH_PATH_VARIABLE,
    WATCH_INPUT_VARIABLE,
    WIRE_UP_VARIABLE,
)

PROBE_TIMEOUT_S = 2.0
SSH_PORT = 22


class LocalSite:
    """Site of this host."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._rendezvous = directory / "rendezvous"

    async def find(self, target: str) -> Located:
        """Find a job by a process id of this host, or by a Slurm job or step.

        :raises DiscoveryError: if there is none.
        """
        job = await asyncio.to_thread(find_target, target)
        return await asyncio.to_thread(job_launchers.locate, job)

    async def find_pids(self, entries: Sequence[str]) -> Located:
        """Make a job of explicit pids, each ``PID`` or ``HOST:PID``.

        :raises DiscoveryError: if one of them cannot be a rank.
        """
        job = await asyncio.to_thread(explicit_pids.find_pids, entries)
        return await asyncio.to_thread(job_launchers.locate, job)

    async def world_places(self, launcher_pid: int) -> WorldPlaces:
        """Return where the worlds of a launcher of this host may be."""
        return WorldPlaces(*await asyncio.to_thread(discover.world_places, launcher_pid))

    async def jobs(self) -> tuple[RunningJob, ...]:
        """List the jobs of this host, and of its Slurm."""
        return await asyncio.to_thread(listing.list_jobs)

    async def choose_launcher(self, words: Sequence[str], located: Located) -> Launcher | None:
        """Return the launcher for the aggregators of a job: None for ssh.

        :raises StartError: if there is none.
        """
        return await asyncio.to_thread(job_launchers.choose_launcher, words, located)

    async def start(
        self, start: AggregatorStart, on_line: OnLine, rendezvous: GetRendezvous
    ) -> OverlayLauncher:
        """Start aggregators; those that read *rendezvous* from their input start before it is
        known.

        :raises StartError: if the program that starts them cannot be run.
        """
        addresses.check_host_names(start.hosts)
        check_own(self._directory)
        if start.job_pid and procfs.is_foreign(start.job_pid):
            # The programs that reach its hosts are that user's choice, and we would run them.
            start = replace(start, job_pid=0, job_command=())
        environment = await self._environment(start, rendezvous)
        keep_input = False
        if start.launcher is None and not start.hosts:
            argv = _program(start)
            environment[WATCH_INPUT_VARIABLE] = "1"
            keep_input = True
        elif start.launcher is None:
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

        A launcher prints nothing while ssh waits for a host that is down, usually for two minutes.
        """
        own = addresses.own_names()
        others = [host for host in hosts if host not in own]
        answers = await asyncio.gather(*map(_answers, others))
        return tuple(host for host, here in zip(others, answers, strict=True) if not here)

    async def settle(self) -> None:
        """Remove the files that aggregators had to read; all aggregators have started."""
        self._rendezvous.unlink(missing_ok=True)

    async def examine(self, *, as_json: bool, gdb: str) -> tuple[str, int]:
        """Return the doctor's report on this host, and its exit status."""
        # The doctor's imports cost more than those of the rest of the start, and few sessions need
        # it.
        from pgdb.frontend.startup.doctor import run_doctor

        out = io.StringIO()
        status = await asyncio.to_thread(run_doctor, as_json=as_json, gdb=gdb, out=out)
        return out.getvalue(), status

    async def close(self) -> None:
        """Leave the site; there is nothing to do here."""

    async def _environment(
        self, start: AggregatorStart, rendezvous: GetRendezvous
    ) -> dict[str, str]:
        environment = scrubbed_environment(os.environ)
        for name in await asyncio.to_thread(_unusable_folders, environment):
            # Open MPI's launcher would end at once; all other programs use another directory.
            del environment[name]
        if start.job_pid:
            environment.update(bootstrap_environment(start.job_pid))
        if libraries := absolute_parts(environment.pop("LD_LIBRARY_PATH", "")):
            environment["LD_LIBRARY_PATH"] = libraries
        environment[USER_LIBRARY_PATH_VARIABLE] = environment.get("LD_LIBRARY_PATH", "")
        if start.launcher is not None and start.wire_up == "mpi":
            environment.update(mpi4py_environment(start.launcher, self._directory))
        if os.geteuid() == 0:
            # Open MPI refuses to start processes for root unless that is confirmed; for our own it
            # is.
            for name in ("OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT"):
                environment[name] = environment[f"{name}_CONFIRM"] = "1"
        environment[WIRE_UP_VARIABLE] = start.wire_up
        environment[FIRST_NODE_VARIABLE] = str(start.first_node)
        environment[USER_PYTHONPATH_VARIABLE] = environment.get("PYTHONPATH", "")
        environment[USER_SEARCH_PATH_VARIABLE] = environment.get("PATH", "")
        environment["PYTHONPATH"] = (
            own_python_path() if start.python_path is None else start.python_path
        )
        environment.update(start.variables)
        family = start.launcher.family if start.launcher is not None else None
        if start.wire_up == "direct" and family not in (None, Family.SLURM):
            if start.hosts:
                # No file exists on all hosts, and only the first aggregator gets the launcher's
                # input.
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


async def _answers(host: str) -> bool:
    address = addresses.resolve(host)
    if address is None:
        return True  # ssh may know it by another name
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            _, writer = await asyncio.open_connection(address, SSH_PORT)
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
    """Return the variables whose directory for temporary files we cannot write to."""
    return [
        name
        for name in ("TMPDIR", "TEMP", "TMP")
        if (folder := environment.get(name, ""))
        and not (os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK))
    ]


def _must_travel(name: str) -> bool:
    """Return whether the launcher must export a variable to other hosts."""
    return name.startswith("PGDB_") or name in _TRAVELLING


def _ssh_line(start: AggregatorStart, environment: dict[str, str]) -> tuple[str, ...]:
    """Return the line that starts the aggregator of one host over ssh.

    Secrets go through the aggregator's input, since other users can read the line.
    """
    variables = {
        name: value
        for name, value in environment.items()
        if _must_travel(name) and name not in (RENDEZVOUS_TEXT_VARIABLE, RENDEZVOUS_VARIABLE)
    }
    variables[WATCH_INPUT_VARIABLE] = "1"
    assignments = (f"{name}={value}" for name, value in variables.items())
    command = shlex.join(["env", *assignments, *_program(start)])
    return (*(start.words or ("ssh",)), "-o", "BatchMode=yes", start.hosts[0], f"exec {command}")


def own_python_path() -> str:
    """Return a PYTHONPATH with which another Python imports the PGDB that is running here.

    :raises DiscoveryError: if PGDB is not imported from a file.
    """
    if pgdb.__file__ is None:
        raise DiscoveryError("pgdb is not imported from a file; install it with pip")
    own = str(Path(pgdb.__file__).resolve().parent.parent)
    before = absolute_parts(os.environ.get("PYTHONPATH", ""))
    return os.pathsep.join(part for part in (own, before) if part)
