"""Numbers of breakpoints as they are typed: ``1 3.1 5-7 $bpnum $mine``."""

from __future__ import annotations

from typing import Literal

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.commands.options import is_number
from pgdb.frontend.commands.table import Call
from pgdb.merge.classes import EquivalenceClass
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import BreakpointList, Failure, Record, Text

_NUMBER = pattern(r"\d+(?:\.\d+)?\Z")
_LAST = pattern(r"\$bpnum\b")
_PLACES = pattern(r"(\d+)\.(\d+)-(\d+)\Z")
_RANGE = pattern(r"(\d+)-(\d+)\Z")
# A variable of GDB's, or a value of its history: $mine, $3, $, $$, $$2.
_VARIABLE = pattern(r"\$(?:[A-Za-z_]\w*|\$?\d*)")
_WHOLE = pattern(r"0x[0-9a-f]+\Z|\d+\Z")
_MOST_NUMBERS = 100_000


class NoBreakpointError(UsageError):
    """Use of the last breakpoint where that could not be made."""


async def read_numbers(call: Call, text: str) -> list[str]:
    """Return the numbers in a text, with ranges written out.

    :raises UsageError: for anything else.
    """
    found: list[str] = []
    for word in (await with_values(call, text)).replace(",", " ").split():
        if match := _RANGE.match(word):
            found += map(str, read_range(word, match[1], match[2]))
        elif match := _PLACES.match(word):
            found += [f"{match[1]}.{each}" for each in read_range(word, match[2], match[3])]
        elif _NUMBER.match(word):
            found.append(word)
        else:
            raise UsageError(f"{word!r} is no breakpoint number; write for example 3 or 2-4")
    return found


def as_range(word: str) -> range | None:
    """Return the numbers of a range such as ``2-4``, None for anything else."""
    match = _RANGE.match(word)
    return read_range(word, match[1], match[2]) if match else None


def read_range(word: str, low: str, high: str) -> range:
    """Return the numbers of a range.

    :raises UsageError: if they are too large, too many, or inverted.
    """
    if not is_number(low) or not is_number(high):
        raise UsageError(f"{word!r} is no range of breakpoint numbers")
    if int(low) > int(high):
        raise UsageError(f"{word!r} is an inverted range; the smaller number comes first")
    numbers = range(int(low), int(high) + 1)
    if len(numbers) > _MOST_NUMBERS:
        raise UsageError(f"{word!r} are too many breakpoints; {_MOST_NUMBERS} is the limit")
    return numbers


def last_made(call: Call, *, only_looks: bool = False) -> str:
    """Return the number of the breakpoint that was made last.

    :raises NoBreakpointError: if there is none, or if the last command that was to make one failed
        and this command would change another one than the user means.
    """
    numbers = call.session.breakpoint_numbers
    if numbers.has_failed and not only_looks:
        raise NoBreakpointError(
            f"'{call.line}' is not carried out: the last command has made no breakpoint; give the "
            "number of the breakpoint that is meant"
        )
    if not numbers.last:
        raise NoBreakpointError("there is no breakpoint yet")
    return str(numbers.last)


async def ranks_with(
    call: Call, numbers: list[str], kind: Literal["", "tracepoint"] = ""
) -> RankSet:
    """Return the ranks that may have a breakpoint of one of these numbers.

    Breakpoints that code of the user's has made are not in the session's list of commands, so that
    the GDBs are asked about what it does not name.
    """
    session = call.session
    if session.is_recorded:
        return call.ranks  # the command is refused, and that says why
    if not kind and any(session.has_breakpoints(call.ranks, int(each)) for each in numbers):
        return call.ranks
    answer = await call.view.breakpoints(*numbers, kind=kind)
    lists = ((each.ranks, each.filled) for each in answer.classes)
    return call.ranks - RankSet.union(
        ranks for ranks, each in lists if isinstance(each, BreakpointList) and not each.breakpoints
    )


def not_there(call: Call, numbers: list[str], kind: str = "breakpoint") -> Answer:
    """Return GDB's error about numbers that no breakpoint has."""
    text = "\n".join(f"No {kind} number {each}." for each in numbers)
    classes = (EquivalenceClass[Record](call.ranks, Failure(message=text)),)
    return Answer(call.line, call.ranks, classes)


async def with_values(call: Call, text: str, *, only_looks: bool = False) -> str:
    """Return a text with the numbers that its variables have in the ranks' GDBs.

    A command that *only_looks* changes no breakpoint.

    :raises CommandError: for a variable without a whole number, or with several.
    """
    if _LAST.search(text):
        text = _LAST.sub(last_made(call, only_looks=only_looks), text)
    values = {name: await _value(call, name) for name in dict.fromkeys(_VARIABLE.findall(text))}
    return _VARIABLE.sub(lambda found: values[found[0]], text)


async def _value(call: Call, name: str) -> str:
    answer = await call.view.execute_plain(f"output {name}")
    values = {each.ranks: _text(each.record) for each in answer.classes}
    if len({*values.values()}) > 1:
        said = ", ".join(f"{text} on [{ranks}]" for ranks, text in values.items())
        raise CommandError(
            f"{call.word}: {name} differs by rank: {said}; 'proc {call.ranks.first} {call.line}' "
            "is about one rank"
        )
    text = next(iter(values.values()), "")
    if not text:
        raise CommandError(f"{call.word}: no rank has reported the value of {name}")
    if not _WHOLE.match(text):
        raise CommandError(f"{call.word}: {name} is no breakpoint number: {text}")
    return str(int(text, 16 if text.startswith("0x") else 10))


def _text(record: object) -> str:
    if isinstance(record, Failure):
        return record.message
    return record.text.strip() if isinstance(record, Text) else ""
