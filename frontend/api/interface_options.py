"""The settings of one user interface: questions, pages, the status line, each declared once.

They differ from the settings of a session in that a program that uses the Python API has none.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from msgspec import structs

from pgdb.errors import UsageError
from pgdb.frontend.api.setting import (
    Setting,
    check_time,
    declared_in,
    in_seconds,
    setting,
    switch_setting,
)
from pgdb.frontend.system.durations import seconds

_MOST = (1 << 31) - 1


def _length(title: str, text: str) -> int:
    """Read a number of lines or columns, as GDB does: 0 and ``unlimited`` are no limit.

    :raises UsageError: if it is none.
    """
    if text and "unlimited".startswith(text):
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 11):
        raise UsageError(f"{title}: {text!r} is neither a whole number from 0 nor 'unlimited'")
    return int(text)


def _check_length(value: int, title: str) -> None:
    if not -1 <= value <= _MOST:
        raise UsageError(f"{title} {value} is out of range; 0 is no limit")


def _shown_length(value: int) -> str:
    """Return a length in words; the terminal's for -1."""
    return {-1: "the terminal's", 0: "unlimited"}.get(value, str(value))


@dataclass(frozen=True, slots=True)
class InterfaceOptions:
    """Options of one user interface."""

    confirm: bool = switch_setting(
        True,
        name="confirm",
        shortest=3,
        help="ask at a terminal before a command kills or deletes; nothing is asked elsewhere",
    )
    pagination: bool = switch_setting(
        True,
        name="pagination",
        shortest=3,
        help="show output at a terminal that is longer than the screen page by page",
    )
    height: int = setting(
        -1,
        name="height",
        shortest=2,
        value="LINES",
        read=_length,
        check=_check_length,
        show=_shown_length,
        kind=int,
        help="lines of a page; 0 or unlimited for output without pages; by default those of the "
        "terminal",
    )
    width: int = setting(
        -1,
        name="width",
        shortest=2,
        value="COLUMNS",
        read=_length,
        check=_check_length,
        show=_shown_length,
        kind=int,
        help="columns that PGDB's own lines are cut to; 0 or unlimited for whole lines; by default "
        "those of the terminal",
    )
    prompt: str = setting(
        "",
        name="prompt",
        shortest=4,
        value="TEXT",
        show=lambda value: value or "(pgdb {focus})",
        help="the prompt, in which {focus} stands for the ranks in focus; without TEXT PGDB's own",
    )
    style: bool = switch_setting(
        True,
        name="style",
        shortest=2,
        help="show colours at terminals that have them; 'set style enabled off' is the same",
    )
    trace_commands: bool = switch_setting(
        False,
        name="trace-commands",
        shortest=7,
        help="show each line behind + before it is carried out, also those of files and commands",
    )
    status_line: bool = switch_setting(
        True,
        name="status-line",
        help="show the states of the ranks below the prompt, at terminals that can",
    )

    timings: bool = switch_setting(
        False,
        name="timings",
        help="show the elapsed time after each typed line",
    )

    def changed(self, **changes: Any) -> InterfaceOptions:
        """Return these options with *changes*."""
        return replace(self, **changes)


SETTLE = Setting(
    key="settle_s",
    option="--settle",
    name="settle",
    value="SECONDS",
    read=seconds,
    show=in_seconds,
    check=check_time,
    kind=float,
    help="once a rank has stopped, a run command waits so long for further ranks (1 s at the "
    "prompt; in batch runs it waits for all)",
)
"""The settle time; its default depends on the user interface."""

INTERFACE_SETTINGS: tuple[Setting, ...] = (
    SETTLE,
    *(
        structs.replace(declared_in(each.metadata), key=each.name)
        for each in fields(InterfaceOptions)
    ),
)
"""The settings of a user interface: the settle time, and the fields of InterfaceOptions."""
