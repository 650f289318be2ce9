"""Calls of functions of one number in conditions, with an array or a complex number in its place.

C passes the address of an array, so that ``fabs(a)`` of GDB is made of an address. GDB does not
know how complex numbers are passed either. A verdict must not be made of such a value.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.conditions import closing, possible_arrays
from pgdb.frontend.analysis.values import Group
from pgdb.frontend.analysis.values import parse as parse_value
from pgdb.merge.classes import EquivalenceClass
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Failure, Record, Value, Various

_CALL = pattern(
    r"(?<![\w.>$])(?:std::)?(?P<name>(?:ll?)?abs|(?:fabs|sqrt|cbrt|exp|exp2|expm1|log|log2|log10|log1p"
    r"|sin|cos|tan|asin|acos|atan|sinh|cosh|tanh|floor|ceil|round|trunc|rint|nearbyint|erf|erfc"
    r"|tgamma|lgamma|isnan|isinf|isfinite|finite|signbit)[fl]?)\s*(?=\()"
)
_COMPLEX = pattern(r"\S+ [-+] \S+i\Z|\([^(),]+,[^(),]+\)\Z")
"""Complex numbers as GDB shows them, of C and of Fortran."""
_OF_PARTS = frozenset(("abs", "fabs"))
"""Functions of which ``stat`` knows the values for all elements of an array."""
_MOST_CALLS = 8


def arguments_of(condition: str) -> dict[str, tuple[str, str]]:
    """Return the calls of functions of one number, each with its function and its argument.

    >>> arguments_of("fabs(u) < 1 && n > abs( v[2] )")
    {'fabs(u)': ('fabs', 'u'), 'abs( v[2] )': ('abs', 'v[2]')}
    """
    found: dict[str, tuple[str, str]] = {}
    for call in _CALL.finditer(condition):
        end = closing(condition[call.end() :])
        argument = condition[call.end() + 1 : call.end() + end].strip()
        if end > 0 and possible_arrays([argument]):
            found[condition[call.start() : call.end() + end + 1]] = (call["name"], argument)
    return dict(list(found.items())[:_MOST_CALLS])


async def refused(
    conditions: Iterable[str], ranks: RankSet, evaluate: Callable[[str, RankSet], Awaitable[Answer]]
) -> list[EquivalenceClass[Record]]:
    """Return the ranks on which an argument is no number that GDB can pass, with the reasons."""
    calls = {call: parts for each in conditions for call, parts in arguments_of(each).items()}
    found: dict[str, RankSet] = {}
    left = ranks
    for name, argument in calls.values():
        said = await evaluate(argument, left) if left else None
        for each in said.classes if said is not None else ():
            if kind := _kind_of(each):
                shown = f"abs({argument})" if name in _OF_PARTS else argument
                message = (
                    f"{argument} is {kind}, and GDB passes it wrongly to {name}; 'stat {shown}' "
                    "shows the range of its values"
                )
                found[message] = found.get(message, RankSet()) | each.ranks
                left -= each.ranks
    return [EquivalenceClass(them, Failure(message=message)) for message, them in found.items()]


def _kind_of(each: EquivalenceClass[Record]) -> str:
    """Return the kind of a value that is no number, empty for any other value."""
    record = each.record.template if isinstance(each.record, Various) else each.record
    if not isinstance(record, Value):
        return ""
    if _COMPLEX.match(record.text):
        return "a complex number"
    node = parse_value(record.text)
    is_array = isinstance(node, Group) and node.is_array and not node.head.text.startswith("std::")
    return "an array" if is_array else ""
