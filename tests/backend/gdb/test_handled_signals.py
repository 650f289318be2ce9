"""Handlers of signals: only those of crashes mean that a rank dies."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from signal import SIGALRM, SIGSEGV, SIGUSR1

import pytest

from pgdb.backend.gdb.activities import activity_of
from pgdb.backend.gdb.deaths import SIGNAL_FRAME
from pgdb.backend.gdb.handled_signals import handled_signal, with_deaths
from pgdb.backend.gdb.mi import Result
from pgdb.backend.gdb.mpi_frames import Owner, Place
from pgdb.elf import Read
from pgdb.process_maps import Mapping
from pgdb.records import Frame

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the kernel writes other frames of signals"
)

CONTEXT, THREAD = 0x7FFD0000, 77
OTHER_MASK = 1 << (SIGALRM - 1)


def read(before: int, number: int, error: int = 0) -> Read:
    """Return memory with a frame of a signal: the mask before, and the siginfo_t."""
    data = b"\0" * 296 + struct.pack("<Qii", before, number, error)
    return lambda address, size: data[address - CONTEXT : address - CONTEXT + size]


def blocks(proc: Path, *signals: int) -> None:
    """Make the status of a thread that blocks signals."""
    mask = sum(1 << (each - 1) for each in signals)
    (proc / str(THREAD)).mkdir()
    (proc / str(THREAD) / "status").write_text(f"Name:\tapp\nSigBlk:\t{mask:016x}\n")


def test_the_kernel_writes_the_number_for_a_handler_with_siginfo(tmp_path: Path) -> None:
    blocks(tmp_path, SIGALRM, SIGSEGV)
    assert handled_signal(read(OTHER_MASK, SIGSEGV), CONTEXT, THREAD, tmp_path) == SIGSEGV


@pytest.mark.parametrize("number", [0, SIGSEGV, 0x7FFF])
def test_the_signal_that_is_blocked_since_is_that_of_a_plain_handler(
    tmp_path: Path, number: int
) -> None:
    blocks(tmp_path, SIGALRM, SIGUSR1)
    assert handled_signal(read(OTHER_MASK, number), CONTEXT, THREAD, tmp_path) == SIGUSR1


def test_no_signal_is_guessed(tmp_path: Path) -> None:
    blocks(tmp_path, SIGUSR1, SIGSEGV)
    assert handled_signal(read(0, 0), CONTEXT, THREAD, tmp_path) is None
    assert handled_signal(read(0, 0), CONTEXT, 0, tmp_path) is None
    assert handled_signal(lambda _address, _size: b"", CONTEXT, THREAD, tmp_path) is None


class Gdb:
    """A session that knows the stack pointers of all frames."""

    def send_together(self, *commands: str) -> list[asyncio.Future[Result]]:
        (command,) = commands
        assert command.endswith("$sp")
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        answer.set_result(Result("done", {"value": hex(CONTEXT)}, f'^done,value="{CONTEXT:#x}"'))
        return [answer]


class Image:
    """A process with the frame of a signal in its memory."""

    executable = ""

    def __init__(self, memory: Read) -> None:
        self._memory = memory

    def mappings(self) -> Sequence[Mapping]:
        return ()

    @contextlib.contextmanager
    def opened(self) -> Iterator[Read]:
        yield self._memory


@pytest.mark.parametrize(("number", "activity"), [(SIGSEGV, "dying"), (SIGUSR1, "lock")])
def test_a_handler_of_another_signal_does_its_own_work(number: int, activity: str) -> None:
    names = [("sem_wait", Owner.C_RUNTIME), ("on_signal", Owner.USER)]
    names += [(SIGNAL_FRAME, Owner.C_RUNTIME), ("main", Owner.USER)]
    places = tuple(
        Place(Frame(level=level, function=name), level + 1, owner)
        for level, (name, owner) in enumerate(names)
    )
    image = Image(read(0, number))
    found = asyncio.run(with_deaths(Gdb(), image, "1", 0, places))  # type: ignore[arg-type]
    assert activity_of(found) == activity
