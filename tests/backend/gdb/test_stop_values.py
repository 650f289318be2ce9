"""The values in stops: GDB's limits, and the values in full."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pgdb.backend.gdb.frame_arguments import FrameArguments
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.stop_values import MOST_ELEMENTS, StopValues
from pgdb.records import Value
from tests.fakes.table_gdb import TableGdb

SHOW = "-gdb-show max-value-size"
MORE = f"-gdb-set print elements {MOST_ELEMENTS}"
USUAL = "-gdb-set print elements 200"
LONG = "{" + ", ".join(map(str, range(300))) + "}"
SHOWN = "{" + ", ".join(map(str, range(200))) + "...}"


def asked(
    command: str, limit: str, *, is_watching: bool = False, is_unasked: bool = False
) -> list[str]:
    async def run() -> list[str]:
        gdb = TableGdb({SHOW: f'^done,value="{limit}"'})
        values = StopValues(gdb, FrameArguments(), lambda: is_watching)
        values.is_shown_unasked = is_unasked
        await values.raise_for(command)
        await values.raise_for(command)
        values.restore()
        values.restore()
        return gdb.asked

    return asyncio.run(run())


@pytest.mark.parametrize("command", ["-exec-finish", console("finish &"), console("fin &")])
def test_limits_are_raised_once_and_restored_at_the_stop(command: str) -> None:
    assert asked(command, "65536") == [
        SHOW,
        "-gdb-set max-value-size 1073741824",
        MORE,
        "-gdb-set max-value-size 65536",
        USUAL,
    ]


def test_a_larger_limit_and_other_commands_stay() -> None:
    assert asked("-exec-finish", "unlimited") == [SHOW, MORE, USUAL]
    assert asked("-exec-next", "65536") == []


def test_a_watchpoint_may_stop_any_run() -> None:
    assert asked("-exec-continue", "65536", is_watching=True) == [MORE, USUAL]


def test_scripts_at_stops_see_the_limits_of_the_user() -> None:
    assert asked("-exec-continue", "65536", is_watching=True, is_unasked=True) == []


def test_a_limit_that_the_user_sets_meanwhile_stays() -> None:
    async def run() -> list[str]:
        gdb = TableGdb({})
        values = StopValues(gdb, FrameArguments(), lambda: True)
        await values.raise_for("-exec-continue")
        values.on_notice("cmd-param-changed", {"param": "print elements", "value": "7"})
        values.restore()
        return gdb.asked

    assert asyncio.run(run()) == [MORE]


def taken(payload: dict[str, Any], *, raised: bool = True) -> tuple[str, tuple[Value, ...]]:
    async def run() -> tuple[str, tuple[Value, ...]]:
        values = StopValues(TableGdb({}), FrameArguments(), lambda: raised)
        await values.raise_for("-exec-continue")
        return values.take(payload)

    return asyncio.run(run())


def test_short_values_are_their_text() -> None:
    watched = {"wpt": {"number": "2", "exp": "n"}, "value": {"old": "0", "new": "1"}}
    assert taken(watched) == ("0 -> 1", ())
    assert taken({"return-value": "4", "gdb-result-var": "$1"}) == ("4", ())
    read = {"hw-rwpt": {"number": "2", "exp": "n"}, "value": {"value": "7"}}
    assert taken(read) == ("7", ())
    assert taken({"reason": "breakpoint-hit"}) == ("", ())


def test_long_values_are_shown_as_the_user_wants_and_known_in_full() -> None:
    watched = {"wpt": {"exp": "a"}, "value": {"old": LONG, "new": LONG.replace("299", "7")}}
    text, (old, new) = taken(watched)
    assert text == f"{SHOWN} -> {SHOWN}"
    assert (old.text, old.whole, old.looked_at) == (SHOWN, LONG, 0)
    assert new.whole == LONG.replace("299", "7")


def test_an_arrow_in_a_value_does_not_mix_up_old_and_new() -> None:
    watched = {"wpt": {"exp": "s"}, "value": {"old": '"a -> b"', "new": '"c"'}}
    text, values = taken(watched)
    assert text == '"a -> b" -> "c"'
    assert [each.text for each in values] == ['"a -> b"', '"c"']


def test_a_part_is_known_to_be_one() -> None:
    cut = {"return-value": SHOWN, "gdb-result-var": "$1"}
    assert taken(cut, raised=False)[1][0].looked_at == -1
    beyond = {"return-value": LONG.replace("}", "...}")}
    assert taken(beyond)[1][0].looked_at == MOST_ELEMENTS
    deep = {"return-value": "{a = {...}}"}
    assert taken(deep)[1][0].looked_at == -1
