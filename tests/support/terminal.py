"""PGDB driven from outside, as its users do: in batch, and at a pseudo terminal.

Every process started here carries a mark in its environment, which all that it starts inherits,
so that what PGDB leaves behind is found whatever its name or its parent.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import selectors
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pgdb.ranks import RankSet
from tests.support import processes
from tests.support.finished import Finished
from tests.support.hosts import Hosts
from tests.support.processes import (
    LEAVE_DEADLINE_S,
    POLL_S,
    is_traced,
    kill_all,
    parent_of,
    processes_with,
    status,
    switches_of,
    wait_until,
)
from tests.support.programs import Program

PGDB = (sys.executable, "-m", "pgdb")
MARK = "PGDB_TEST_MARK"
DEADLINE_S = 120.0
LEAVE_S = 10.0
"""Nothing of a session is to be left after that. The soak fails if something is; tests have a limit
for machines that are busier still, and the end of a run says how long it took."""
LEAVING_S: list[float] = []
"""Time that the processes of each session took to end after the grace time, in seconds."""
PROMPT = r"\(pgdb [0-9,/-]+( running)?\)"
# The last: one that has not come whole yet.
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[()=>].?|(?:\[[0-9;?]*|\][^\x07\x1b\n]*)?\Z)"
)


def environment(mark: str, changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a marked process."""
    return {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        **(changes or {}),
        MARK: mark,
    }


def default_signals() -> None:
    """Let what is started from now on heed SIGHUP and SIGINT, which our own starter may ignore."""
    for number in (signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def marked(mark: str) -> dict[int, str]:
    """Return pid and command line of the processes that carry a mark; zombies carry none."""
    return processes_with(f"{MARK}={mark}")


def children_with(parent: int, mark: str, part: str) -> list[int]:
    """Return a process's marked children whose command line has a part."""
    return [pid for pid, line in marked(mark).items() if part in line and parent_of(pid) == parent]


def assert_nothing_left(
    mark: str, *, grace_s: float = 0.0, deadline_s: float = LEAVE_DEADLINE_S
) -> None:
    """Check that all that carries the mark ends by itself, and end it otherwise.

    Where the session has lost its front end just now, that takes its grace time first.
    """
    try:
        wait_gone(lambda: marked(mark), grace_s=grace_s, deadline_s=deadline_s)
    finally:
        end_marked(mark)


def wait_gone(
    find: Callable[[], Mapping[int, str]],
    *,
    grace_s: float = 0.0,
    deadline_s: float = LEAVE_DEADLINE_S,
) -> None:
    """Wait until processes have ended by themselves, and note how long it took."""
    begun_s = time.monotonic()
    while left := find():
        if time.monotonic() >= begun_s + grace_s + deadline_s and (left := find()):
            raise AssertionError(f"left behind after {grace_s:g} + {deadline_s:g} s: {left}")
        time.sleep(POLL_S)
    took_s = max(0.0, time.monotonic() - begun_s - grace_s)
    LEAVING_S.append(took_s)
    print(f"nothing was left {took_s:.1f} s after a grace time of {grace_s:g} s")


def end_marked(mark: str) -> None:
    """End all processes that carry a mark, and wait until they are gone."""
    kill_all(lambda: marked(mark), "the marked processes")


def run_pgdb(
    *arguments: object,
    stdin: bytes = b"",
    changes: Mapping[str, str] | None = None,
    deadline_s: float = DEADLINE_S,
    leaves: bool = False,
    command: Sequence[str] = PGDB,
    cwd: Path | None = None,
    has_tracebacks: bool = False,
) -> Finished:
    """Run PGDB to its end; unless it may leave a job behind, nothing of it is left then.

    A traceback is a fault of PGDB, except in a test whose GDBs print tracebacks of their own.
    """
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        [*command, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(mark, changes),
        start_new_session=True,
        cwd=cwd,
    )
    try:
        out, err = process.communicate(stdin, timeout=deadline_s)
    except subprocess.TimeoutExpired:
        end_marked(mark)
        process.kill()
        out, err = process.communicate()
        raise AssertionError(
            f"pgdb has not ended within {deadline_s:g} s; out: {out!r}, err: {err!r}"
        ) from None
    finished = Finished(process.returncode, out, err, mark)
    if not has_tracebacks:
        assert "Traceback" not in finished.err + finished.out, finished.err + finished.out
    if not leaves:
        assert_nothing_left(mark)
    return finished


def run_json(*arguments: object, **how: Any) -> Finished:
    """Run PGDB with ``--batch --json``: the first word of the arguments is the mode."""
    mode, *rest = arguments
    finished = run_pgdb(mode, "--batch", "--json", *rest, **how)
    assert finished.objects, finished.err
    assert finished.objects[-1]["type"] == "end"
    assert finished.objects[-1]["status"] == finished.status
    return finished


class FrontEnd(subprocess.Popen[bytes]):
    """A run of PGDB that the test looks at meanwhile; with the context all of it ends.

    Its streams are nowhere unless given, as to :class:`subprocess.Popen`.
    """

    def __init__(self, *arguments: object, command: Sequence[str] = PGDB, **how: Any) -> None:
        self.mark = uuid.uuid4().hex
        default_signals()
        nowhere = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        super().__init__(
            [*command, *map(str, arguments)],
            env=environment(self.mark),
            start_new_session=True,
            **(nowhere | how),
        )

    def __exit__(self, *exception: object) -> None:
        end_marked(self.mark)
        self.kill()
        self.communicate(timeout=DEADLINE_S)

    def wait_answered(self, command: str) -> None:
        """Read, with ``--json``, up to the answer to a command, as PGDB names it."""
        assert self.stdout is not None
        # A reader of lines waits for the next line without end.
        ender = threading.Timer(DEADLINE_S, self.kill)
        ender.start()
        try:
            for line in self.stdout:
                reported = json.loads(line)
                if reported["type"] == "answer" and reported["command"] == command:
                    return
        finally:
            ender.cancel()
        raise AssertionError(f"it ended, or {DEADLINE_S:g} s passed, before it answered {command}")


def ex(*commands: str) -> tuple[str, ...]:
    """Return the options that have commands carried out."""
    return tuple(word for each in commands for word in ("-ex", each))


_SHOWN_BEFORE_COUNT = 2000
"""Characters before the last expected text that a failure shows: notices may stand there."""


class Terminal:
    """A program at a pseudo terminal, and all that it has shown."""

    def __init__(
        self, *argv: object, changes: Mapping[str, str] | None = None, columns: int = 200
    ) -> None:
        self.mark = uuid.uuid4().hex
        self._shown = b""
        self._seen = 0
        self.status: int | None = None
        # Without cursor position requests, which a terminal would have to answer.
        settings = {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "NO_COLOR": "1"}
        variables = environment(self.mark, settings | dict(changes or {}))
        words = [str(word) for word in argv]
        default_signals()
        size = struct.pack("HHHH", 40, columns, 0, 0)
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            # Nothing but this: it is a fork of the test process. The size is there before the
            # program can ask for it.
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)
            os.execvpe(words[0], words, variables)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._master, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.hang_up()
        end_marked(self.mark)
        self._reap(DEADLINE_S)

    def hang_up(self) -> None:
        """Take the terminal away."""
        if self._master >= 0:
            self._selector.close()
            os.close(self._master)
            self._master = -1

    @property
    def raw(self) -> bytes:
        """All that has been shown, as it came."""
        return self._shown

    @property
    def text(self) -> str:
        """All that has been shown, without escape sequences."""
        return _ESCAPES.sub("", self._shown.decode("utf-8", "replace")).replace("\r", "")

    @property
    def reads_lines(self) -> bool:
        """Whether the kernel edits typed lines, and no prompt reads single keys."""
        return bool(termios.tcgetattr(self._master)[3] & termios.ICANON)

    def send(self, text: str) -> None:
        """Type something."""
        os.write(self._master, text.encode())

    def line(self, text: str) -> None:
        """Type a line."""
        self.send(text + "\r")

    def control_c(self) -> None:
        """Type Ctrl-C."""
        self.send("\x03")

    def expect(self, pattern: str, *, deadline_s: float = DEADLINE_S) -> re.Match[str]:
        """Wait until something is shown behind what has been expected last."""
        regex = re.compile(pattern)
        end = time.monotonic() + deadline_s
        is_last = False
        while True:
            text = self.text
            if match := regex.search(text, min(self._seen, len(text))):
                self._seen = match.end()
                return match
            assert not is_last, f"no {pattern!r} within {deadline_s:g} s in:\n{self._last_shown}"
            left = end - time.monotonic()
            # We may have been kept from running ourselves: what is there by now counts.
            is_last = left <= 0
            if not self._read(max(0.0, left)):
                raise AssertionError(f"it ended before {pattern!r} in:\n{self._last_shown}")

    @property
    def _last_shown(self) -> str:
        """The text since the last expected one, below the text before that."""
        before, behind = self.text[: self._seen], self.text[self._seen :]
        return f"{before[-_SHOWN_BEFORE_COUNT:]}\n-- expected so far --\n{behind}"

    def expect_all(self, *patterns: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait until several things are shown, in any order.

        The job's output and PGDB's own lines arrive by different routes.
        """
        at = last = self._seen
        end = time.monotonic() + deadline_s
        for pattern in patterns:
            self._seen = at
            self.expect(pattern, deadline_s=max(0.0, end - time.monotonic()))
            last = max(last, self._seen)
        self._seen = last

    def ask(self, text: str, *patterns: str, deadline_s: float = DEADLINE_S) -> None:
        """Type a line, and wait for what is to be shown of it, in any order, and the prompt."""
        at = len(self.text)
        self.line(text)
        self._seen = at
        self.expect_all(*patterns, deadline_s=deadline_s)
        self.expect(PROMPT, deadline_s=deadline_s)

    def expect_ranks(self, pattern: str, ranks: str, *, deadline_s: float = DEADLINE_S) -> None:
        """Wait until *pattern* has been shown for all *ranks*, on one line or more."""
        missing = RankSet.parse(ranks)
        end = time.monotonic() + deadline_s
        while missing:
            left_s = max(0.0, end - time.monotonic())
            shown = self.expect(rf"\[([0-9,/-]+)\] +{pattern}", deadline_s=left_s)
            missing -= RankSet.parse(shown[1])

    def shows(self, pattern: str, *, within_s: float) -> bool:
        """Return whether something is shown within a time, without taking it as expected."""
        end = time.monotonic() + within_s
        while not re.compile(pattern).search(self.text, self._seen):
            left = end - time.monotonic()
            if left <= 0 or not self._read(left):
                return False
        return True

    def _read(self, timeout_s: float) -> bool:
        """Read what is there; return whether there can be more."""
        if not self._selector.select(timeout_s):
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:
            # Linux reports the end of the last process at the terminal in this way.
            return False
        self._shown += data
        return bool(data)

    def wait(self, *, deadline_s: float = DEADLINE_S) -> int:
        """Wait until the program has ended; return its exit status."""
        end = time.monotonic() + deadline_s
        while (left := end - time.monotonic()) > 0 and self._read(min(left, 1.0)):
            self._reap(0.0)
            # A detached job may still have the terminal open; nothing more is shown then.
            if self.status is not None and not self._selector.select(1.0):
                break
        self._reap(max(0.0, end - time.monotonic()))
        assert self.status is not None, f"it has not ended within {deadline_s:g} s:\n{self.text}"
        assert "Traceback" not in self.text, self.text
        return self.status

    def _reap(self, timeout_s: float) -> None:
        end = time.monotonic() + timeout_s
        while self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() >= end:
                break
            else:
                time.sleep(POLL_S)


# -- what a job looks like from outside --------------------------------------------------------


def ranks_of(mark: str, program: Program) -> dict[int, int]:
    """Return the processes of a program that carry a mark, by rank."""
    return processes.ranks_with(f"{MARK}={mark}", program)


def wait_broken(ranks: Mapping[int, int]) -> None:
    """Wait until traced ranks (rank -> pid) run with breakpoints in their code."""

    def are_broken() -> bool:
        pids = ranks.values()
        return all(map(is_traced, pids)) and all(map(foreign_code, pids))

    wait_until(are_broken, "there are breakpoints in the code of all ranks", DEADLINE_S)


@contextlib.contextmanager
def leaving_nothing(hosts: Hosts, *, deadline_s: float = LEAVE_DEADLINE_S) -> Iterator[None]:
    """Check that all processes that start on hosts have ended soon after the context.

    That is stricter than a mark, because a process may have lost its mark.
    """
    before = {host: set(hosts.processes(host)) for host in hosts.names}

    def left() -> dict[int, str]:
        return {
            pid: line
            for host, pids in before.items()
            for pid, line in hosts.processes(host).items()
            if pid not in pids
        }

    try:
        yield
    except BaseException:
        # Processes of a failed test must not disturb the next test.
        kill_all(left, "the processes on the hosts")
        raise
    end = time.monotonic() + deadline_s
    while (found := left()) and time.monotonic() < end:
        time.sleep(POLL_S)
    kill_all(left, "the processes on the hosts")
    assert not found, f"left behind after {deadline_s:g} s: {found}"


def foreign_code(pid: int) -> list[str]:
    """Return where executable mappings of a process have breakpoints that their files have not.

    Not every other difference is one: UCX, below MPICH, writes jumps of several bytes into libc.
    """
    found = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) < 6 or "x" not in fields[1] or not fields[5].startswith("/"):
                continue
            begin, end = (int(part, 16) for part in fields[0].split("-"))
            # One that was replaced meanwhile, as when the system is upgraded, has no path.
            is_gone = fields[5].endswith(" (deleted)")
            path = f"/proc/{pid}/map_files/{fields[0]}" if is_gone else fields[5]
            if is_gone and os.geteuid():
                # Only root may open that one. The tests replace no other file than the program.
                path = f"/proc/{pid}/exe"
            with open(path, "rb") as file:
                file.seek(int(fields[2], 16))
                wanted = file.read(end - begin)
            memory.seek(begin)
            try:
                mapped = memory.read(len(wanted))
            except OSError:
                continue  # unmapped meanwhile
            # Less than asked for if a part has been unmapped.
            wanted = wanted[: len(mapped)]
            found += [
                f"{fields[5]}+{int(fields[2], 16) + at:#x}" for at in _breakpoints(mapped, wanted)
            ]
    return found


def _breakpoints(mapped: bytes, wanted: bytes) -> list[int]:
    """Return where a single byte has become a breakpoint instruction."""
    if mapped == wanted:
        return []
    differing = {
        at for at, pair in enumerate(zip(mapped, wanted, strict=True)) if pair[0] != pair[1]
    }
    return [
        at
        for at in sorted(differing)
        if mapped[at] == 0xCC and at - 1 not in differing and at + 1 not in differing
    ]


def assert_untouched(ranks: Mapping[int, int], *, progress: int = 20) -> None:
    """Check that ranks (rank -> pid) run free, progress, and have no breakpoint of ours in their
    code."""
    for rank, pid in ranks.items():
        assert status(pid, "TracerPid") == "0", f"rank {rank} is traced"
        assert status(pid, "State")[0] in "RSD", f"rank {rank} is {status(pid, 'State')}"
        assert foreign_code(pid) == [], f"rank {rank}"

    def switches(rank: int) -> int:
        try:
            return switches_of(ranks[rank])
        except FileNotFoundError:
            raise AssertionError(f"rank {rank} (process {ranks[rank]}) has ended") from None

    before = {rank: switches(rank) for rank in ranks}
    wait_until(
        lambda: all(switches(rank) >= before[rank] + progress for rank in ranks),
        f"ranks {list(ranks)} progress",
        DEADLINE_S,
    )
