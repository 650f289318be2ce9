"""Properties of operations that decide how GDB is treated while it carries them out."""

from __future__ import annotations

import os
import threading

import pytest

from pgdb.backend.gdb.command_kinds import computes, has_several_threads, records
from pgdb.overlay.messages import AnyOperation, Backtrace, Console, Script


@pytest.mark.parametrize(
    "operation",
    [
        Script(lines=("while 1", "set $i = 1", "end")),
        Console(command="python exec('while True: pass')"),
        Console(command="source loop.py"),
        Console(command="spin", is_user_defined=True),
    ],
)
def test_code_of_the_user_can_have_no_end(operation: AnyOperation) -> None:
    assert computes(operation)


@pytest.mark.parametrize(
    "operation",
    [
        Console(command="generate-core-file big"),
        Console(command="info types"),
        Console(command="spin", is_user_defined=True, run=True),
        Backtrace(),
    ],
)
def test_commands_of_gdb_are_waited_for(operation: AnyOperation) -> None:
    assert not computes(operation)


def test_commands_that_begin_to_record_are_known() -> None:
    begin = ("record", "rec", "record full", "record btrace pt", "record pt")
    go_on = ("record stop", "record save x", "record function-call-history", "recreate")
    assert all(map(records, begin))
    assert not any(map(records, go_on))


def test_threads_of_a_process_are_counted() -> None:
    # A process without a table of threads has ended.
    assert not has_several_threads(0)
    is_over = threading.Event()
    thread = threading.Thread(target=is_over.wait)
    thread.start()
    try:
        assert has_several_threads(os.getpid())
    finally:
        is_over.set()
        thread.join()
