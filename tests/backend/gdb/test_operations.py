"""Properties of operations that decide how GDB is treated while it carries them out."""

from __future__ import annotations

import pytest

from pgdb.backend.gdb.operations import computes
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
