"""A GDB that reads commands as the input of another command gives no answer to a wrong one."""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pgdb.backend.gdb import input_watch
from pgdb.backend.gdb.input_watch import EATEN, HAS_READ, LOST, READS_INPUT
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.process import GdbProcess, OnEnd, OnLine
from pgdb.backend.gdb.session import GdbSession
from pgdb.errors import GdbError
from pgdb.jobs import procfs
from tests.fakes.gdb_events import GdbEvents

DEADLINE_S = 5.0
LINE = re.compile(r'(\d+)(?:-interpreter-exec console "(.*)"|(.*))')


@dataclass
class Reader:
    """A command that reads input: lines, or for ever; a SIGINT may end it."""

    token: str
    lines: int
    ends_at_interrupt: bool


class ModelGdb(GdbProcess):
    """A GDB that carries out ``say N`` and ``read LINES [stubborn]``, one after the other,
    and ``slow MILLISECONDS``."""

    def __init__(self, on_line: OnLine, on_end: OnEnd) -> None:
        super().__init__(on_line, on_end)
        self._input: deque[str] = deque()
        self._reader: Reader | None = None
        self._is_asleep = False

    @property
    def pid(self) -> int:
        return 1

    @property
    def has_read_all(self) -> bool:
        return not self._input

    def write(self, line: str) -> None:
        self._input += line.split("\n")
        asyncio.get_running_loop().call_soon(self._work)

    def interrupt(self) -> None:
        if self._reader is not None and self._reader.ends_at_interrupt:
            token, self._reader = self._reader.token, None
            self._print('&"Quit\\n"', f'{token}^error,msg="Quit"')
            self._work()

    def close_input(self) -> None:
        self._end(0)

    def kill(self) -> None:
        self._end(-9)

    def _close(self) -> None:
        pass

    def _print(self, *lines: str) -> None:
        self._read("".join(f"{line}\n" for line in lines).encode())

    def _slept(self, token: str) -> None:
        self._is_asleep = False
        self._print(f"{token}^done")
        self._work()

    def _work(self) -> None:
        if self._is_asleep:
            return
        while self._input:
            line = self._input.popleft()
            if self._reader is not None:
                self._reader.lines -= 1
                if not self._reader.lines:
                    token, self._reader = self._reader.token, None
                    self._print(f"{token}^done")
                continue
            match = LINE.fullmatch(line)
            assert match is not None
            token, command, _ = match.groups()
            word, *rest = (command or "-").split()
            if word == "say":
                self._print(f'~"{rest[0]}\\n"', f"{token}^done")
            elif word == "slow":
                self._print('~"slept\\n"')
                self._is_asleep = True
                # It reads nothing until then, as GDB does between two commands.
                asyncio.get_running_loop().call_later(int(rest[0]) / 1e3, self._slept, token)
                return
            elif word == "read":
                self._reader = Reader(token, int(rest[0]), "stubborn" not in rest)
            else:
                self._print(f'{token}^done,value="off"')


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    myself = procfs.read_stat(os.getpid())
    assert myself is not None
    sleeping = replace(myself, state="S")
    monkeypatch.setattr(input_watch, "LOOK_S", 0.001)
    monkeypatch.setattr(input_watch, "RECOVER_S", 0.02)
    monkeypatch.setattr(procfs, "work_done", lambda pid: (7, False))
    monkeypatch.setattr(procfs, "read_stat", lambda pid: sleeping)
    yield


async def answers(batches: Sequence[Sequence[str]]) -> tuple[list[str], GdbSession]:
    """Return the answers to commands, those of a batch sent together, and the session."""
    gdb = GdbSession(GdbEvents())

    async def start(on_line: OnLine, on_end: OnEnd) -> GdbProcess:
        return ModelGdb(on_line, on_end)

    await gdb.start(start)
    found = []
    async with asyncio.timeout(DEADLINE_S):
        for batch in batches:
            if gdb.input.is_lost:
                found += [LOST] * len(batch)
                continue
            for coming in gdb.send_together(*map(console, batch)):
                try:
                    result = await coming
                    found.append(result.message or result.text.strip())
                except GdbError as error:
                    found.append(str(error))
    return found, gdb


READ = st.builds("read {}".format, st.sampled_from((1, 2, 3, 1000)))
STUBBORN = st.builds("read {} stubborn".format, st.sampled_from((1, 1000)))
SAY = st.builds("say {}".format, st.integers(0, 10**6))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.one_of(SAY, SAY, READ, STUBBORN), min_size=1, max_size=4), max_size=6))
def test_no_answer_is_given_to_another_command(batches: list[list[str]]) -> None:
    found, _ = asyncio.run(answers(batches))
    commands = [each for batch in batches for each in batch]
    assert len(found) == len(commands)
    for command, answer in zip(commands, found, strict=True):
        own = command.removeprefix("say ") if command.startswith("say ") else ""
        assert answer in (own, EATEN, LOST, READS_INPUT, HAS_READ), (command, answer)
        # A command that reads nothing never fails with that reason.
        assert answer != HAS_READ or command.startswith("read"), (command, answer)


def test_a_command_that_reads_input_ends_and_the_next_one_is_answered() -> None:
    found, gdb = asyncio.run(answers([["say 1"], ["read 1000"], ["say 2"], ["read 1"], ["say 3"]]))
    assert found == ["1", READS_INPUT, "2", HAS_READ, "3"]
    assert not gdb.input.is_lost


def test_a_command_that_is_slow_and_reads_nothing_keeps_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticks = iter(range(10**6))
    monkeypatch.setattr(procfs, "work_done", lambda pid: (next(ticks), False))
    found, _ = asyncio.run(answers([["say 1"], ["slow 20"], ["say 2"]]))
    assert found == ["1", "slept", "2"]


def test_a_gdb_that_reads_on_is_given_up() -> None:
    found, gdb = asyncio.run(answers([["say 1"], ["read 1000 stubborn"], ["say 2"]]))
    assert found[:2] == ["1", LOST]
    assert gdb.input.is_lost


def test_a_gdb_that_computes_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(10**6))
    monkeypatch.setattr(procfs, "work_done", lambda pid: (next(ticks), False))

    async def wait() -> None:
        await asyncio.wait_for(answers([["read 1000 stubborn"]]), 0.3)

    with pytest.raises(TimeoutError):
        asyncio.run(wait())
    assert next(ticks) > 10, "it was looked at"
