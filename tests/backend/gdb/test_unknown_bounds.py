"""A step that GDB refuses in a function without symbols names the way out."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.backend.gdb.stacks import Stacks
from pgdb.backend.gdb.unknown_bounds import with_way_out
from pgdb.records import Failure
from tests.fakes.table_gdb import NO_ARGUMENTS, PID, TableGdb

REFUSED = "Cannot find bounds of current function"


def listed(*frames: str) -> str:
    found = (f'frame={{level="{level}",addr="0x1",{each}}}' for level, each in enumerate(frames))
    return f"^done,stack=[{','.join(found)}]"


WAITS = 'func="??"', 'func="nanosleep"'
PAUSES = 'func="pause",file="storm.c",fullname="/src/storm.c",line="38"'


@pytest.mark.parametrize(
    ("frames", "way_out"),
    [
        ((*WAITS, PAUSES, 'func="main",file="storm.c",line="60"'), "'frame 1' and 'finish' return"),
        (('func="kill"', PAUSES), "'finish' returns to pause"),
        ((PAUSES, *WAITS, PAUSES), "'frame 2' and 'finish' return to pause"),
        (WAITS, "'stepi', or 'break' and 'continue', move the rank"),
    ],
)
def test_the_way_out_is_the_frame_below_the_first_with_a_line(
    frames: tuple[str, ...], way_out: str
) -> None:
    gdb = TableGdb(
        {
            "-stack-list-frames 0 63": listed(*frames),
            "-stack-list-arguments 1 0 63": NO_ARGUMENTS,
        }
    )
    refused = asyncio.run(with_way_out(Failure(message=f"{REFUSED}"), Stacks(gdb), PID))
    assert refused.message.startswith(f"{REFUSED}, which has no symbols; {way_out}")


def test_another_refusal_is_shown_as_it_is() -> None:
    gdb = TableGdb({})
    refused = Failure(message="The program is not being run.")
    assert asyncio.run(with_way_out(refused, Stacks(gdb), PID)) is refused
    assert not gdb.asked
