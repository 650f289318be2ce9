"""Lists of threads (``info threads``) of many ranks as one list.

Ranks have the same thread numbers for threads that wait in different functions, and other numbers
of threads. Each thread is listed once for each function that it is in, with its ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pgdb.frontend.analysis.text_parts import Said, merge_texts
from pgdb.frontend.analysis.values import Leaf
from pgdb.merge.normalize import DIFFERENT
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import SLOT

_HEAD = pattern(r"\s+Id\s+(?:GId\s+)?Target Id\s+Frame\s*\Z")
_ROW = pattern(
    rf"(?P<mark>[* ]) +(?P<number>\d+(?:\.\d+)?(?: +\d+(?= +[A-Z]))?) +"
    rf"(?P<target>(?:Thread [\w{SLOT}.]+(?: \(LWP [\w{SLOT}]+\))?|(?:LWP|process) [\w{SLOT}]+)"
    r'(?: "(?:[^"\\]|\\.)*")?(?: \([A-Z]\w*\))?)'
    r"\s+(?P<frame>\S.*)\Z"
)
_ADDRESS = pattern(rf"(?:{SLOT}|0x[0-9a-f]+) in ")


class ThreadRow(msgspec.Struct, frozen=True):
    """One thread in one function."""

    ranks: RankSet
    number: str
    is_current: bool
    target: str
    """GDB's name of the thread, with ``…`` for what differs."""
    frame: str
    """The function with its arguments, ``…`` for those that differ, and the place in the source."""


class _Seen(msgspec.Struct, frozen=True):
    number: str
    is_current: bool
    target: Said
    frame: Said


def merge_thread_lists(texts: Sequence[Said]) -> list[ThreadRow] | None:
    """Return the rows of all lists, by thread number; None if a text is no list of threads."""
    groups: dict[tuple[str, bool, str], list[_Seen]] = {}
    for text in texts:
        seen = _rows_of(text)
        if seen is None:
            return None
        for each in seen:
            key = (each.number, each.is_current, function_of(each.frame.text))
            groups.setdefault(key, []).append(each)
    rows = [
        ThreadRow(
            RankSet.union(each.frame.ranks for each in members),
            number,
            is_current,
            _joined([each.target for each in members]),
            _joined([each.frame for each in members]),
        )
        for (number, is_current, _), members in groups.items()
    ]
    return sorted(rows, key=lambda row: (_order(row.number), -len(row.ranks), row.ranks.first))


def _order(number: str) -> tuple[int, ...]:
    return tuple(int(each) for each in number.replace(" ", ".").split(".") if each)


def _rows_of(said: Said) -> list[_Seen] | None:
    head, *lines = said.text.rstrip("\n").split("\n")
    if _HEAD.match(head) is None:
        return None
    used = 0
    found = []
    for line in lines:
        match = _ROW.match(line)
        if match is None:
            return None
        parts = []
        at = 0
        for name in ("target", "frame"):
            used += line.count(SLOT, at, match.start(name))
            count = match[name].count(SLOT)
            parts.append(Said(said.ranks, match[name], said.slots[used : used + count]))
            used += count
            at = match.end(name)
        target, frame = parts
        is_current = match["mark"] == "*"
        found.append(_Seen(match["number"], is_current, target, without_address(frame)))
    return found


def without_address(frame: Said) -> Said:
    """Return a frame without its address: no rank has its functions where others have them."""
    address = _ADDRESS.match(frame.text)
    if address is None:
        return frame
    count = address[0].count(SLOT)
    return Said(frame.ranks, frame.text[address.end() :], frame.slots[count:])


def function_of(frame: str) -> str:
    """Return a frame without its arguments.

    >>> function_of("deep (n=2, text=\\"a)\\") at prog.c:5"), function_of("(running)")
    ('deep at prog.c:5', '(running)')
    """
    begin = frame.find(" (")
    end = frame.rfind(") ") if frame.rfind(") ") > begin else frame.rfind(")")
    return frame if begin < 0 or end < begin else f"{frame[:begin]}{frame[end + 1 :]}"


def _joined(same: Sequence[Said]) -> str:
    """Return the text that lines have in common, with ``…`` for what differs."""
    merged = merge_texts(same)
    if len(merged) > 1:
        return DIFFERENT
    only = same[merged[0].members[0]]
    return merged[0].common or Leaf(only.text, only.slots).filled
