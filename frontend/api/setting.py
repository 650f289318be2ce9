"""Settings: one declaration for option, environment, settings file, ``set``, ``show`` and API."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import field
from typing import Any, TypeVar

import msgspec

from pgdb.errors import RankSetError, UsageError
from pgdb.frontend.system import durations
from pgdb.ranks import RankSet

_T = TypeVar("_T")
_DAY_S = 24 * 3600
_KEY = "setting"

JOB_MODES = ("attach", "launch", "core", "jobs", "doctor", "report")
"""The subcommands that look for a job."""
RUN_TOO = (*JOB_MODES, "run")
"""The subcommands that look for a job, and the one that runs one without a prompt."""

Reader = Callable[[str, str], Any]
"""Function that makes a value from a title (``--timeout``, ``set timeout``) and a text."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of a session or of a user interface."""

    help: str
    """The effect of the setting: a phrase without a capital and a full stop."""
    key: str = ""
    """The field of ``SessionOptions``, and the key in the settings file."""
    option: str = ""
    """The option of the command line; empty where there is none."""
    aliases: tuple[str, ...] = ()
    """Other names of the option."""
    modes: tuple[str, ...] = JOB_MODES
    """The subcommands that have the option."""
    environment: str = ""
    """The environment variable that replaces the default."""
    name: str = ""
    """The name for ``set`` and ``show``; empty for one that is fixed while a session lasts."""
    shortest: int = 0
    """Length of the shortest abbreviation of the name, for a setting that GDB has too; 0: none."""
    value: str = ""
    """The name of the option's value in help texts; empty for a flag."""
    read: Reader | None = None
    """Function that reads the text of the option, of the environment and of ``set``."""
    show: Callable[[Any], str] = str
    """Function that returns the value in words, with its unit."""
    check: Callable[[Any, str], None] | None = None
    """Function that checks a value from any source; raises UsageError with the title it gets."""
    choices: tuple[str, ...] = ()
    """The words that the value can be."""
    default: Any = None
    kind: Any = str
    """The type of the value in the settings file."""
    is_repeated: bool = False
    """The option can be given several times; the value is a tuple."""
    is_name: bool = False
    """The text cannot be empty on the command line."""
    only_with: str = ""
    """The key of a flag without which this setting has no effect."""

    @property
    def is_flag(self) -> bool:
        """Whether the option has no value."""
        return not self.value and not self.choices

    @property
    def is_common(self) -> bool:
        """Whether all subcommands that look for a job have the option."""
        return set(JOB_MODES) <= set(self.modes)

    @property
    def is_inverted(self) -> bool:
        """Whether the option turns the setting off."""
        return self.option.startswith("--no-")

    @property
    def title(self) -> str:
        """The name of the setting in messages."""
        return self.option if self.option and self.kind is int else self.key

    def convert(self, title: str, text: str) -> Any:
        """Return the value for *text*.

        :raises UsageError: if it is no value of this setting.
        """
        value = self.read(title, text) if self.read is not None else text
        self.validate(value, title)
        return value

    def validate(self, value: Any, title: str = "") -> None:
        """Check a value.

        :raises UsageError: if it is no value of this setting.
        """
        if self.choices and value not in self.choices:
            name = title.removeprefix("set ") or self.name or self.option.lstrip("-")
            raise UsageError(f"{name} {value!r} is none of {', '.join(self.choices)}")
        if self.check is not None:
            self.check(value, title or self.title)


def setting(default: _T, **declared: Any) -> _T:
    """Return the dataclass field of a setting; its key is the name of the field."""
    return field(default=default, metadata={_KEY: Setting(default=default, **declared)})


def switch_setting(default: bool, **declared: Any) -> bool:
    """Return the dataclass field of a setting that is on or off."""
    return setting(default, read=switch, show=on_or_off, kind=bool, **declared)


def declared_in(metadata: Any) -> Setting:
    """Return the setting that a field was declared with."""
    found: Setting = metadata[_KEY]
    return found


def is_declared(metadata: Any) -> bool:
    """Return whether a field was declared with a setting."""
    return _KEY in metadata


# -- readers -------------------------------------------------------------------------------------


def days(title: str, text: str) -> float:
    """Read a number of days; return it in seconds.

    :raises UsageError: if it is none.
    """
    try:
        value_s = float(text) * _DAY_S
    except ValueError:
        value_s = 0.0
    if not durations.is_time(value_s):
        most = f"{durations.MOST_S / _DAY_S:.0f}"
        raise UsageError(f"{title}: {text!r} is no number of days above 0, up to {most}")
    return value_s


def switch(title: str, text: str) -> bool:
    """Read ``on`` or ``off``, or GDB's other words for them; no word is ``on``.

    :raises UsageError: for anything else.
    """
    if text in ("", "on", "1", "yes", "y", "enable"):
        return True
    if text in ("off", "0", "no", "n", "disable"):
        return False
    raise UsageError(f"{title}: {text!r} is neither on nor off")


def integer(title: str, text: str) -> int:
    """Read a whole number.

    :raises UsageError: if it is none.
    """
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{title}: invalid int value: {text!r}") from None


def words(title: str, text: str) -> tuple[str, ...]:
    """Split a command as a shell does.

    :raises UsageError: if a quote is open.
    """
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{title} {text}: {error}") from None


def patterns(title: str, text: str) -> tuple[str, ...]:
    """Return regular expressions, which blanks separate as in a shell."""
    found = words(title, text)
    for each in found:
        try:
            re.compile(each)
        except re.error as error:
            raise UsageError(f"{title} {each!r} is no regular expression: {error}") from None
    return found


def ranks(title: str, text: str) -> RankSet:
    """Read a set of ranks that is not empty.

    :raises UsageError: if it is none.
    """
    try:
        found = RankSet.parse(text)
    except RankSetError as error:
        raise UsageError(f"{title}: {error}") from None
    if not found:
        raise UsageError(f"{title}: {text} is an empty set")
    return found


# -- values in words -----------------------------------------------------------------------------


def in_seconds(value: float | None) -> str:
    """Return a time as ``60 s``; ``off`` for None."""
    return "off" if value is None else f"{value:g} s"


def in_days(value_s: float) -> str:
    """Return a time as ``30 days``."""
    return f"{value_s / _DAY_S:g} days"


def on_or_off(value: bool) -> str:
    """Return ``on`` or ``off``."""
    return "on" if value else "off"


def joined(value: tuple[str, ...]) -> str:
    """Return a command as a shell reads it."""
    return shlex.join(value)


# -- checks --------------------------------------------------------------------------------------


def check_time(value: float, title: str) -> None:
    """Check a time in seconds.

    :raises UsageError: if nobody can wait for so long.
    """
    durations.check(value, f"{title} {value:g}")


def check_positive(value: int, title: str) -> None:
    """Check a size.

    :raises UsageError: if it is 0 or less.
    """
    if value < 1:
        raise UsageError(f"{title} must be more than 0, not {value}")
