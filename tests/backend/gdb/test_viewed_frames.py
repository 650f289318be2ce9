"""Frames at address 0, at which GDB 14 and later end: refused for these GDBs alone."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.viewed_frames import why_not
from pgdb.overlay.operations import Console, Evaluate, SelectFrame
from tests.support.gdb_breakpoints import started

pytestmark = [pytest.mark.gdb]

AT_ZERO = (
    *("frame view 0", "frame view 0 0", "f v 1-1", "select-frame view 0x0", "info frame view 0"),
    *("thread apply all frame view 0", "with print elements 3 -- frame view 0 4"),
)
ELSEWHERE = ("frame view 1", "frame view 4096 0", "frame view nosuch", "frame view", "frame 0")


def test_a_frame_at_address_zero_is_refused_where_gdb_ends_at_it() -> None:
    async def check() -> None:
        async with started() as (gdb, _, _):

            async def refused(lines: tuple[str, ...]) -> list[str]:
                return [each for each in lines if await why_not(gdb, Console(command=each))]

            await gdb.send(console("python gdb.VERSION = '18.1'"))
            assert await refused(AT_ZERO) == [*AT_ZERO]
            assert await refused(ELSEWHERE) == []
            assert await why_not(gdb, SelectFrame(command="frame view 0")) is not None
            assert await why_not(gdb, Evaluate(expression="frame view 0")) is None
            await gdb.send(console("python gdb.VERSION = '13.1'"))
            assert await refused(AT_ZERO) == []

    asyncio.run(check())
