"""Names of options that are given to functions: an unknown one is refused with the nearest."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pgdb.errors import UsageError
from pgdb.frontend.api.options import SESSION_SETTINGS, SessionOptions
from pgdb.ranks import RankSet


def options_for(
    function: Callable[..., Any], options: Mapping[str, Any], ranks: RankSet | None = None
) -> SessionOptions:
    """Return the options that a function was called with.

    :raises UsageError: if one is unknown, or a value is none of its option.
    """
    known = [each.key for each in SESSION_SETTINGS]
    for name in options:
        if name not in known:
            parameters = inspect.signature(function).parameters.values()
            own = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
            meant = nearest(name, [*own, *known]) or "; pgdb.SessionOptions describes all"
            raise UsageError(f"{function.__name__}: there is no option {name!r}{meant}")
    return SessionOptions(**{"ranks": ranks, **options})


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a question for the known name that *name* is like, empty if there is none."""
    # Only an error needs the module.
    from difflib import get_close_matches

    found = get_close_matches(name, known, n=1)
    return f"; did you mean {found[0]!r}?" if found else ""
