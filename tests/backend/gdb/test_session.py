"""A session with a GDB that says what the test wants: results by token, the rest as events."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pgdb.backend.gdb.mi import Result, console
from pgdb.backend.gdb.process import StartedGdb
from pgdb.backend.gdb.session import GdbSession
from pgdb.errors import GdbError
from tests.fakes.gdb_events import GdbEvents
from tests.support.processes import is_alive, wait_until

FAKE_GDB = Path(__file__).resolve().parents[2] / "fakes" / "fake_gdb.py"
DEADLINE_S = 20.0
PRINT = console("print x")

Script = dict[str, list[str]]


def run(
    test: Callable[[GdbSession, GdbEvents], Coroutine[Any, Any, None]], script: Script
) -> GdbEvents:
    async def bounded() -> GdbEvents:
        async with asyncio.timeout(DEADLINE_S), started(script) as (gdb, events):
            await test(gdb, events)
        return events

    return asyncio.run(bounded())


@asynccontextmanager
async def started(script: Script) -> AsyncIterator[tuple[GdbSession, GdbEvents]]:
    events = GdbEvents()
    gdb = GdbSession(events)
    argv = [sys.executable, "-I", "-S", str(FAKE_GDB), json.dumps(script)]
    await gdb.start(partial(StartedGdb.start, argv, os.environ))
    try:
        yield gdb, events
    finally:
        if not await gdb.close(5.0):
            os.kill(gdb.pid, 9)
            await events.ended.wait()


async def ask(gdb: GdbSession, command: str) -> Result:
    return await asyncio.wait_for(gdb.send(command), DEADLINE_S)


def test_a_result_comes_by_its_token() -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        result = await ask(gdb, "-value x")
        assert (result.kind, result.payload) == ("done", {"value": "3"})
        failed = await ask(gdb, "-bad")
        assert (failed.kind, failed.message) == ("error", "no")
        assert (await ask(gdb, "-exec-continue")).kind == "running"

    run(
        test,
        {
            "-value x": ['TOKEN^done,value="3"'],
            "-bad": ['TOKEN^error,msg="no"'],
            "-exec-continue": ["TOKEN^running", '*running,thread-id="all"'],
        },
    )


def test_a_command_that_gdb_has_read_as_input_of_another_one_fails() -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        first, second, third = (gdb.send(each) for each in ("-first", "-second", PRINT))
        assert (await first).payload == {"value": "one"}
        assert ((await third).text, (await third).log) == ("$1 = 4\n", "careful\n")
        with pytest.raises(GdbError, match="as the input of another one"):
            await second

    # GDB answers in order, so the second one has no answer to come; the text is the third one's.
    third = ['~"$1 = 4\\n"', '&"careful\\n"', "TOKEN^done", '2^done,value="two"']
    run(test, {"-first": ['TOKEN^done,value="one"'], "-second": [], PRINT: third})


def test_answers_that_nobody_asked_for_are_logged_and_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        assert (await ask(gdb, "-x")).payload == {"value": "1"}

    with caplog.at_level(logging.WARNING):
        run(test, {"-x": ['99^done,value="9"', "^done", 'TOKEN^done,value="1"', "TOKEN^done"]})
    assert [record.args[1] for record in caplog.records if record.args] == [99, None, 1]  # type: ignore[index]


def test_changes_are_counted() -> None:
    async def test(gdb: GdbSession, events: GdbEvents) -> None:
        async def grown_by(*commands: str, only_asks: bool = False) -> int:
            before = gdb.changes
            together = gdb.ask_together if only_asks else gdb.send_together
            await asyncio.wait_for(asyncio.gather(*together(*commands)), DEADLINE_S)
            return gdb.changes - before

        assert await grown_by("-value x", only_asks=True) == 0
        assert await grown_by("-value x") == 1
        assert await grown_by("-tells", only_asks=True) == 1
        assert await grown_by("-runs", only_asks=True) == 2
        assert ("notice", "memory-changed", {}) in events.reported

    run(
        test,
        {
            "-value x": ['TOKEN^done,value="3"'],
            "-tells": ["=memory-changed", "TOKEN^done"],
            "-runs": ['*running,thread-id="all"', "*stopped", "TOKEN^done"],
        },
    )


def test_text_belongs_to_the_console_command_that_is_under_way() -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        first, second = gdb.send(PRINT), gdb.send(console("print y"))
        assert (await first).text == "$1 = 1\n"
        assert (await second).text == "$2 = 2\n"

    events = run(
        test,
        {
            PRINT: ['~"$1 = "', '~"1\\n"', "TOKEN^done"],
            console("print y"): ['~"$2 = 2\\n"', "TOKEN^done"],
        },
    )
    assert [each for each in events.reported if each[0] == "output"] == []


def test_text_during_an_mi_command_is_unasked() -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        assert (await ask(gdb, "-exec-next")).text == ""

    events = run(test, {"-exec-next": ['~"seen\\n"', "TOKEN^running"]})
    assert ("output", "seen\n") in events.reported


def test_warnings_belong_to_the_oldest_command() -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        result = await ask(gdb, PRINT)
        assert (result.log, result.text) == ("warning: odd\n", "")

    run(test, {PRINT: ['&"warning: odd\\n"', "TOKEN^done"]})


def test_what_gdb_says_to_our_interrupt_is_no_complaint() -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        assert (await ask(gdb, PRINT)).log == "warning: odd\n"
        assert gdb.take_run_log() == ""

    run(test, {PRINT: ['&"Quit\\n"', '&"warning: odd\\n"', "TOKEN^done", '&"Quit\\n"']})


def test_notices_go_to_the_command_and_to_the_listener() -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        result = await ask(gdb, console("break f"))
        assert result.notices == [("breakpoint-created", {"bkpt": {"number": "1"}})]
        assert (await ask(gdb, "-next")).notices == []

    events = run(
        test, {console("break f"): ['=breakpoint-created,bkpt={number="1"}', "TOKEN^done"]}
    )
    assert ("notice", "breakpoint-created", {"bkpt": {"number": "1"}}) in events.reported


def test_notices_in_the_text_of_a_command_are_taken() -> None:
    # GDB 18.1, "thread apply 1 tbreak f"
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        result = await ask(gdb, console("thread apply 1 tbreak f"))
        assert result.text == "Thread 1 (LWP 7):\nb\n"
        assert result.notices == [("breakpoint-created", {"bkpt": {"number": "24"}})]
        # From a deeper level, after the records of MI were read.
        assert gdb.take_notices('\n=breakpoint-deleted,id="3"\n') == "\n"
        assert gdb.take_notices('x =breakpoint-deleted,id="4"\n') != ""

    said = '~"Thread 1 (LWP 7):\\n=breakpoint-created,bkpt={number=\\"24\\"}\\nb\\n"'
    events = run(test, {console("thread apply 1 tbreak f"): [said, "TOKEN^done"]})
    assert [each[1:] for each in events.reported if each[0] == "notice"] == [
        ("breakpoint-created", {"bkpt": {"number": "24"}}),
        ("breakpoint-deleted", {"id": "3"}),
    ]


def test_states_are_reported_in_order() -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        await ask(gdb, "-exec-continue")
        await ask(gdb, "-x")

    events = run(
        test,
        {
            "-exec-continue": [
                "TOKEN^running",
                '*running,thread-id="all"',
                '*stopped,reason="breakpoint-hit"',
                "*running",
                "*stopped",
                "*created",
            ]
        },
    )
    states = [each for each in events.reported if each[0] in ("running", "stopped")]
    assert states == [
        ("running",),
        ("stopped", {"reason": "breakpoint-hit"}),
        ("running",),
        ("stopped", {}),
    ]


def test_a_run_that_fails_when_it_was_reported_as_begun_is_reported() -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        assert (await ask(gdb, "-exec-continue")).kind == "running"
        assert (await ask(gdb, "-x")).kind == "done"
        assert gdb.take_run_log() == "Warning: Cannot insert breakpoint 1."
        assert gdb.take_run_log() == ""

    reported = run(
        test,
        {
            "-exec-continue": [
                "TOKEN^running",
                '*running,thread-id="all"',
                '&"Warning:\\n"',
                '&"Cannot insert breakpoint 1.\\n"',
                'TOKEN^error,msg="Command aborted."',
                'TOKEN^error,msg="once more"',
            ]
        },
    ).reported
    assert [each for each in reported if each[0] == "run failed"] == [
        ("run failed", "Command aborted.")
    ]


def test_a_command_that_fails_because_it_has_set_the_rank_running_is_a_run() -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        assert (await ask(gdb, "-exec-continue")).kind == "running"
        assert (await ask(gdb, "-x")).kind == "done"

    refused = "Cannot execute this command while the selected thread is running."
    commands = {
        "-exec-continue": [
            "TOKEN^running",
            '*running,thread-id="all"',
            f'TOKEN^error,msg="{refused}"',
        ]
    }
    reported = [each[0] for each in run(test, commands).reported]
    assert "running" in reported and "run failed" not in reported


def test_why_a_run_fails_is_kept_when_a_command_is_open() -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        assert (await ask(gdb, "-exec-continue")).kind == "running"
        assert (await ask(gdb, "-x")).kind == "done"
        assert gdb.take_run_log() == "Cannot insert breakpoint 1."

    reported = run(
        test,
        {
            "-exec-continue": ["TOKEN^running"],
            "-x": [
                '&"Cannot insert breakpoint 1.\\n"',
                '1^error,msg="Command aborted."',
                "TOKEN^done",
            ],
        },
    ).reported
    assert ("run failed", "Command aborted.") in reported


def test_lines_that_come_in_pieces_and_together() -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        result = await ask(gdb, PRINT)
        assert result.text == "onetwo\n" and result.kind == "done"

    run(test, {PRINT: ['RAW ~"o', 'RAW ne"\\n~"two\\\\n"\\n1^do', "RAW ne\\n"]})


def test_bytes_that_are_no_utf8_do_not_end_the_session() -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        assert (await ask(gdb, PRINT)).text == "\ufffd\ufffd"
        assert (await ask(gdb, "-x")).kind == "done"

    run(test, {PRINT: ['RAW ~"\\xff\\xfe"\\n', "TOKEN^done"]})


def test_a_large_answer() -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        assert len((await ask(gdb, PRINT)).text) == 3_000_000

    run(test, {PRINT: ['REPEAT 100 ~"' + "x" * 30_000 + '"', "TOKEN^done"]})


def test_what_comes_behind_a_big_line_waits_for_it() -> None:
    async def test(gdb: GdbSession, events: GdbEvents) -> None:
        big, text, last = gdb.send("-big"), gdb.send(PRINT), gdb.send("-last")
        assert len((await big).payload["value"]) == 2_000_000
        assert (await text).text == "y" * 1_000_000
        assert (await last).payload == {"value": "1"}

    events = run(
        test,
        {
            "-big": ['TOKEN^done,value="' + "RUN 2000000 x" + '"', '*stopped,reason="one"'],
            PRINT: ['~"' + "RUN 1000000 y" + '"', "TOKEN^done"],
            "-last": ['*stopped,reason="two"', 'TOKEN^done,value="1"', "EXIT 0"],
        },
    )
    assert [each[1]["reason"] for each in events.reported if each[0] == "stopped"] == ["one", "two"]


def test_memory_is_read_as_bytes() -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        assert await gdb.read_memory(0x10, 600_000) == b"\xab" * 600_000
        with pytest.raises(GdbError, match="only 1 of 2 bytes at 0x20"):
            await gdb.read_memory(0x20, 2)
        with pytest.raises(GdbError, match="Unable to read memory"):
            await gdb.read_memory(0x30, 2)

    found = 'TOKEN^done,memory=[{begin="0x10",offset="0x0",contents="'
    run(
        test,
        {
            "-data-read-memory-bytes 0x10 600000": [f'{found}RUN 600000 ab"}}]'],
            "-data-read-memory-bytes 0x20 2": [f'{found}01"}}]'],
            "-data-read-memory-bytes 0x30 2": ['TOKEN^error,msg="Unable to read memory."'],
        },
    )


@pytest.mark.filterwarnings("ignore")
def test_a_line_that_is_no_mi_does_not_lose_the_ones_behind_it() -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        result = await asyncio.wait_for(gdb.send("-x"), 2.0)
        assert result.payload == {"value": "1"}

    run(test, {"-x": ['RAW *stopped,reason=\\n~"\\\\q"\\n1^done,value="1"\\n']})


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
    """As that of a rank that is to have another one: two would be at it."""

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
