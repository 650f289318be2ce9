"""GDB's notices about breakpoints: hits change a count, commands change the rest."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pgdb.backend.gdb.breakpoints import Breakpoints
from tests.support.gdb_breakpoints import started

pytestmark = [pytest.mark.gdb]

MADE = {"number": "1", "type": "breakpoint", "disp": "keep", "enabled": "y", "func": "f"}


def notice(breakpoints: Breakpoints, name: str, **fields: str) -> None:
    payload: dict[str, Any] = {"bkpt": {**MADE, "times": "0", **fields}}
    breakpoints.on_notice(f"breakpoint-{name}", payload)


def test_a_change_between_hits_is_reported_once() -> None:
    async def test() -> None:
        async with started() as (_, _, breakpoints):
            notice(breakpoints, "created")
            assert breakpoints.take_changes() is not None
            for times in ("1", "2", "3"):
                notice(breakpoints, "modified", times=times)
            assert breakpoints.take_changes() is None, "hits alone change no setting"
            assert breakpoints.last_hit == 1
            notice(breakpoints, "modified", times="3", enabled="n")
            found = breakpoints.take_changes()
            assert found is not None
            assert [each.enabled for each in found.changed] == [False]
            notice(breakpoints, "modified", times="4", enabled="n")
            assert breakpoints.take_changes() is None
            notice(breakpoints, "modified", times="4")
            found = breakpoints.take_changes()
            assert found is not None and found.changed[0].enabled

    asyncio.run(test())


def test_a_number_that_is_used_again_begins_anew() -> None:
    async def test() -> None:
        async with started() as (_, _, breakpoints):
            notice(breakpoints, "created")
            notice(breakpoints, "modified", times="1")
            breakpoints.on_notice("breakpoint-deleted", {"id": "1"})
            breakpoints.take_changes()
            breakpoints.forget()
            breakpoints.last = 0
            notice(breakpoints, "created", enabled="n")
            breakpoints.take_changes()
            notice(breakpoints, "modified", times="1")
            found = breakpoints.take_changes()
            assert found is not None and found.changed[0].enabled

    asyncio.run(test())
