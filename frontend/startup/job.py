"""The launcher processes that a session starts: the job's (launch mode) and the aggregators'.

Each runs in a session of its own: the terminal's Ctrl-C must not reach the job, and no launcher
may read the input that is meant for the prompt.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pgdb import core_limit
from pgdb.errors import StartError
from pgdb.frontend.api.argument_types import check_kind
from pgdb.frontend.system.subprocesses import Program
from pgdb.jobs import keeper, procfs
from pgdb.patterns import pattern

_MOST_ANCESTORS = 20
TERMINATE_TIMEOUT_S = 3.0
"""Time for a launcher to end after SIGTERM. Open MPI 4's sometimes never does."""

_OF_OURS = pattern(r"pgdb: |(?:[a-z_]+\.)*[A-Z]\w+(?:Error|Exception): ")
StreamName = Literal["stdout", "stderr"]


class Child:
    """A process that may outlive us.

    An asyncio process may not: its transport kills it at its finalization (from Python 3.12 on;
    seen with a launcher whose job had been detached). A thread waits for this process. It is
    started with the process, because no thread can be started once Python ends.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], stdin: asyncio.WriteTransport | None = None
    ) -> None:
        self.stdin = stdin
        """The writing end of its input, when that is a pipe."""
        self._process = process
        self._ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._wait, args=(loop,), name="pgdb child", daemon=True).start()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal, None while it runs."""
        return self._process.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        self._process.send_signal(number)

    async def wait(self) -> int:
        """Wait for its end; return the exit status."""
        await self._ended.wait()
        return self._process.returncode

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed, nobody waits any longer
            loop.call_soon_threadsafe(self._ended.set)


class Launcher:
    """A running launcher."""

    def __init__(self, process: Program | Child) -> None:
        self.process = process

    @property
    def pid(self) -> int:
        """Process id of the launcher."""
        return self.process.pid

    async def wait(self) -> int:
        """Wait for its end; return the exit status."""
        return await self.process.wait()

    @property
    def has_ended(self) -> bool:
        """Whether the launcher has ended."""
        return self.process.returncode is not None

    async def end(self) -> None:
        """End the launcher and the rest of its process group, unless it has ended."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.has_ended:
                break
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TERMINATE_TIMEOUT_S):
                    await self.process.wait()
        # It leads a process group of its own; ranks that outlive it there are orphans.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def end_killed(self) -> None:
        """End the launcher of killed ranks, after a time in which it can notice their end.

        Open MPI 4's mpirun crashes when SIGTERM comes while it is aborting by itself.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TERMINATE_TIMEOUT_S):
                await self.process.wait()
        await self.end()


class OverlayLauncher(Launcher):
    """A launcher of aggregators: credentials go in, the log comes out."""

    def __init__(
        self,
        program: Program,
        log: Path,
        reading: asyncio.Task[None] | None = None,
    ) -> None:
        super().__init__(program)
        self._program = program
        self._log = log
        self._reading = reading

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        rendezvous: Callable[[], Awaitable[str]],
        log: Path,
        keep_input: bool = False,
        on_line: Callable[[str], None] | None = None,
    ) -> OverlayLauncher:
        """Start aggregators; *rendezvous* returns their input, and may take its time.

        With *keep_input* their input stays open as long as we live. Their output goes to *log*, and
        line by line to *on_line*.

        :raises StartError: if the launcher cannot be started.
        """
        with log.open("ab") as output:
            try:
                process = await Program.start(
                    *argv,
                    stdin=subprocess.PIPE,
                    stdout=output if on_line is None else subprocess.PIPE,
                    stderr=output,
                    env=dict(environment),
                    start_new_session=True,
                )
            except OSError as error:
                raise StartError(f"cannot start {argv[0]}: {error.strerror}") from None
        assert process.stdin is not None
        reading = None
        if on_line is not None and process.stdout is not None:
            reading = asyncio.create_task(_read_lines(process.stdout, on_line, log))
        launcher = cls(process, log, reading)
        try:
            secret = await rendezvous()
            with contextlib.suppress(ConnectionError):
                process.stdin.write(secret.encode("ascii") + b"\n")
                await process.stdin.drain()
        except BaseException:
            await launcher.end()
            raise
        if not keep_input:
            process.stdin.close()
        return launcher

    async def wait(self) -> int:
        """Wait for its end, and for the end of its output; return the exit status."""
        status = await super().wait()
        if self._reading is not None:
            await asyncio.wait((self._reading,))
        return status

    async def end(self) -> None:
        """End the launcher and the rest of its process group."""
        await super().end()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._program.end()

    def last_words(self) -> str:
        """Return the last lines of the log, on one line, for a message."""
        try:
            lines = self._log.read_text("utf-8", "replace").strip().splitlines()
        except OSError:
            return ""
        stripped = [line.strip() for line in lines]
        # The last line of one of our processes says more than a launcher's report of its exit
        # status.
        own = [line for line in stripped if _OF_OURS.match(line)]
        return " | ".join(own[-1:] or [line for line in stripped if line.strip(" -*")][-4:])


async def _read_lines(
    stream: asyncio.StreamReader, on_line: Callable[[str], None], log: Path
) -> None:
    with log.open("ab", buffering=0) as output:
        async for data in stream:
            output.write(data)
            on_line(data.decode("utf-8", "replace").rstrip("\n"))


class JobLauncher(Launcher):
    """The launcher of the user's job, whose input and output pass through us."""

    def __init__(
        self,
        process: Child,
        keeper_process: Child,
        keeper_pipe: int,
        readers: list[asyncio.Task[None]],
        input_file: tuple[str, int] | None = None,
    ) -> None:
        super().__init__(process)
        self._input_file = input_file
        self._child = process
        self._keeper = keeper_process
        self._keeper_pipe = keeper_pipe
        self._readers = readers

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        on_output: Callable[[StreamName, bytes], None],
        stdin: int | None,
        leftover: Path,
    ) -> JobLauncher:
        """Start the job.

        Its input is the descriptor *stdin*, or if that is None a pipe that :meth:`write` feeds.
        After our death, its output goes to the file *leftover*.

        :raises StartError: if the launcher cannot be started.
        """
        input_file = None if stdin is None else _file_of(stdin)
        pipes = {"stdout": os.pipe(), "stderr": os.pipe()}
        try:
            with core_limit.limit_as_given():
                process = subprocess.Popen(
                    argv,
                    stdin=subprocess.PIPE if stdin is None else stdin,
                    stdout=pipes["stdout"][1],
                    stderr=pipes["stderr"][1],
                    env=dict(environment),
                    start_new_session=True,
                )
        except OSError as error:
            for ends in pipes.values():
                os.close(ends[0])
            raise StartError(f"cannot start {argv[0]}: {error.strerror}") from None
        finally:
            for ends in pipes.values():
                os.close(ends[1])
        reading = [ends[0] for ends in pipes.values()]
        keeper_input, keeper_pipe = os.pipe()
        keeper_process = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__, str(leftover), *map(str, reading)],
            stdin=keeper_input,
            # A reader of our output must not have to wait for the keeper's end as well.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=reading,
            start_new_session=True,
        )
        os.close(keeper_input)
        writing = None
        if process.stdin is not None:
            writing, _ = await asyncio.get_running_loop().connect_write_pipe(
                asyncio.BaseProtocol, process.stdin
            )
        readers = [
            asyncio.create_task(_pump(descriptor, name, on_output))
            for name, descriptor in zip(("stdout", "stderr"), reading, strict=True)
        ]
        child, keeper_child = Child(process, writing), Child(keeper_process)
        return cls(child, keeper_child, keeper_pipe, readers, input_file)

    def ancestors_of(self, pid: int) -> tuple[int, ...]:
        """Return the ancestors of a process up to the launcher; nothing if it is none of them."""
        chain: list[int] = []
        while len(chain) < _MOST_ANCESTORS and (status := procfs.read_stat(pid)) is not None:
            pid = status.ppid
            chain.append(pid)
            if pid == self.pid:
                return tuple(chain)
        return ()

    def pause(self, pids: Sequence[int]) -> None:
        """Stop processes of the launcher, which its keeper continues if we die."""
        os.write(self._keeper_pipe, f"{' '.join(map(str, pids))}\n".encode())
        _signal_all(pids, signal.SIGSTOP)

    def resume(self, pids: Sequence[int]) -> None:
        """Let processes of the launcher go on that :meth:`pause` has stopped."""
        _signal_all(pids, signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):
            os.write(self._keeper_pipe, b"\n")

    def reopen_input(self) -> int | None:
        """Open the file that is the job's input again, at its start; return None if it is no file.

        :raises OSError: if it cannot be opened.
        """
        if self._input_file is None:
            return None
        name, begin = self._input_file
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
        if begin:
            os.lseek(descriptor, begin, os.SEEK_SET)
        return descriptor

    @property
    def takes_input(self) -> bool:
        """Whether :meth:`write` reaches the job: its input is a pipe of ours."""
        return self._child.stdin is not None

    def write(self, data: bytes) -> bool:
        """Send input to the job; return whether it accepts more.

        :raises UsageError: if *data* is no bytes: a script's coroutine may pass anything.
        """
        check_kind("write: data", data, (bytes,))
        stdin = self._child.stdin
        if stdin is None or stdin.is_closing():
            return False
        stdin.write(data)
        return True

    def close_input(self) -> None:
        """End the job's input."""
        if self._child.stdin is not None:
            self._child.stdin.close()

    async def wait_output_read(self) -> None:
        """Wait until all output of the job has been passed on."""
        await asyncio.gather(*self._readers, return_exceptions=True)

    def abandon(self) -> None:
        """Leave the running job to its keeper, by closing our end of its pipe."""
        os.close(self._keeper_pipe)
        self.close_input()
        for reader in self._readers:
            reader.cancel()

    async def release_keeper(self) -> None:
        """Make the keeper end."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._keeper_pipe, b"q")
        os.close(self._keeper_pipe)
        try:
            async with asyncio.timeout(TERMINATE_TIMEOUT_S):
                await self._keeper.wait()
        except TimeoutError:
            # It was stopped. All output has been read, so that its end loses nothing.
            self._keeper.send_signal(signal.SIGKILL)
            await self._keeper.wait()
        self.close_input()
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)


def _signal_all(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


async def _pump(descriptor: int, name: str, on_output: Callable[[StreamName, bytes], None]) -> None:
    stream: StreamName = "stdout" if name == "stdout" else "stderr"
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        while data := await reader.read(65536):
            on_output(stream, data)
    finally:
        transport.close()


def _file_of(descriptor: int) -> tuple[str, int] | None:
    """Return the name of a regular file or the null device and the place in it, else None."""
    if descriptor == subprocess.DEVNULL:
        return os.devnull, 0
    try:
        status = os.fstat(descriptor)
        if stat.S_ISCHR(status.st_mode) and status.st_rdev == os.stat(os.devnull).st_rdev:
            return os.devnull, 0
        if not stat.S_ISREG(status.st_mode):
            return None
        return os.readlink(f"/proc/self/fd/{descriptor}"), os.lseek(descriptor, 0, os.SEEK_CUR)
    except OSError:
        return None
