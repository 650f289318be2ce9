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
            assert breakpoints.first_hit == 1
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


def test_breakpoints_that_are_hit_at_once_are_known_at_the_stop() -> None:
    """GDB counts a hit of each before the stop; one to ignore and a dprintf do not stop."""

    async def test() -> None:
        async with started() as (gdb, _, breakpoints):
            kinds = ("breakpoint", "breakpoint", "breakpoint", "dprintf", "hw watchpoint")
            for number, kind in enumerate(kinds, start=1):
                notice(breakpoints, "created", number=str(number), type=kind)
            notice(breakpoints, "modified", number="2", ignore="1")
            assert breakpoints.all_hit(1) == () and breakpoints.first_hit == 2
            gdb.runs += 1
            for number, kind in list(enumerate(kinds, start=1)):
                notice(breakpoints, "modified", number=str(number), type=kind, times="1")
            assert breakpoints.all_hit(1) == (1, 3, 5) and breakpoints.first_hit == 1
            assert breakpoints.all_hit(0) == ()
            gdb.runs += 1
            assert breakpoints.all_hit(1) == () and breakpoints.first_hit == 0
            notice(breakpoints, "modified", number="3", times="2")
            assert breakpoints.all_hit(3) == () and breakpoints.first_hit == 3
            notice(breakpoints, "modified", number="2", times="2")
            assert breakpoints.all_hit(2) == (2, 3)

    asyncio.run(test())
