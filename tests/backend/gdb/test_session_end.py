"""The end of a session's GDB: by itself, by us, or before it has begun."""

from __future__ import annotations

import asyncio
import logging
import os
from functools import partial
from typing import Any

import pytest

from pgdb.backend.gdb.process import StartedGdb
from pgdb.backend.gdb.session import GdbSession
from pgdb.errors import GdbError
from tests.fakes.gdb_events import GdbEvents
from tests.fakes.scripted_gdb import ask, run
from tests.support.processes import is_alive, wait_until


@pytest.mark.parametrize(
    ("action", "how"),
    [
        ("EXIT 3", "GDB ended (3)"),
        ("KILL", "GDB was ended by signal 9, which can be for want of memory"),
        ("FAIL 1 no such place", "GDB ended (1): no such place"),
        ("FAIL 1 std::bad_alloc", "GDB ended (1), for want of memory"),
        ("FAIL 0 no such place", "GDB ended (0)"),
    ],
)
def test_when_gdb_ends_all_that_waits_is_reported(action: str, how: str) -> None:
    async def test(gdb: GdbSession, events: GdbEvents) -> None:
        waiting = [gdb.send("-one"), gdb.send("-two"), gdb.send("-three")]
        for each in waiting:
            with pytest.raises(GdbError, match=how.replace("(", r"\(").replace(")", r"\)")):
                await each
        await events.ended.wait()
        assert not gdb.is_alive
        with pytest.raises(GdbError) as error:
            await gdb.send("-late")
        assert str(error.value) == how, "who comes late is reported the same"

    events = run(test, {"-one": [], "-two": [action]})
    assert events.reported == [("end", how)]


@pytest.mark.parametrize(
    ("log", "how"),
    [
        (
            "utils.c:717: internal-error: virtual memory exhausted: can't allocate 136 bytes.",
            "GDB was ended by signal 9, which can be for want of memory",
        ),
        (
            "\\nframe.c:3: internal-error: no such thing\\nFurther",
            "GDB was ended by signal 9: frame.c:3: internal-error: no such thing",
        ),
        (
            "warning: nothing of its end",
            "GDB was ended by signal 9, which can be for want of memory",
        ),
    ],
)
def test_what_gdb_says_of_its_end_is_reported(log: str, how: str) -> None:
    async def test(gdb: GdbSession, events: GdbEvents) -> None:
        with pytest.raises(GdbError):
            await gdb.send("-one")
        await events.ended.wait()

    events = run(test, {"-one": [f'&"{log}\\n"', "KILL"]})
    assert events.reported == [("end", how)]


def test_one_that_we_end_says_nothing_of_memory() -> None:
    async def test(gdb: GdbSession, events: GdbEvents) -> None:
        await ask(gdb, "-x")
        gdb.kill()
        await events.ended.wait()

    assert run(test, {}).reported == [("end", "GDB was ended by signal 9")]


def test_what_gdb_says_before_it_ends_is_heard() -> None:
    async def test(gdb: GdbSession, events: GdbEvents) -> None:
        ready = await ask(gdb, "-ready")
        assert ready.kind == "done"
        future = gdb.send("-last")
        await asyncio.sleep(0)
        # The loop is busy while GDB answers and ends.
        wait_until(lambda: not is_alive(gdb.pid), "GDB has ended")
        assert (await future).payload == {"value": "last words"}
        await events.ended.wait()

    events = run(
        test,
        {"-last": ['TOKEN^done,value="last words"', '*stopped,reason="exited"', "EXIT 0"]},
    )
    assert events.reported == [("stopped", {"reason": "exited"}), ("end", "GDB ended (0)")]


def test_nobody_who_gave_up_makes_a_noise(caplog: pytest.LogCaptureFixture) -> None:
    async def test(gdb: GdbSession, events: GdbEvents) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(gdb.send("-one"), 0.05)
        future = gdb.send("-two")
        del future
        await events.ended.wait()

    with caplog.at_level(logging.ERROR, logger="asyncio"):
        run(test, {"-one": [], "-two": ["EXIT 0"]})
    assert caplog.records == []


def test_nobody_who_does_not_wait_makes_a_noise(caplog: pytest.LogCaptureFixture) -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        gdb.close_input()
        gdb.send("-one")

    with caplog.at_level(logging.ERROR, logger="asyncio"):
        run(test, {})
    assert caplog.records == []


def test_the_end_of_the_output_is_reported_before_that_of_gdb() -> None:
    """The rank runs on as soon as its GDB is dead, and must have no breakpoint then."""

    async def test(gdb: GdbSession, events: GdbEvents) -> None:
        silent: list[bool] = []
        gdb.when_silent = lambda: silent.append(events.ended.is_set())
        with pytest.raises(GdbError):
            await gdb.send("-two")
        await events.ended.wait()
        assert silent[:1] == [False]

    run(test, {"-two": ["KILL"]})


def test_closing_the_input_ends_gdb() -> None:
    async def test(gdb: GdbSession, events: GdbEvents) -> None:
        await ask(gdb, "-x")
        assert await gdb.close(10.0)
        assert not gdb.is_alive
        with pytest.raises(GdbError):
            await gdb.send("-x")

    assert run(test, {}).reported == [("end", "GDB ended (0)")]


def test_a_gdb_that_does_not_end_is_reported_so() -> None:
    async def test(gdb: GdbSession, events: GdbEvents) -> None:
        gdb.send("-hang")
        assert not await gdb.close(0.3)
        assert gdb.is_alive
        os.kill(gdb.pid, 9)
        await events.ended.wait()

    run(test, {"-hang": ["SLEEP"]})


def test_a_gdb_that_cannot_be_started() -> None:
    async def test() -> None:
        gdb = GdbSession(GdbEvents())
        assert gdb.pid == 0 and not gdb.is_alive
        with pytest.raises(GdbError, match="cannot start /nowhere/gdb: No such file"):
            await gdb.start(partial(StartedGdb.start, ["/nowhere/gdb"], {}))

    asyncio.run(test())


@pytest.mark.parametrize("is_late", [False, True])
def test_a_gdb_that_was_given_up_before_it_was_there_is_ended(is_late: bool) -> None:
    """A rank that gets another GDB would have two."""

    async def test() -> None:
        gdb, started = GdbSession(GdbEvents()), []

        async def start(*how: Any) -> StartedGdb:
            if is_late:
                assert await gdb.close(1.0)
            started.append(await StartedGdb.start(["cat"], {}, *how))
            return started[-1]

        if not is_late:
            assert await gdb.close(1.0)
        with pytest.raises(GdbError, match="given up"):
            await gdb.start(start)
        assert len(started) == is_late
        for each in started:
            await each.wait_ended()

    asyncio.run(test())
