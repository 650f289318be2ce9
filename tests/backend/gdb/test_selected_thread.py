"""A live thread is selected where GDB's own selection has ended; answers as GDB 13.1 gives them."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.backend.gdb.selected_thread import SelectedThread, is_refused
from tests.fakes.table_gdb import TableGdb

IDS = "-thread-list-ids"
TWO = '^done,thread-ids={thread-id="1",thread-id="4"},number-of-threads="2"'
ONE = '^done,thread-ids={thread-id="3"},number-of-threads="1"'
LIVE = '^done,thread-ids={thread-id="1",thread-id="4"},current-thread-id="4",number-of-threads="2"'
NONE = '^done,thread-ids={},number-of-threads="0"'


def after(answer: str, *events: str) -> tuple[list[str], str]:
    """Return what a GDB is asked after threads and stops, twice, and its first thread then."""

    async def run() -> tuple[list[str], str]:
        gdb = TableGdb({IDS: answer})
        gdb.first_thread = "1"
        selected = SelectedThread(gdb)
        for event in events:
            if event.startswith("="):
                selected.on_notice(event[1:])
            else:
                selected.on_stopped({"thread-id": event} if event else {})
        await selected.ensure()
        await selected.ensure()
        return gdb.asked, gdb.first_thread

    return asyncio.run(run())


@pytest.mark.parametrize("event", ["=thread-exited", ""])
def test_a_live_thread_is_selected_once_the_selected_one_may_have_ended(event: str) -> None:
    assert after(TWO, event) == ([IDS, "-thread-select 1"], "1")


def test_the_first_thread_is_another_one_if_it_has_ended() -> None:
    assert after(ONE, "2", "=thread-exited") == ([IDS, "-thread-select 3"], "3")


@pytest.mark.parametrize("answer", [LIVE, NONE, '^error,msg="Undefined MI command"'])
def test_nothing_is_selected_without_need(answer: str) -> None:
    assert after(answer, "=thread-exited") == ([IDS], "1")


def test_nothing_is_asked_of_a_rank_whose_threads_live() -> None:
    assert after(TWO, "=thread-created", "4") == ([], "1")


def test_the_refusal_is_known() -> None:
    assert is_refused("Cannot execute this command without a live selected thread.")
    assert not is_refused("Cannot execute this command while the selected thread is running.")
