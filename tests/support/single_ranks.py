"""One rank under one GDB, without a job: programs that run or are held, and their debugger."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from pgdb.backend.gdb.debugger import GdbDebugger
from pgdb.backend.zygote.gdb_factory import GdbFactory
from pgdb.backend.zygote.index_cache import IndexCache
from pgdb.jobs import hold
from pgdb.overlay.messages import Backtrace, Console
from pgdb.records import Event, Frame, Record, Stack, Text
from tests.support.processes import wait_progress, wait_settled, wait_until
from tests.support.terminal import DEADLINE_S


@contextmanager
def started(*words: str, name: str = "", executes_itself: bool = False) -> Iterator[int]:
    """Run a program by itself that sleeps now and then, until it is called *name*; give its pid."""
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        comm = Path(f"/proc/{process.pid}/comm")
        wait_until(lambda: comm.read_text().strip() == (name or Path(words[0]).name), f"{words}")
        # In its main, where it sleeps again and again.
        if executes_itself:
            wait_progress(process.pid)
        else:
            wait_settled([process.pid])
        yield process.pid
    finally:
        process.kill()
        process.wait()


class Notifications(list[Event]):
    """Notifications of one rank."""

    def __call__(self, rank: int, event: Event) -> None:
        assert rank == 0
        self.append(event)


@asynccontextmanager
async def debugger(notifications: Notifications) -> AsyncIterator[GdbDebugger]:
    """Make the debugger of a rank; detach from the rank at the end."""
    gdb = shutil.which("gdb") or pytest.skip("this machine has no GDB")
    rank = GdbDebugger(
        0,
        gdb_factory=GdbFactory(gdb, dict(os.environ), (), IndexCache(os.environ, print)),
        program="",
        notify=notifications,
    )
    try:
        yield rank
    finally:
        await rank.detach(DEADLINE_S)


async def attach_to(pid: int) -> tuple[Record, tuple[Frame, ...]]:
    """Attach to a process, look where it is, detach."""
    async with asyncio.timeout(DEADLINE_S), debugger(Notifications()) as rank:
        record = await rank.attach(pid, 1)
        stack = await rank.perform(Backtrace(limit=0), 2)
        return record, stack.frames if isinstance(stack, Stack) else ()


async def only_attach_to(pid: int) -> Record:
    """Attach to a process, detach."""
    async with asyncio.timeout(DEADLINE_S), debugger(Notifications()) as rank:
        return await rank.attach(pid, 1)


async def examine_held(pid: int, *commands: str) -> tuple[Record, list[str], list[Event]]:
    """Bring a held rank to its main, run GDB commands, detach."""
    notifications = Notifications()
    async with asyncio.timeout(DEADLINE_S), debugger(notifications) as rank:
        record = await rank.acquire_held(pid, 1)
        texts = []
        for command in commands:
            answer = await rank.perform(Console(command=command), 2)
            texts.append(answer.text if isinstance(answer, Text) else repr(answer))
        return record, texts, notifications


@contextmanager
def held(*program: str) -> Iterator[int]:
    """Hold a rank that has no launcher."""
    words = [sys.executable, "-I", "-S", hold.__file__, uuid.uuid4().hex, "127.0.0.1:1", "30", "1"]
    # Not the first rank of its host, which would not stay without a front end.
    variables = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
    process = subprocess.Popen(
        [*words, "--", *program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=os.environ | variables,
    )
    try:
        comm = Path(f"/proc/{process.pid}/comm")
        wait_until(lambda: comm.read_text().strip() == hold.HELD_NAME, "it is held")
        yield process.pid
    finally:
        process.kill()
        process.wait()
