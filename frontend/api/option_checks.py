"""Checks of settings, each for the value of one kind of setting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pgdb.errors import UsageError
from pgdb.frontend.api import gdb_commands
from pgdb.frontend.system import durations
from pgdb.patterns import pattern

if TYPE_CHECKING:
    from pgdb.frontend.api.options import SessionOptions
    from pgdb.frontend.api.setting import Setting

MOST_AGGREGATORS = 256
"""Limit for the aggregators on one host: more have no use and can exceed the user's processes."""
_SYSROOT = pattern(r"\s*set\s+(?:sysroot|solib-absolute-prefix)\b")


def check_count(value: int, title: str) -> None:
    """Check a number of things."""
    if value < 1:
        raise UsageError(f"{title} {value}: at least 1 is needed")


def check_not_negative(value: int, title: str) -> None:
    """Check a number that can be 0."""
    if value < 0:
        raise UsageError(f"{title} {value}: at least 0 is needed")


def check_aggregator_count(value: int, title: str) -> None:
    """Check a number of aggregators on one host."""
    check_count(value, title)
    if value > MOST_AGGREGATORS:
        raise UsageError(
            f"{title} {value}: at most {MOST_AGGREGATORS} on each host; one "
            "for 32 ranks or more is the usual number"
        )


def check_world(value: str, title: str) -> None:
    """Check the name of a world."""
    if value and value != "all" and not (value.isascii() and value.isdecimal() and len(value) < 6):
        raise UsageError(f"{title} {value!r} is neither a number nor 'all'")


def time_or_off(title: str, text: str) -> float:
    """Read a time such as ``60s``, ``5min`` or ``60``, in seconds; ``off`` is 0.

    :raises UsageError: if it is none.
    """
    if text.strip() == "off":
        return 0.0
    return durations.duration(title, text, examples="60s, 5min or off")


def check_time_or_off(value: float, title: str) -> None:
    """Check a time; 0 switches its setting off."""
    durations.check(value, f"{title} {value!r}", least=True)


def in_seconds_or_off(value: float) -> str:
    """Return a time as ``60 s``; ``off`` for 0."""
    return f"{value:g} s" if value else "off"


def _check_gdb_commands(lines: tuple[str, ...]) -> None:
    """Refuse commands that GDB cannot carry out before it has a program.

    :raises UsageError: if there is one.
    """
    for line in lines:
        if why := gdb_commands.why_not_at_start(line):
            raise UsageError(f"--gdb-command {line!r}: {why}")


def check_together(options: SessionOptions, settings: Iterable[Setting]) -> None:
    """Refuse options that exclude each other, and options without an effect.

    :raises UsageError: if there are some.
    """
    if options.sbd:
        _check_sbd_cache(options.sbd_cache, options.gdb_commands)
    else:
        for each in settings:
            # An environment variable is for all sessions, those without --sbd too.
            if each.only_with and not each.environment:
                if getattr(options, each.key) != each.default:
                    raise UsageError(f"{each.option} ({each.key}) needs --sbd (sbd)")
    _check_gdb_commands(options.gdb_commands)
    if options.listen and options.calls:
        option = "--host" if options.host else "--connect"
        raise UsageError(f"--listen and {option} exclude each other: one end of a link listens")
    if options.log_values and not options.log:
        raise UsageError("--log-values needs --log FILE")
    if not options.ssh:
        raise UsageError("--ssh names no command; leave it out for ssh")


def _check_sbd_cache(cache: str, commands: tuple[str, ...]) -> None:
    """Refuse a cache of delivered files that GDB would not find.

    :raises UsageError: if it is one.
    """
    if cache and not cache.startswith("/"):
        raise UsageError(
            f"--sbd-cache {cache} (or PGDB_SBD_CACHE): a path that begins with / is needed"
        )
    if not cache.isprintable() or not set(cache).isdisjoint(':"\\'):
        # GDB reads it as one of several paths, and prints it in quotes of its own.
        raise UsageError(
            f"--sbd-cache {cache!r} (or PGDB_SBD_CACHE): no colon, quote, "
            "backslash or control character can be in it"
        )
    for each in commands:
        if _SYSROOT.match(each):
            raise UsageError(
                f"--sbd and the GDB command {each.strip()!r} exclude each other: "
                "--sbd needs a sysroot of its own"
            )
