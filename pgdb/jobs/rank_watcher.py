"""Watch one rank as its parent, and report its start, its activity and its end.

The job's launcher runs it in place of the program, as ``python -I -S rank_watcher.py MARK
HOST:PORT[,HOST:PORT...] HOLD_S LOOK_S CORES OUTPUT -- PROGRAM ARGUMENT...``. It starts the program
as its child, closes what it shares with it, and waits: only a parent learns the exit status of a
process on every kernel. It ends as the program did, so that the launcher sees the same.

Each report is a connection of its own to the front end, with :func:`hold.report`. After an end that
is not ``exit(0)`` it waits at most HOLD_S seconds for the front end to close that connection: the
launcher has not learned of the end yet, and the other ranks still are where they were. A front end
that is gone has closed it, too. If PGDB dies, the job runs on.

A signal to the launcher's process group has reached the program already. A signal to this process
alone is passed on. If this process is killed, the kernel kills the program as well.

With OUTPUT ``by-rank``, a relay passes the program's output on (:mod:`pgdb.jobs.rank_output`), and
this process reports the end of that output.

This file runs on the job's hosts. It uses the standard library only, and modules beside it.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Sequence
from types import ModuleType

TYPE_CHECKING = False
"""As in :mod:`typing`, whose import would take time in each rank."""
if TYPE_CHECKING:
    from typing import Any

    RankOutput = Any
    """``rank_output.RankOutput``, of a module that is loaded by its path."""

WATCHER_NAME = "pgdb-watch"
"""Name (/proc/PID/comm) of a watcher."""
ENDED_NAME = "pgdb-end"
"""Name of a watcher that keeps its launcher from learning of the rank's end; the status follows."""
_CONNECT_S = 5.0
_OUTPUT_S = 1.0
"""Time between two reports of output, in seconds."""
_PASSED_ON = frozenset(
    {
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGALRM,
        signal.SIGXCPU,
        signal.SIGCONT,
        signal.SIGTSTP,
        signal.SIGWINCH,
        signal.SIGURG,
        signal.SIGVTALRM,
        signal.SIGPROF,
        signal.SIGPWR,
        signal.SIGIO,
    }
)
"""Signals that someone may send to a rank to inform it."""
_ENDS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
"""Signals that a launcher sends to end a rank."""
_PR_SET_PDEATHSIG = 1


def _load(name: str) -> ModuleType:
    """Return the module of a file beside this one; -I leaves no path on which to import it."""
    from importlib.util import module_from_spec, spec_from_file_location

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Reporter:
    """Sender of reports of one rank to the front end."""

    def __init__(self, hold: ModuleType, mark: str, addresses: Sequence[str]) -> None:
        self._hold = hold
        self._mark = mark
        self._addresses = list(addresses)
        rank, size, local_rank, _ = hold.identity(os.environ)
        self._who = [str(rank), str(size), str(local_rank), os.uname().nodename]
        self._who.append(hold.spawned_world(os.environ))

    def send(self, kind: str, *fields: object) -> socket.socket | None:
        """Send a report; return the connection, or None if the front end cannot be reached."""
        message = self._hold.report(self._mark, [kind, *self._who, *map(str, fields)])
        for address in tuple(self._addresses):
            host, _, port = address.rpartition(":")
            try:
                link = socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S)
                link.sendall(message)
            except OSError:
                continue
            # The next report begins with the address that worked.
            self._addresses.remove(address)
            self._addresses.insert(0, address)
            return link
        return None

    def report(self, kind: str, *fields: object) -> None:
        """Send a report, and wait until the front end has read it.

        It looks up the user of the other end, which an end that is closed does not have any longer.
        """
        if (link := self.send(kind, *fields)) is not None:
            with contextlib.suppress(OSError):
                link.recv(1)
            link.close()


def _become_program(
    hold: ModuleType,
    program: list[str],
    mask: set[int | signal.Signals],
    ignored: set[int],
    cores: str,
    output: RankOutput | None,
) -> None:
    """Execute the program in the child; does not return."""
    code = 127
    try:
        if output is not None:
            output.take_over()
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if cores == "on":
            with contextlib.suppress(OSError, ValueError):
                hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
                resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        for each in (signal.SIGPIPE, signal.SIGXFSZ):
            if each not in ignored:
                signal.signal(each, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL if not _ignores(ignored) else signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        hold._execute(program, "")
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 127
    finally:
        os._exit(code)


def _ignores(ignored: set[int]) -> bool:
    return signal.SIGINT in ignored or signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def _release_shared_files() -> None:
    """Close what the program has inherited, too: its readers wait for the last copy.

    hydra takes the end of its PMI connection for the end of the rank, and kills the job at once. So
    that connection stays open until this process has passed on how the rank has ended.
    """
    kept = os.environ.get("PMI_FD", "")
    null = os.open(os.devnull, os.O_RDWR)
    for each in (0, 1, 2):
        os.dup2(null, each)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and name != kept:
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                os.close(int(name))


def activity(pid: int) -> tuple[int, int] | None:
    """Return the bytes that a process has read and written so far, None if that is unknown."""
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            counts = dict(line.split(": ") for line in file.read().splitlines())
        return int(counts["rchar"]), int(counts["wchar"])
    except (OSError, ValueError, KeyError):
        return None


class Watch:
    """The wait for the end of one program."""

    def __init__(
        self, reporter: Reporter, pid: int, look_s: float, output: RankOutput | None
    ) -> None:
        self._reporter = reporter
        self._pid = pid
        self._look_s = look_s
        self._output = output
        self._activity = activity(pid)
        self._leads = os.getpgid(0) == os.getpid() and os.getpgid(pid) == os.getpid()

    def wait(self) -> tuple[int, resource.struct_rusage]:
        """Pass on signals, and report activity, until the program ends."""
        look_at = time.monotonic() + (self._look_s or math.inf)
        output_at = time.monotonic() + _OUTPUT_S if self._output is not None else math.inf
        while True:
            ended, status, usage = os.wait4(self._pid, os.WNOHANG)
            if ended:
                return status, usage
            left = min(look_at, output_at, time.monotonic() + 3600.0) - time.monotonic()
            received = signal.sigtimedwait({signal.SIGCHLD, *_PASSED_ON}, max(left, 0.0))
            if received is None:
                if time.monotonic() >= look_at:
                    self._look()
                    look_at = time.monotonic() + self._look_s
                if time.monotonic() >= output_at:
                    self.report_output()
                    output_at = time.monotonic() + _OUTPUT_S
            elif received.si_signo in _PASSED_ON and self._is_for_this_process(received):
                # A debugger that attaches to this process can make the call return nonsense.
                with contextlib.suppress(OSError):
                    os.kill(self._pid, received.si_signo)

    def _is_for_this_process(self, received: signal.struct_siginfo) -> bool:
        """Return whether a signal has not reached the program, too.

        The kernel's own signals (a terminal's) go to the whole group. Open MPI's daemons and hydra
        make a group for each rank and send signals to the group; slurmstepd sends them to its
        children.
        """
        if received.si_code > 0:
            return False
        return not (self._leads and received.si_pid == os.getppid())

    def report_output(self) -> None:
        """Report the end of the output, if there is more than at the last report."""
        if self._output is not None and (news := self._output.news()):
            self._reporter.report("output", self._pid, *news)

    def _look(self) -> None:
        now = activity(self._pid)
        if now is not None and now != self._activity:
            self._reporter.report("active", self._pid)
        self._activity = now


def _output() -> RankOutput | None:
    """Start the relay of the program's output; None if there is no output, or no relay."""
    channels = _load("output_channels")
    if not channels.streams():
        return None
    try:
        found: RankOutput = _load("rank_output").RankOutput(channels, _load("output_relay"))
    except OSError as error:
        sys.stderr.write(f"pgdb: --output-by-rank: {error}\n")
        sys.stderr.flush()
        return None
    return found


def _wait_for_release(link: socket.socket, seconds: float, status: int) -> None:
    """Wait until the front end closes the connection, or the launcher wants this process to end.

    Meanwhile the name of this process says how the rank has ended: a launcher still names this
    process as the rank, to a debugger too.
    """
    import select

    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as name:
        name.write(f"{ENDED_NAME} {status}")
    link.setblocking(False)
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([link], [], [], min(left, 0.2))
        if ready:
            return
        received = signal.sigtimedwait(_ENDS, 0)
        if received is not None:
            return


def _end_as(status: int) -> None:
    """End this process as the program has ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        # One core file of the program is enough.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        os._exit(128 + number)
    os._exit(os.WEXITSTATUS(status))


def main(argv: list[str]) -> None:
    """Start the program, wait for its end, and end in the same way."""
    mark, addresses, hold_s, look_s, cores, output_by, separator, *program = argv[1:]
    if separator != "--" or not program:
        raise SystemExit("pgdb rank watcher: no program given")
    hold = _load("hold")
    ignored = hold._ignored_by_parent()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *_PASSED_ON})
    directory = os.getcwd()
    output = _output() if output_by == "by-rank" else None
    began = time.time()
    pid = os.fork()
    if not pid:
        _become_program(hold, program, mask, ignored, cores, output)
    _release_shared_files()
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as comm:
        comm.write(WATCHER_NAME)
    reporter = Reporter(hold, mark, addresses.split(","))
    reporter.report("start", pid, began, directory, *program)
    watch = Watch(reporter, pid, float(look_s), output)
    status, usage = watch.wait()
    if output is not None:
        output.wait_passed_on()
        watch.report_output()
    link = reporter.send(
        "end", pid, status, time.time(), directory, round(usage.ru_utime + usage.ru_stime, 3)
    )
    if link is not None:
        _wait_for_release(link, max(float(hold_s), _CONNECT_S) if status else _CONNECT_S, status)
        link.close()
    _end_as(status)


if __name__ == "__main__":
    main(sys.argv)
