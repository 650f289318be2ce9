"""Places of aggregators: the hosts, the way there, and the end of a process there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Sequence

import msgspec

from pgdb.bootstrap_env import AGGREGATOR_NAME
from pgdb.jobs import procfs
from pgdb.jobs.launchers import Launcher
from pgdb.overlay import addresses
from pgdb.overlay.messages import Hello

LOG = logging.getLogger(__name__)


class Place(msgspec.Struct, frozen=True):
    """The hosts for aggregators, and the launcher that starts them there."""

    launcher: Launcher | None
    """The launcher; None for ssh, or where there are no *hosts*, for processes of this host."""
    hosts: tuple[str, ...] = ()
    """The hosts, as their launcher names them; empty for the site's own host alone."""
    slurm_job: str = ""
    job_pid: int = 0
    """Process id of the job's launcher, 0 if it is not on the site's host."""
    job_command: tuple[str, ...] = ()
    local_pid: int = 0
    """Process of a rank on the site's host; 0 if there is none, or too few for a symbol prefetch.
    """


def name_of(hello: Hello, hosts: Sequence[str]) -> str:
    """Return the launcher's name for a host."""
    named = (hello.host, *hello.names)
    for host in hosts:
        if host in named or addresses.resolve(host) in hello.names:
            return host
    return hello.host


def explain(words: str, python: str = "") -> str:
    """Return the last words of the aggregators' launcher, with a remedy if one is known."""
    hint = ""
    if "No module named" in words:
        hint = "PGDB is not there for that Python: --remote-python names another, --ship sends it"
    elif "cannot connect to" in words:
        hint = "--listen names an address of this host that it reaches, --connect calls it"
    elif python and python in words:
        hint = "--remote-python names the Python of the job's hosts"
    return f"{words}; {hint}" if hint else words


def hangs_between_hosts(place: Place) -> bool:
    """Return whether the MPI of our processes would hang when these end."""
    # MPICH 4.0 does not return from MPI_Finalize between hosts (tried with Debian's 4.0.2).
    launcher = place.launcher
    return len(place.hosts) > 1 and launcher is not None and "MPICH 4.0" in launcher.version


async def wait_gone(pid: int, timeout_s: float) -> None:
    """Wait until a process that is not our child has ended."""
    try:
        watched = os.pidfd_open(pid)
    except OSError:
        return
    # A process that was lost long ago may have ended, and another one may have its number.
    named = procfs.read_stat(pid)
    if named is None or named.comm != AGGREGATOR_NAME:
        os.close(watched)
        return
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    loop.add_reader(watched, gone.set)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await gone.wait()
        if not gone.is_set():
            LOG.warning("the aggregator with process id %d hangs, and is ended", pid)
            # Its GDBs see the end of their input, and detach from their ranks.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(watched, signal.SIGKILL)
    finally:
        loop.remove_reader(watched)
        os.close(watched)
