"""A GDB that ignores an interrupt: nobody waits for it, until it answers after all."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.backend.care import gdb_interrupt as module
from pgdb.backend.care.gdb_interrupt import IGNORES, GdbInterrupt, in_words
from pgdb.backend.gdb.mi import Result
from pgdb.backend.gdb.session import GdbSession
from pgdb.errors import GdbError
from pgdb.records import Failure

PID = 100


class BusyGdb(GdbSession):
    """A GDB that answers when the test lets it."""

    is_alive = True

    def __init__(self) -> None:
        super().__init__(listener=None)  # type: ignore[arg-type]
        self.interrupts = 0
        self.stopped_waiting: list[str] = []
        self.asked: list[asyncio.Future[Result]] = []

    def ping_after_interrupt(self) -> asyncio.Future[Result]:
        self.asked.append(asyncio.get_running_loop().create_future())
        return self.asked[-1]

    def interrupt(self) -> None:
        self.interrupts += 1

    def stop_waiting(self, why: str, *, but_for: asyncio.Future[Result]) -> None:
        assert but_for is self.asked[-1]
        self.stopped_waiting.append(why)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IGNORES_AFTER_S", 0.0)
    monkeypatch.setattr(module.procfs, "blocked_in_all_threads", lambda pid, number: False)


@pytest.mark.parametrize("stands_still", [True, False])
def test_a_gdb_that_computes_on_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, stands_still: bool
) -> None:
    monkeypatch.setattr(module.procfs, "is_at_rest", lambda pid: stands_still)

    async def carry_out() -> None:
        gdb = BusyGdb()
        interrupt = GdbInterrupt(gdb)
        assert interrupt.send(PID) and gdb.interrupts == 1
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        # A rank that moves is in a function that GDB has called, which may end.
        assert interrupt.is_ignored is stands_still
        assert gdb.stopped_waiting == [IGNORES] * stands_still
        gdb.asked[0].set_result(Result("done"))
        await asyncio.sleep(0)
        assert not interrupt.is_ignored and not interrupt.is_awaited

    asyncio.run(carry_out())


def test_interrupts_that_python_has_swallowed_are_not_shown() -> None:
    swallowed = "Python Exception <class 'KeyboardInterrupt'>: <class 'KeyboardInterrupt'>\n"
    failed = Failure(message="Quit", output=f"$1 = 1\n{swallowed}{swallowed}")
    assert in_words(failed) == Failure(message="interrupted", output="$1 = 1")
    other = Failure(message="No symbol table.", output=swallowed)
    assert in_words(other) == other


def test_an_interrupt_that_gdb_has_lost_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPEAT_S", 0.0)
    monkeypatch.setattr(module, "IGNORES_AFTER_S", 3600.0)
    at_rest = [False, True]
    monkeypatch.setattr(module.procfs, "is_at_rest", lambda pid: at_rest.pop(0))

    async def carry_out() -> None:
        gdb = BusyGdb()
        interrupt = GdbInterrupt(gdb)
        interrupt.send(PID)
        while gdb.interrupts < 2:
            await asyncio.sleep(0)
        assert not at_rest, "a rank that moves would get the signal"
        gdb.asked[0].set_result(Result("done"))
        await asyncio.sleep(0)
        assert interrupt.is_awaited, "the second interrupt may still be about to come"
        gdb.asked[1].set_result(Result("done"))
        await asyncio.sleep(0)
        assert not interrupt.is_awaited

    asyncio.run(carry_out())


def test_a_gdb_that_answers_in_time_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.procfs, "is_at_rest", lambda pid: True)

    async def carry_out() -> None:
        gdb = BusyGdb()
        interrupt = GdbInterrupt(gdb)
        interrupt.send(PID)
        gdb.asked[0].set_result(Result("done"))
        await asyncio.sleep(0.001)
        assert not interrupt.is_ignored and not gdb.stopped_waiting

    asyncio.run(carry_out())


def test_a_command_that_nobody_waits_for_any_longer_fails_once() -> None:
    class Silent:
        is_alive = True

        def write(self, line: str) -> None:
            """Take a line."""

    async def carry_out() -> None:
        session = GdbSession(listener=None)  # type: ignore[arg-type]
        session._process = Silent()  # type: ignore[assignment]
        printed, asked = (
            session.send('-interpreter-exec console "p a"'),
            session.send("-gdb-show x"),
        )
        session.stop_waiting("busy", but_for=asked)
        with pytest.raises(GdbError, match="busy"):
            await printed
        session._line(b"1^done")  # it has ended after all
        session._line(b'2^done,value="1"')
        assert (await asked).payload == {"value": "1"}

    asyncio.run(carry_out())
