"""Regular expressions that are compiled at their first use.

The program has some 150, and a session needs few of them. Compiling all takes a tenth of the time
until a front end or an aggregator can begin (docs/internals/performance.md).
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Uncompiled:
    """An expression that compiles itself at its first use."""

    def __init__(self, text: str | bytes, flags: re.RegexFlag | int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self._text, self._flags), name)
        # The attribute is found directly from now on.
        setattr(self, name, value)
        return value


def pattern(text: AnyStr, flags: re.RegexFlag | int = 0) -> re.Pattern[AnyStr]:
    """Return the regular expression *text*; an invalid one raises ``re.error`` at its first use.

    Its methods can be called, but the functions of :mod:`re` do not accept it.

    >>> number = pattern(r"[0-9]+")
    >>> number.search("rank 12")[0]
    '12'
    """
    return cast("re.Pattern[AnyStr]", _Uncompiled(text, flags))


FORTRAN_FILE = pattern(r"\.(?:f|for|ftn|f\d\d|fpp)\Z", re.I)
"""End of the name of a source file of Fortran."""
