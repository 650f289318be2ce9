"""The launcher processes that a session starts: the job's (launch mode) and the aggregators'.

Both run in sessions of their own: the terminal's Ctrl-C must not reach the job, and no launcher
may take the input that is meant for the prompt.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pgdb.errors import StartError
from pgdb.jobs import keeper

TERMINATE_TIMEOUT_S = 3.0
"""How long a launcher may take to end after SIGTERM. Open MPI 4's sometimes never does."""

StreamName = Literal["stdout", "stderr"]


class Launcher:
    """A running launcher."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @property
    def pid(self) -> int:
        """Process id of the launcher."""
        return self.process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the launcher has ended."""
        return self.process.returncode is not None

    async def end(self) -> None:
        """End the launcher, and what is left of its process group, if it has not ended."""
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
        """End the launcher of ranks that have been killed: it first gets the time to notice.

        Open MPI 4's mpirun crashes when SIGTERM comes while it is aborting by itself.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TERMINATE_TIMEOUT_S):
                await self.process.wait()
        await self.end()


class OverlayLauncher(Launcher):
    """The launcher of the aggregators: credentials in, log out."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        super().__init__(process)
        self._log = log

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, environment: Mapping[str, str], rendezvous: str, log: Path
    ) -> OverlayLauncher:
        """Start the aggregators; *rendezvous* is all that their rank 0 can read.

        :raises StartError: if the launcher cannot be started.
        """
        with log.open("ab") as output:
            try:
                process = await asyncio.create_subprocess_exec(
                    *argv,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env=dict(environment),
                    start_new_session=True,
                )
            except OSError as error:
                raise StartError(f"cannot start {argv[0]}: {error.strerror}") from None
        assert process.stdin is not None
        with contextlib.suppress(ConnectionError):
            process.stdin.write(rendezvous.encode("ascii"))
            await process.stdin.drain()
        process.stdin.close()
        return cls(process, log)

    def last_words(self) -> str:
        """Return the last lines of the log, on one line, for a message."""
        try:
            lines = self._log.read_text("utf-8", "replace").strip().splitlines()
        except OSError:
            return ""
        telling = [line.strip() for line in lines if line.strip(" -*\t")]
        return " | ".join(telling[-4:])


class JobLauncher(Launcher):
    """The launcher of the user's job: its input and output are ours to pass on."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        keeper_process: subprocess.Popen[bytes],
        readers: list[asyncio.Task[None]],
    ) -> None:
        super().__init__(process)
        self._keeper = keeper_process
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

        Its input is the descriptor *stdin*, or a pipe that :meth:`write` feeds if that is None.
        If we die, what it prints from then on goes to the file *leftover*.

        :raises StartError: if the launcher cannot be started.
        """
        pipes = {"stdout": os.pipe(), "stderr": os.pipe()}
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
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
        keeper_process = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__, str(leftover), *map(str, reading)],
            stdin=subprocess.PIPE,
            pass_fds=reading,
            start_new_session=True,
        )
        readers = [
            asyncio.create_task(_pump(descriptor, name, on_output))
            for name, descriptor in zip(("stdout", "stderr"), reading, strict=True)
        ]
        return cls(process, keeper_process, readers)

    def write(self, data: bytes) -> bool:
        """Send input to the job; return whether it still takes any."""
        stdin = self.process.stdin
        if stdin is None or stdin.is_closing():
            return False
        stdin.write(data)
        return True

    def close_input(self) -> None:
        """End the job's input."""
        if self.process.stdin is not None:
            self.process.stdin.close()

    async def wait_output_read(self) -> None:
        """Wait until all that the job has printed was passed on."""
        await asyncio.gather(*self._readers, return_exceptions=True)

    def abandon(self) -> None:
        """Leave the running job to its keeper: closing our end of the pipe is the sign."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        for reader in self._readers:
            reader.cancel()

    async def release_keeper(self) -> None:
        """Tell the keeper that we are done, so that it ends."""
        assert self._keeper.stdin is not None
        with contextlib.suppress(OSError):
            self._keeper.stdin.write(b"q")
            self._keeper.stdin.close()
        await asyncio.to_thread(self._keeper.wait)
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)


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
