"""Take out of a record what differs between ranks without mattering.

Address randomisation gives every rank other raw addresses; a function pointer, a stack address
or the depth at which an MPI library happens to spin says nothing about the program. Such parts
are replaced by :data:`~pgdb.records.SLOT` marks and returned beside the record, in order, so
that nothing is lost: filling the slots again gives back the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from pgdb.errors import ProtocolError
from pgdb.merge.record_visitor import TextKind, map_arguments, map_texts
from pgdb.patterns import pattern
from pgdb.records import SLOT, Event, Record, Stack, Stop, Threads, ThreadStack

# A mark in the program's own data is normalized too, so that it gets itself back.
# User-space addresses of the machines we know have 5 to 16 hex digits. Short numbers are data:
# 0x0 (null) and 0x10 (an offset from null) must go on telling ranks apart.
_POINTER = pattern(rf"{SLOT}|\b0x[0-9a-f]{{5,16}}\b")
_POINTER_ALONE = pattern(r"0x(?<!\w0x)[0-9a-f]{5,16}\b")
# In free text (x, info registers) only what lies where Linux maps programs is taken for an
# address: 47-bit user space, position-independent executables, libraries, stacks.
# Linux numbers threads and processes as it likes. GDB prints those numbers in lists of threads
# ("* 1    Thread 0x7ffff7d8c740 (LWP 4711) main ()", "  2    LWP 4712 ..."), when a thread is
# selected and at the top of info proc; elsewhere such words may be the program's, with its data.
# The threads of Open MPI and MPICH wait in poll and epoll_wait for what is left of some hour.
_FREE_TEXT = pattern(
    rf"""{SLOT}
    | \b0x0*(?:5[5-6][0-9a-f]{{10}}|7[ef][0-9a-f]{{10}})\b
    | (?:(?<=\(LWP[ ])|(?<=\(process[ ]))\d+(?=\))
    | (?P<before>
        ^[* ][ ]+\d+(?:\.\d+)?[ ]+(?:LWP|process)[ ]
        | \Aprocess[ ](?=\d+\n)
        | \b_*(?:GI_+)?(?:poll|epoll_wait)[ ]\([^()\n]*\btimeout=
      )(?:timeout@entry=)?-?\d+
    """,
    re.X | re.M,
)
# What can be in front of a timeout, as above.
_BEFORE_TIMEOUT = pattern(
    rf"""{SLOT}
    | \b0x0*(?:5[5-6][0-9a-f]{{10}}|7[ef][0-9a-f]{{10}})\b
    | (?P<before>\btimeout=)(?:timeout@entry=)?-?\d+
    """,
    re.X,
)
_MARKS = ("LWP ", "process ", "timeout=")
"""One of these is in every line with more to mask than addresses."""
_ADDRESS_ALONE = pattern(r"0x(?<!\w0x)0*(?:5[5-6][0-9a-f]{10}|7[ef][0-9a-f]{10})\b")
# The interpreter is not given to another thread within one substitution.
_SLICE = 1 << 17
_LONGEST_LINE = 1 << 16
"""Longer ones are no lines of threads or frames, whatever words are in them."""
DIFFERENT_SLOT = f"\0{SLOT}\0"
"""A slot in which the members of a class differ; no text that GDB prints."""
DIFFERENT = "…"
"""Shown where the members of a class have different addresses."""


def normalize_values(text: str, slots: list[str]) -> str:
    """Replace pointers in a value that GDB printed without a format, appending them to *slots*.

    >>> found = []
    >>> normalize_values('(char *) 0x5555555592a0 "abc"', found), found
    ('(char *) \ufffc "abc"', ['0x5555555592a0'])
    """
    if SLOT in text:
        return _replaced(_POINTER, text, slots)
    if "0x" not in text:
        return text
    # Beginning with what there is little of, it is searched for three times as fast.
    return _replaced(_POINTER_ALONE, text, slots)


def normalize_free_text(text: str, slots: list[str]) -> str:
    """Replace what looks like an address of a program in any text, appending it to *slots*.

    So are the numbers that Linux has for threads and processes, where GDB prints them.

    >>> found = []
    >>> normalize_free_text("* 1    LWP 4711 main () at ring.c:5", found), found
    ('* 1    LWP \ufffc main () at ring.c:5', ['4711'])
    """
    if SLOT in text:
        return _mask_lines(text, 0, len(text), slots)
    pieces = []
    at = 0
    for begin, end in _marked_lines(text):
        pieces.append(_mask_addresses(text, at, begin, slots))
        pieces.append(_mask_lines(text, begin, end, slots))
        at = end
    if not at:
        return _mask_addresses(text, 0, len(text), slots)
    pieces.append(_mask_addresses(text, at, len(text), slots))
    return "".join(pieces)


def _marked_lines(text: str) -> list[tuple[int, int]]:
    """Return where the lines with a mark in them begin, and where they and their ends end."""
    found = set()
    for mark in _MARKS:
        at = text.find(mark)
        while at >= 0:
            begin = text.rfind("\n", 0, at) + 1
            end = text.find("\n", at) + 1 or len(text)
            if end - begin <= _LONGEST_LINE:
                found.add((begin, end))
            at = text.find(mark, end)
    return sorted(found)


def _mask_lines(text: str, begin: int, end: int, slots: list[str]) -> str:
    """Mask all that there is to mask in a part of a text; what comes before it counts."""
    pieces: list[str] = []
    at = begin
    for match in _FREE_TEXT.finditer(text, begin, end):
        before = match["before"] or ""
        pieces += text[at : match.start()], _replaced(_BEFORE_TIMEOUT, before, slots), SLOT
        slots.append(match[0].removeprefix(before))
        at = match.end()
    pieces.append(text[at:end])
    return "".join(pieces)


def _mask_addresses(text: str, begin: int, end: int, slots: list[str]) -> str:
    """Mask the addresses in whole lines of a text, that has nothing else to mask there."""
    if text.find("0x", begin, end) < 0:
        return text[begin:end]
    pieces = []
    while begin < end:
        # Whole lines: an address is told by what is before and behind it.
        until = (text.find("\n", begin + _SLICE, end) + 1 or end) if end - begin > _SLICE else end
        pieces.append(_replaced(_ADDRESS_ALONE, text[begin:until], slots))
        begin = until
    return "".join(pieces)


def _replaced(what: re.Pattern[str], text: str, slots: list[str]) -> str:
    def take(match: re.Match[str]) -> str:
        before = match["before"] or "" if has_before else ""
        slots.append(match[0].removeprefix(before))
        return before + SLOT

    has_before = "before" in what.groupindex
    return what.sub(take, text)


def normalize_record(
    record: Record | Event, *, numbers_are_data: bool = False, join_arguments: bool = False
) -> Normalized:
    """Return *record* with its addresses normalized, and what was normalized.

    With *numbers_are_data* (``print/x``) hexadecimal numbers are values and stay. With
    *join_arguments* the arguments in a stack are normalized whole, so that ranks at the same place
    are of one class whatever they were called with; where they agree the value is kept.
    """
    if numbers_are_data:
        return Normalized(record=record, slots=())
    slots: list[str] = []
    change = _Mask(slots, join_arguments=join_arguments)
    if isinstance(record, Threads):
        return _mask_threads(record, join_arguments)
    if not isinstance(record, Stop):
        normalized = map_texts(record, change)
        return Normalized(record=normalized, slots=tuple(slots))
    if record.frame is None:
        return Normalized(record=record, slots=())
    # Who stopped where is the news of a stop; its arguments may differ on every rank.
    frame = map_arguments(record.frame, _Mask(slots, join_arguments=True))
    slots.append(str(frame.level))
    frame = replace(frame, level=0)
    label, colon, value = record.detail.partition(": ")
    slots.extend(SLOT for _ in range(label.count(SLOT)))
    detail = label
    if colon:
        slots.append(value)
        detail = f"{label}{colon}{SLOT}"
    stop = replace(record, frame=frame, detail=detail)
    return Normalized(record=stop, slots=tuple(slots))


class _Mask:
    """Masks one text after the other, as its kind wants it."""

    def __init__(self, slots: list[str], *, join_arguments: bool) -> None:
        self._slots = slots
        self._join_arguments = join_arguments

    def __call__(self, text: str, kind: TextKind) -> str:
        if kind == "hidden" or (kind == "argument" and self._join_arguments):
            self._slots.append(text)
            return SLOT
        if kind == "text":
            return normalize_free_text(text, self._slots)
        return normalize_values(text, self._slots)


def _mask_threads(record: Threads, join_arguments: bool) -> Normalized:
    """Mask the stacks of threads; those that are equal then become one, with their number.

    Their order is that of what is left, so that ranks with the same threads say the same.
    """
    counts: dict[Stack, int] = {}
    slots_of: dict[Stack, tuple[str, ...]] = {}
    for each in record.stacks:
        slots: list[str] = []
        stack = map_texts(each.stack, _Mask(slots, join_arguments=join_arguments))
        found = tuple(slots)
        counts[stack] = counts.get(stack, 0) + each.count
        slots_of[stack] = join_slots(slots_of.get(stack, found), found)
    ordered = sorted(counts, key=msgspec.msgpack.encode)
    all_slots = [slot for stack in ordered for slot in slots_of[stack]]
    if record.hidden:
        all_slots.append(record.hidden)
    threads = Threads(
        stacks=tuple(ThreadStack(stack=stack, count=counts[stack]) for stack in ordered),
        hidden=SLOT if record.hidden else "",
    )
    return Normalized(record=threads, slots=tuple(all_slots))


class Normalized(msgspec.Struct, frozen=True):
    """A record without what does not matter, and what was taken out."""

    record: Record | Event
    slots: tuple[str, ...]


def join_slots(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """Merge the slots of two members of a class: equal ones stay, others become different.

    DIFFERENT_SLOT means "different": the operation is associative, commutative and idempotent, as
    merging needs.

    :raises ProtocolError: if they are not of equal number; slots come from the wire.
    """
    if one == other:
        return tuple(one)
    if len(one) != len(other):
        raise ProtocolError(f"{len(one)} slots and {len(other)} slots for one record")
    return tuple(a if a == b else DIFFERENT_SLOT for a, b in zip(one, other, strict=True))


class SlotFiller:
    """Puts slots back into the texts of one record, in the order in which they were taken."""

    def __init__(self, slots: Sequence[str]) -> None:
        self._left = iter(slots)

    def fill(self, text: str) -> str:
        """Return *text* with each mark replaced by the next slot, or by ``…`` if it differs."""
        if SLOT not in text:
            return text
        return re.sub(SLOT, lambda _: self._next(), text)

    def _next(self) -> str:
        slot = next(self._left, DIFFERENT_SLOT)
        return DIFFERENT if slot == DIFFERENT_SLOT else slot
