"""Locations and expressions of ``--break-at``, ``--trace-at`` and ``--check``. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pgdb.bracketed import comma_parts
from pgdb.errors import UsageError
from pgdb.frontend.analysis.assertions import Check
from pgdb.patterns import pattern
from pgdb.ranks import RankSet

_COUNTS = pattern(r"\s*(\d*):(\d*):(\d*)\s*\Z")
_OF_PYTHON = pattern(r"\.py:\d+\Z")
_PYTHON = "py:"
_MOST_GROUPS = 3
_MOST_VALUE_CHARACTERS = 100


class Place(msgspec.Struct, frozen=True):
    """A location, and the values of interest there."""

    location: str
    expressions: tuple[str, ...] = ()
    condition: str = ""
    """Condition of the breakpoint or of the trace, in the program's language."""
    first: int = 1
    """The first hit that counts, from 1."""
    every: int = 1
    count: int = 0
    """Most hits that count; 0 for no limit."""
    check: str = ""
    """Condition that has to hold on all ranks; empty for none."""


def read_place(text: str, option: str, *, is_trace: bool = False) -> Place:
    """Read ``LOC,EXPR…[,FIRST:EVERY:COUNT][ if COND]``.

    >>> read_place("a.c:3,x[1,2],2:5: if n > 1", "--trace-at", is_trace=True)
    Place(location='a.c:3', expressions=('x[1,2]',), condition='n > 1', first=2, every=5, count=0, check='')

    :raises UsageError: if a part is missing or wrong.
    """  # noqa: E501
    body, _, condition = text.partition(" if ")
    if " if " in text and not condition.strip():
        raise UsageError(f"{option} {text!r}: no condition follows 'if'")
    location, *rest = (each.strip() for each in comma_parts(body))
    if not location:
        raise UsageError(
            f"{option} {text!r}: a location is needed, for example solver.c:120,residual"
        )
    counts = (1, 1, 0)
    if rest and (match := _COUNTS.match(rest[-1])):
        if not is_trace:
            raise UsageError(f"{option} {text!r}: FIRST:EVERY:COUNT is for --trace-at")
        first, every, count = (int(each) if each else 0 for each in match.groups())
        counts = (first or 1, every or 1, count)
        rest.pop()
    if "" in rest:
        raise UsageError(f"{option} {text!r}: an expression between the commas is empty")
    if is_trace and not rest:
        raise UsageError(f"{option} {text!r}: an expression is needed, as in {location},residual")
    if is_trace and _OF_PYTHON.search(location):
        raise UsageError(
            f"{option} {text!r}: traces are for compiled code; --break-at has values of Python"
        )
    expressions = tuple(_in_language(location, each) for each in rest)
    return Place(location, expressions, condition.strip(), *counts)


def _in_language(location: str, expression: str) -> str:
    """Return an expression as one of Python if the location is in a file of Python.

    >>> _in_language("solver.py:12", "n"), _in_language("solver.c:12", "n")
    ('py:n', 'n')
    """
    is_plain = _OF_PYTHON.search(location) and not expression.startswith(_PYTHON)
    return f"{_PYTHON}{expression}" if is_plain else expression


def pairs_of(conditions: Sequence[str], locations: Sequence[str]) -> tuple[Place, ...]:
    """Return the conditions of ``--check``, each at its location of ``--at``.

    :raises UsageError: if there is a condition without a location, or the other way round.
    """
    if len(locations) == 1:
        locations = [*locations] * len(conditions)
    if len(conditions) != len(locations) or not all(locations):
        raise UsageError(
            f"--check {conditions[-1]!r} needs --at LOC: the location at which it is checked"
        )
    return tuple(
        Place(location, check=_in_language(location, condition))
        for condition, location in zip(conditions, locations, strict=True)
    )


def check_in_words(place: Place, found: Check) -> tuple[RankSet, str]:
    """Return the ranks on which a check has failed, and the event in words.

    The set is empty if the check could only not be evaluated.
    """
    failing = [each for each in found.failing if not each.is_error]
    ranks = RankSet.union(each.ranks for each in failing)
    if failing:
        what = f"{place.check} does not hold at {place.location} on [{ranks}]"
    else:
        failing = list(found.failing)
        unchecked = RankSet.union(each.ranks for each in failing) | found.unexcused
        what = f"{place.check} could not be checked at {place.location} on [{unchecked}]"
    values = [
        f"{each.value[:_MOST_VALUE_CHARACTERS]}{f' ({each.why})' if each.why else ''}"
        for each in failing
    ]
    if len(values) == 1:
        return ranks, f"{what}: {values[0]}"
    shown = [
        f"[{each.ranks}] {value}"
        for each, value in zip(failing[:_MOST_GROUPS], values, strict=False)
    ]
    more = ", …" if len(values) > _MOST_GROUPS else ""
    return ranks, f"{what}: {', '.join(shown)}{more}" if shown else f"{what}: no answer"
