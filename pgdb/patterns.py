"""Regular expressions that are compiled when they are first used.

There are some 150 in the program, of which a session needs few; to compile them all is a tenth of
the time until a front end or an aggregator can begin (docs/internals/performance.md).
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Uncompiled:
    """Becomes, as seen from outside, a compiled expression at its first use."""

    def __init__(self, text: str | bytes, flags: re.RegexFlag | int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self._text, self._flags), name)
        # Found from now on without coming here.
        setattr(self, name, value)
        return value


def pattern(text: AnyStr, flags: re.RegexFlag | int = 0) -> re.Pattern[AnyStr]:
    """Return the regular expression *text*; one that is wrong raises ``re.error`` when it is used.

    What is returned is good for its methods, not as an argument of the functions of :mod:`re`.

    >>> number = pattern(r"[0-9]+")
    >>> number.search("rank 12")[0]
    '12'
    """
    return cast("re.Pattern[AnyStr]", _Uncompiled(text, flags))
