"""The job's launcher under ``pgdb run``: its input is ours, its output passes a relay."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import mmap
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Sequence

from pgdb.errors import StartError
from pgdb.frontend.startup.job import TERMINATE_TIMEOUT_S, Child
from pgdb.jobs import output_channels, output_relay
from pgdb.jobs.output_relay import Ring


class JobProcess:
    """A launcher that runs as it would without us.

    It is in our process group: a terminal's Ctrl-C reaches it directly, and it may read the
    terminal.
    """

    def __init__(
        self, child: Child, relay: subprocess.Popen[bytes] | None, memory: mmap.mmap | None
    ) -> None:
        self._child = child
        self._relay = relay
        self._memory = memory
        self._began_s = time.monotonic()
        self._terminals: list[int] = []
        self._names: list[str] = []

    @classmethod
    def start(cls, argv: Sequence[str]) -> JobProcess:
        """Start the job.

        :raises StartError: if the launcher cannot be started.
        """
        streams = output_channels.streams()
        ends = {key: output_channels.channel(those[0]) for key, those in streams.items()}
        outputs = {
            descriptor: ends[key][1] for key, those in streams.items() for descriptor in those
        }
        memory = relay = shared = None
        try:
            if ends:
                memory = output_relay.new_memory(len(ends))
                shared = mmap.mmap(memory, 0)
                pairs = [f"{ends[key][0]}:{descriptors[0]}" for key, descriptors in streams.items()]
                relay = subprocess.Popen(
                    [sys.executable, "-I", "-S", output_relay.__file__, str(memory), *pairs],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(memory, *(read for read, _ in ends.values())),
                    start_new_session=True,
                )
            process = subprocess.Popen(
                list(argv), stdin=None, stdout=outputs.get(1), stderr=outputs.get(2)
            )
        except OSError as error:
            raise StartError(f"cannot start {argv[0]}: {error.strerror}") from None
        finally:
            # If the launcher did not start, the relay ends now, too.
            for read, write in ends.values():
                os.close(write)
                if not os.isatty(read):
                    os.close(read)
            if memory is not None:
                os.close(memory)
        job = cls(Child(process), relay, shared)
        job._terminals = [read for read, _ in ends.values() if _is_terminal(read)]
        job._names = [output_channels.name_of(each) for each in streams.values()]
        return job

    @property
    def pid(self) -> int:
        """Process id of the launcher."""
        return self._child.pid

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._child.returncode

    async def wait(self) -> int:
        """Wait for the launcher's end; return its status."""
        return await self._child.wait()

    def send_signal(self, number: int) -> None:
        """Send a signal to the launcher, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._child.send_signal(number)

    async def end(self) -> None:
        """End the launcher: first with SIGTERM, which it passes on to its ranks."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.status is not None:
                return
            self.send_signal(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TERMINATE_TIMEOUT_S):
                    await self.wait()

    def resize_terminals(self) -> None:
        """Give the job's terminals the size of ours."""
        for each in self._terminals:
            with contextlib.suppress(OSError):
                size = fcntl.ioctl(_own_terminal(), termios.TIOCGWINSZ, b"\0" * 8)
                fcntl.ioctl(each, termios.TIOCSWINSZ, size)

    @property
    def rings(self) -> list[Ring]:
        """The last output of the job's streams, as it is now."""
        return [] if self._memory is None else output_relay.rings(self._memory)

    @property
    def named_rings(self) -> list[tuple[str, Ring]]:
        """The rings, each with the name of its stream; ``output`` where both are one."""
        return list(zip(self._names, self.rings, strict=True))

    @property
    def last_output_s(self) -> float:
        """Monotonic time of the last output; that of the start if there was none."""
        return max([each.last_s for each in self.rings], default=0.0) or self._began_s

    @property
    def text(self) -> str:
        """The output of the job, as far as it was kept: first the messages, then the end."""
        rings = self.rings
        parts = [each.earlier_messages for each in rings] + [each.tail for each in rings]
        return b"\n".join(parts).decode("utf-8", "replace").replace("\r\n", "\n")

    @property
    def ends(self) -> list[str]:
        """The ends of what the job has written: first its standard error, then its output."""
        return [each.tail.decode("utf-8", "replace") for each in reversed(self.rings)]

    async def wait_output_passed_on(self) -> bool:
        """Wait until all output is passed on; return whether a process keeps it open instead."""
        if self._relay is None:
            return False
        drain = output_relay.Drain()
        while self._relay.poll() is None:
            if drain.is_over(self.rings):
                return True
            await asyncio.sleep(0.01)
        return False


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def _own_terminal() -> int:
    return next((each for each in (1, 2) if os.isatty(each)), 1)
