"""The limit for the size of values while finish runs."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.backend.gdb.finish_limit import FinishLimit
from pgdb.backend.gdb.mi import console
from tests.backend.gdb.test_stacks import ToldGdb

SHOW = "-gdb-show max-value-size"


def asked(command: str, limit: str) -> list[str]:
    async def run() -> list[str]:
        gdb = ToldGdb({SHOW: f'^done,value="{limit}"'})
        finishing = FinishLimit(gdb)
        await finishing.raise_for(command)
        await finishing.raise_for(command)
        finishing.restore()
        finishing.restore()
        return gdb.asked

    return asyncio.run(run())


@pytest.mark.parametrize("command", ["-exec-finish", console("finish &"), console("fin &")])
def test_the_limit_is_raised_once_and_restored_at_the_stop(command: str) -> None:
    assert asked(command, "65536") == [
        SHOW,
        "-gdb-set max-value-size 1073741824",
        "-gdb-set max-value-size 65536",
    ]


def test_a_larger_limit_and_other_commands_stay() -> None:
    assert asked("-exec-finish", "unlimited") == [SHOW, SHOW]
    assert asked("-exec-next", "65536") == []
