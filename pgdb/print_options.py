"""The options of GDB's ``print``: ``print -pretty -- /x EXPR``."""

from __future__ import annotations

import re
from typing import NamedTuple

from pgdb.patterns import pattern

_SWITCHES = (
    "-address -array -array-indexes -memory-tag-violations -nibbles -null-stop -object -pretty "
    "-raw-values -static-members -symbol -union -vtbl"
).split()
"""Options that may have ``on`` or ``off`` as their value (GDB 12 to 16)."""
_NUMBERS = "-characters -elements -max-depth -repeats".split()
"""Options with a number as their value."""
_OPTION = pattern(r"(-[a-z][a-z-]*)(?:\s+|\Z)")
_SWITCH_VALUE = pattern(r"(?:on|off|yes|no|enable|disable|1|0)(?:\s+|\Z)")
_NUMBER_VALUE = pattern(r"(?:-?\d+|u(?:nlimited|nlimite|nlimit|nlimi|nlim|nli|nl|n)?)(?:\s+|\Z)")
_DELIMITER = pattern(r"--(?:\s+|\Z)")
_FORMAT = pattern(r"/([A-Za-z0-9]+)(?:\s+|\Z)")
_BASES = {"o": 8, "t": 2}


class Printed(NamedTuple):
    """The argument of a ``print`` in parts."""

    options: str
    """The options without the ``--`` behind them."""
    letters: str
    """Format letters without the slash, if they stand behind options."""
    expression: str


def split_print(argument: str) -> Printed:
    """Return the argument of a ``print`` in parts; GDB recognizes abbreviations.

    As in GDB, options need a ``--`` behind them: ``-o`` alone is the negative of a variable.

    >>> split_print("-pretty -elements 3 -- /x p->next")
    Printed(options='-pretty -elements 3', letters='x', expression='p->next')
    >>> split_print("-x + 5")
    Printed(options='', letters='', expression='-x + 5')
    """
    at = 0
    while (match := _OPTION.match(argument, at)) is not None:
        kind = _kind_of(match[1])
        if kind is None:
            break
        at = match.end()
        value = kind.match(argument, at)
        if value is not None:
            at = value.end()
        elif kind is _NUMBER_VALUE:
            return Printed("", "", argument)  # GDB reports the missing number
    options, rest = argument[:at].strip(), argument[at:]
    delimiter = _DELIMITER.match(rest)
    if not options or delimiter is None:
        return Printed("", "", argument)
    rest = rest[delimiter.end() :]
    letters = ""
    if (format_ := _FORMAT.match(rest)) is not None:
        letters, rest = format_[1], rest[format_.end() :]
    return Printed(options, letters, rest.strip())


def letters_of(command: str) -> str:
    """Return the format letters of a command that prints; empty if there are none.

    >>> letters_of("print/x n"), letters_of("x/4tw &n"), letters_of("print -pretty -- /o n")
    ('x', '4tw', 'o')
    """
    word, _, rest = command.partition(" ")
    return word.partition("/")[2] or (split_print(rest).letters if word == "print" else "")


def base_of(letters: str) -> int:
    """Return the base of printed numbers where their digits do not show it: 2, 8, or else 0.

    >>> base_of("t"), base_of("o"), base_of("x")
    (2, 8, 0)
    """
    return next((_BASES[each] for each in letters if each in _BASES), 0)


def is_option(name: str, value: str) -> bool:
    """Return whether *name* is an option of ``print`` that can have this value.

    >>> is_option("-elements", "3"), is_option("-elements", ""), is_option("-pretty", "")
    (True, False, True)
    """
    if name in _SWITCHES:
        return not value or _SWITCH_VALUE.fullmatch(value) is not None
    return name in _NUMBERS and _NUMBER_VALUE.fullmatch(value) is not None


def _kind_of(word: str) -> re.Pattern[str] | None:
    """Return the pattern of an option's value; None for a word that is no option, or several."""
    names = [name for name in (*_SWITCHES, *_NUMBERS) if name.startswith(word)]
    if word not in names and len(names) != 1:
        return None
    name = word if word in names else names[0]
    return _NUMBER_VALUE if name in _NUMBERS else _SWITCH_VALUE
