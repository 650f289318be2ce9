"""Start the aggregators of a session and end them: the overlay, seen from the front end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from pgdb.errors import StartError
from pgdb.frontend.job import OverlayLauncher
from pgdb.frontend.options import SessionOptions
from pgdb.frontend.root import Gathered, Root
from pgdb.jobs.launchers import (
    Family,
    Launcher,
    mpi4py_environment,
    overlay_line,
    scrubbed_environment,
)
from pgdb.merge.answer import EquivalenceClass
from pgdb.overlay.channel import Listener, listen
from pgdb.overlay.credentials import make_credentials
from pgdb.overlay.messages import Joined, Lost, Shutdown
from pgdb.overlay.rendezvous import (
    RENDEZVOUS_VARIABLE,
    USER_LIBRARY_PATH_VARIABLE,
    USER_PYTHONPATH_VARIABLE,
    WIRE_UP_VARIABLE,
    Rendezvous,
)
from pgdb.overlay.topology import Topology
from pgdb.records import Event

LOG = logging.getLogger(__name__)

LEAVE_TIMEOUT_S = 20.0


class SessionDirectory:
    """A directory of the session's own, readable by its user alone."""

    def __init__(self) -> None:
        base = os.environ.get("XDG_RUNTIME_DIR", "")
        usable = bool(base) and os.access(base, os.W_OK)
        self.path = Path(tempfile.mkdtemp(prefix="pgdb-", dir=base if usable else None))
        self.mark = f"pgdb-{secrets.token_hex(12)}"
        """What the held ranks of this session carry; no secret."""

    @property
    def log(self) -> Path:
        """Log of the aggregators and their launcher."""
        return self.path / "aggregators.log"

    @property
    def rendezvous(self) -> Path:
        """What aggregators read that cannot be told by MPI; gone once they have."""
        return self.path / "rendezvous"

    @property
    def leftover_output(self) -> Path:
        """Where the job's output goes if the front end dies."""
        return self.path / "job-output.log"

    def remove(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.path, ignore_errors=True)


class Overlay:
    """The aggregators of one session."""

    def __init__(
        self,
        options: SessionOptions,
        directory: SessionDirectory,
        *,
        on_events: Callable[[tuple[EquivalenceClass[Event], ...]], None],
        on_late: Callable[[Gathered], None],
        on_lost: Callable[[Lost], None],
    ) -> None:
        self._options = options
        self._directory = directory
        self._on_lost = on_lost
        self._loss_at_start: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._all_joined = asyncio.Event()
        self._launcher: OverlayLauncher | None = None
        self._listener: Listener | None = None
        self._started = False
        self.root = Root(
            Topology(count=options.aggregators, fan_out=options.fan_out),
            on_events=on_events,
            on_late=on_late,
            on_lost=self._lost,
            on_joined=self._joined,
        )

    @property
    def launcher_pid(self) -> int:
        """Process id of the aggregators' launcher, 0 if there is none."""
        return self._launcher.pid if self._launcher is not None else 0

    async def start(self, launcher: Launcher) -> None:
        """Start the aggregators by *launcher* and wait until all are in the tree.

        Where MPI does not come up among them they are started again to wire up without it.

        :raises StartError: if they do not come up that way either; whoever waits brings the
            deadline.
        """
        credentials = make_credentials()
        self._listener = await listen("127.0.0.1", credentials, self.root.serve_child)
        rendezvous = Rendezvous(
            credentials=credentials.decode("ascii"),
            front_end=f"127.0.0.1:{self._listener.port}",
            fan_out=self._options.fan_out,
            count=self._options.aggregators,
            grace_s=self._options.grace_s,
        ).dump()
        descriptor = os.open(
            self._directory.rendezvous, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600
        )
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(rendezvous)
        wire_up = self._options.wire_up
        if wire_up == "auto":
            wire_up = "direct" if launcher.family is Family.SLURM else "mpi"
        try:
            await self._start_once(launcher, wire_up, rendezvous)
        except StartError as error:
            if wire_up == "direct" or self._options.wire_up == "mpi":
                raise
            LOG.warning("the aggregators' MPI did not come up: %s; going without", error)
            await self._start_once(launcher, "direct", rendezvous)
        self._started = True
        self._directory.rendezvous.unlink(missing_ok=True)

    async def _start_once(self, launcher: Launcher, wire_up: str, rendezvous: str) -> None:
        environment = self._environment(launcher, wire_up)
        line = overlay_line(
            launcher, self._options.aggregators, [sys.executable, "-P", "-m", "pgdb.backend"]
        )
        self._launcher = await OverlayLauncher.start(
            line, environment=environment, rendezvous=rendezvous, log=self._directory.log
        )
        joined = asyncio.ensure_future(self._all_joined.wait())
        ended = asyncio.ensure_future(self._launcher.process.wait())
        try:
            done, _ = await asyncio.wait(
                (joined, ended, self._loss_at_start), return_when=asyncio.FIRST_COMPLETED
            )
            if joined in done:
                return
            if self._loss_at_start in done:
                raise StartError(self._loss_at_start.result())
            words = self._launcher.last_words()
            raise StartError(f"the aggregators' launcher ended at once: {words or 'no message'}")
        finally:
            for task in (joined, ended):
                task.cancel()

    def _environment(self, launcher: Launcher, wire_up: str) -> Mapping[str, str]:
        environment = scrubbed_environment(os.environ)
        environment[USER_LIBRARY_PATH_VARIABLE] = environment.get("LD_LIBRARY_PATH", "")
        if wire_up == "mpi":
            environment.update(mpi4py_environment(launcher, self._directory.path))
        if os.geteuid() == 0:
            # Open MPI asks root whether that is meant; for our own processes it is.
            environment["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
            environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        environment[WIRE_UP_VARIABLE] = wire_up
        environment[RENDEZVOUS_VARIABLE] = str(self._directory.rendezvous)
        environment[USER_PYTHONPATH_VARIABLE] = environment.get("PYTHONPATH", "")
        environment["PYTHONPATH"] = _python_path()
        if self._options.verbose:
            environment["PGDB_LOG_LEVEL"] = "INFO"
        return environment

    async def close(self) -> None:
        """Have all aggregators let their ranks go and leave; return when they are gone."""
        daemons = [hello.pid for hello in self.root.joined.values()]
        self.root.down(Shutdown())
        if self._launcher is not None:
            # Aggregators that are not in the tree yet hear of nothing; with their launcher gone
            # they leave by themselves.
            if self._all_joined.is_set():
                try:
                    async with asyncio.timeout(LEAVE_TIMEOUT_S):
                        await self._launcher.process.wait()
                except TimeoutError:
                    LOG.warning("the aggregators do not leave; ending their launcher")
            await self._launcher.end()
        await asyncio.gather(*(_wait_gone(pid, LEAVE_TIMEOUT_S) for pid in daemons))
        if self._listener is not None:
            await self._listener.close()
        self._directory.rendezvous.unlink(missing_ok=True)

    def last_words(self) -> str:
        """Return the end of the aggregators' log, on one line."""
        return self._launcher.last_words() if self._launcher is not None else ""

    def progress(self) -> tuple[int, int]:
        """Return how many aggregators are in the tree, and how many there are to be."""
        return len(self.root.joined), self._options.aggregators

    def _joined(self, message: Joined) -> None:
        del message
        if len(self.root.joined) == self._options.aggregators:
            self._all_joined.set()

    def _lost(self, message: Lost) -> None:
        if not self._started and not self._loss_at_start.done():
            nodes = ", ".join(str(node) for node in message.nodes)
            self._loss_at_start.set_result(f"aggregator {nodes} was lost: {message.why}")
        self._on_lost(message)


async def _wait_gone(pid: int, timeout_s: float) -> None:
    """Wait until a process that is not our child has ended."""
    try:
        watched = os.pidfd_open(pid)
    except OSError:
        return
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    loop.add_reader(watched, gone.set)
    try:
        async with asyncio.timeout(timeout_s):
            await gone.wait()
    except TimeoutError:
        LOG.warning("the aggregator with process id %d does not leave", pid)
    finally:
        loop.remove_reader(watched)
        os.close(watched)


def _python_path() -> str:
    """Return a PYTHONPATH with which the aggregators import the PGDB that is running here."""
    package = Path(__file__).resolve()
    with contextlib.suppress(ImportError):
        import pgdb

        assert pgdb.__file__ is not None
        package = Path(pgdb.__file__).resolve()
    own = str(package.parent.parent)
    before = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(part for part in (own, before) if part)
