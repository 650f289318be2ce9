"""Values of GDB's history, which each rank counts by itself.

``proc 0 print x`` and an error on some ranks make the histories of the ranks of different length,
so that ``$3`` is the value of another print on each of them.
"""

from __future__ import annotations

import re

from pgdb.frontend.commands.table import Call
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Text

_QUOTED = pattern(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_COUNTED = pattern(r"(?<![\w$])\$(?:\$\d*|\d+)(?![\w$])")
_LINE = pattern(r"^\$(\d+) = ", re.M)
# Only the numbers are read; values can be long.
_LAST_VALUES = "with print elements 1 -- show values"
_SHOWN = 10
"""Most values that one ``show values`` lists."""


def is_counted(expression: str) -> bool:
    """Return whether an expression has a value of the history by its number.

    >>> is_counted("$3 + x"), is_counted("$$"), is_counted("$"), is_counted('f("$1", $pc)')
    (True, True, False, False)
    """
    return _COUNTED.search(_QUOTED.sub("", expression)) is not None


async def note_on_lengths(call: Call, expression: str) -> None:
    """Say so if ``$N`` in an expression is not the value of the same print on all ranks."""
    lengths = await _lengths(call) if is_counted(expression) else {}
    if len(lengths) > 1:
        counts = ", ".join(f"{last} on [{lengths[last]}]" for last in sorted(lengths))
        call.session.note(
            "$N is the value of another print on some ranks, since each rank counts its own "
            f"values: {counts}"
        )


async def line_for_last_values(call: Call) -> str:
    """Return the line that lists the last values: those of the same numbers on all ranks."""
    lengths = await _lengths(call)
    if len(lengths) < 2:
        return call.line
    # GDB lists five values before the one that is named, and four behind it.
    return f"show values {max(max(lengths) - _SHOWN, 0) + 6}"


async def _lengths(call: Call) -> dict[int, RankSet]:
    """Return the ranks with each number of values; nothing for a single rank."""
    lengths: dict[int, RankSet] = {}
    if len(call.ranks) < 2:
        return lengths
    for each in (await call.view.execute_plain(_LAST_VALUES)).classes:
        if not each.is_error:
            text = each.record.text if isinstance(each.record, Text) else ""
            last = max(map(int, _LINE.findall(text)), default=0)
            lengths[last] = lengths.get(last, RankSet()) | each.ranks
    return lengths
