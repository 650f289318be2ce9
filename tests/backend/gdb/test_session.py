"""A session reads GDB's words: results by token, the rest as events."""

from __future__ import annotations

import asyncio
import logging

import pytest

from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.session import GdbSession
from pgdb.errors import GdbError
from tests.fakes.gdb_events import GdbEvents
from tests.fakes.scripted_gdb import DEADLINE_S, ask, run

PRINT = console("print x")


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
        assert await grown_by("-notifies", only_asks=True) == 1
        assert await grown_by("-runs", only_asks=True) == 2
        assert ("notice", "memory-changed", {}) in events.reported

    run(
        test,
        {
            "-value x": ['TOKEN^done,value="3"'],
            "-notifies": ["=memory-changed", "TOKEN^done"],
            "-runs": ['*running,thread-id="all"', "*stopped", "TOKEN^done"],
        },
    )


def test_the_selection_of_a_frame_changes_no_stack() -> None:
    selected = '=thread-selected,id="1",frame={level="3"}'
    frame, thread = console("frame 3"), console("thread 2")

    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        before = gdb.changes
        await asyncio.wait_for(gdb.ask_together(frame)[0], DEADLINE_S)
        assert gdb.changes == before
        await asyncio.wait_for(gdb.ask_together(thread)[0], DEADLINE_S)
        assert gdb.changes == before + 1

    run(test, {frame: [selected, "TOKEN^done"], thread: [selected, "TOKEN^done"]})


def test_a_loaded_library_is_a_change_without_fields() -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        before = gdb.changes
        await asyncio.wait_for(gdb.ask_together("-target-attach 7")[0], DEADLINE_S)
        assert gdb.changes == before + 2

    loaded = '=library-loaded,id="/lib/libc.so.6",symbols-loaded="0",thread-group="i1"'
    events = run(test, {"-target-attach 7": [loaded, loaded, "TOKEN^done"]})
    notices = [each for each in events.reported if each[0] == "notice"]
    assert notices == [("notice", "library-loaded", {})] * 2


def test_what_is_put_off_comes_before_the_next_command_that_is_no_question() -> None:
    settle, define = console("python settle()"), console("init-if-undefined $_rank = 4")

    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        gdb.put_off(settle)
        gdb.put_off(define)
        assert gdb.is_asked_only
        await asyncio.wait_for(gdb.ask_together("-ask")[0], DEADLINE_S)
        assert gdb.is_asked_only
        assert (await ask(gdb, PRINT)).text == "settled, 4\n"
        # The one that has failed is put off again, once.
        assert gdb.is_asked_only
        assert (await ask(gdb, PRINT)).text == "settled, 4\n"
        assert not gdb.is_asked_only

    run(
        test,
        {
            "-ask": ["TOKEN^done"],
            settle: ["TOKEN^done"],
            define: ['TOKEN^error,msg="Quit"'],
            PRINT: ['~"settled, 4\\n"', "TOKEN^done"],
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


def test_warnings_stand_where_gdb_has_printed_them() -> None:
    async def test(gdb: GdbSession, _: GdbEvents) -> None:
        result = await ask(gdb, PRINT)
        assert (result.log, result.text) == ("careful\nmind\n", "1\n2: 3\n4\n")
        assert result.printed == "1\n2: 3\ncareful\n4\nmind\n"
        result.change_text("other\n")
        assert result.printed == "other\ncareful\nmind\n"

    lines = ['~"1\\n2: "', '&"careful\\n"', '~"3\\n4\\n"', '&"mind\\n"', "TOKEN^done"]
    run(test, {PRINT: lines})


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
