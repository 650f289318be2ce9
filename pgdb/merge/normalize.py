"""Normalize records: remove what differs between ranks without a meaning.

Address randomisation gives every rank other raw addresses. A function pointer, a stack address or
the depth at which an MPI library spins says nothing about the program. A :data:`~pgdb.records.SLOT`
mark replaces each such part. The parts are returned beside the record, in order, so nothing is
lost: filling the slots restores the text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from pgdb.errors import ProtocolError
from pgdb.merge.record_visitor import TextKind, map_arguments, map_texts
from pgdb.merge.slot_values import (
    is_listed,
    join_listed,
    slot_of_rank,
    texts_of_slot,
    values_of,
    with_values,
)
from pgdb.patterns import pattern
from pgdb.records import (
    SLOT,
    Done,
    Event,
    Record,
    Running,
    Stack,
    Stop,
    Threads,
    ThreadStack,
    Value,
)

# A mark in the program's own data becomes a slot too, so filling restores it.
# User-space addresses of the machines we know have 5 to 16 hex digits. Short numbers are data: 0x0
# (null) and 0x10 (an offset from null) must still distinguish ranks.
_POINTER = pattern(rf"{SLOT}|\b0x[0-9a-f]{{5,16}}\b")
# The sign of a NaN is as arbitrary as its bits: it goes into the slot, too.
_NEGATIVE_NAN = "-nan(0x"
_NEGATIVE = pattern(
    r"-nan\((?P<bits>0x[0-9a-f]{5,16})(?=\))|0x(?<!\w0x)[0-9a-f]{5,16}\b",
)
_FILLED = pattern(rf"(?P<nan>nan\()?{SLOT}")
_POINTER_ALONE = pattern(r"0x(?<!\w0x)[0-9a-f]{5,16}\b")
# In free text (x, info registers) a number is an address only if it lies where Linux maps programs:
# 47-bit user space, position-independent executables, libraries, stacks. Linux assigns thread and
# process numbers freely. GDB prints them in lists of threads ("* 1 Thread 0x7ffff7d8c740 (LWP 4711)
# main ()", " 2 LWP 4712 ..."), when a thread is selected, and at the top of info proc; elsewhere
# such words may be the program's data. Threads of Open MPI and MPICH wait in poll and epoll_wait
# with a timeout that counts down from some hour.
_FREE_TEXT = pattern(
    rf"""{SLOT}
    | \b0x0*(?:5[5-6][0-9a-f]{{10}}|7[ef][0-9a-f]{{10}})\b
    | (?:(?<=\(LWP[ ])|(?<=\(process[ ]))\d+(?=\))
    | (?<=\[process[ ])\d+(?=\])
    | (?P<before>
        ^[* ][ ]+\d+(?:\.\d+)?[ ]+(?:LWP|process)[ ]
        | \Aprocess[ ](?=\d+\n)
        | \b_*(?:GI_+)?(?:poll|epoll_wait)[ ]\([^()\n]*\btimeout=
      )(?:timeout@entry=)?-?\d+
    """,
    re.X | re.M,
)
# The text before a timeout, as above.
_BEFORE_TIMEOUT = pattern(
    rf"""{SLOT}
    | \b0x0*(?:5[5-6][0-9a-f]{{10}}|7[ef][0-9a-f]{{10}})\b
    | (?P<before>\btimeout=)(?:timeout@entry=)?-?\d+
    """,
    re.X,
)
# "forked process 4711", the event of a catchpoint
_PROCESS = pattern(rf"{SLOT}|(?<=process )\d+")
_MARKS = ("LWP ", "process ", "timeout=")
"""Every line with more to normalize than addresses holds one of these."""
# "info registers" shows an address a second time, in decimal digits.
_ADDRESS_ALONE = pattern(
    r"0x(?<!\w0x)0*(?:5[5-6][0-9a-f]{10}|7[ef][0-9a-f]{10})\b(?:([ \t]+)([0-9]{14,15})\b)?"
)
# Python switches threads only between two substitutions, so a substitution must be short.
SLICE = 1 << 17
LONGEST_LINE = 1 << 16
"""Longest line, in characters, that may list a thread or a frame."""
DIFFERENT_SLOT = f"\0{SLOT}\0"
"""A slot in which the members of a class differ; GDB prints no such text."""
DIFFERENT = "…"
"""The text shown where the members of a class have different addresses."""


def normalize_values(text: str, slots: list[str]) -> str:
    """Replace pointers in a value that GDB printed without a format, and append them to *slots*.

    >>> found = []
    >>> normalize_values('(char *) 0x5555555592a0 "abc"', found), found
    ('(char *) \ufffc "abc"', ['0x5555555592a0'])
    """
    if SLOT in text:
        return _replaced(_POINTER, text, slots)
    if "0x" not in text:
        return text
    if _NEGATIVE_NAN in text:
        return _NEGATIVE.sub(functools.partial(_take_negative, slots), text)
    # A pattern that begins with the rare text 0x is searched three times as fast.
    return _replaced(_POINTER_ALONE, text, slots)


def normalize_free_text(text: str, slots: list[str]) -> str:
    """Replace numbers that look like a program's addresses in any text, and append them to *slots*.

    The same holds for Linux's numbers of threads and processes where GDB prints them.

    >>> found = []
    >>> normalize_free_text("* 1    LWP 4711 main () at ring.c:5", found), found
    ('* 1    LWP \ufffc main () at ring.c:5', ['4711'])
    """
    if SLOT in text:
        return _normalize_lines(text, 0, len(text), slots)
    pieces = []
    at = 0
    for begin, end in _marked_lines(text):
        pieces.append(_normalize_addresses(text, at, begin, slots))
        pieces.append(_normalize_lines(text, begin, end, slots))
        at = end
    if not at:
        return _normalize_addresses(text, 0, len(text), slots)
    pieces.append(_normalize_addresses(text, at, len(text), slots))
    return "".join(pieces)


def _marked_lines(text: str) -> list[tuple[int, int]]:
    """Return the beginning and the end of each line with a mark in it, the line end included."""
    found = set()
    for mark in _MARKS:
        at = text.find(mark)
        while at >= 0:
            begin = text.rfind("\n", 0, at) + 1
            end = text.find("\n", at) + 1 or len(text)
            if end - begin <= LONGEST_LINE:
                found.add((begin, end))
            at = text.find(mark, end)
    return sorted(found)


def _normalize_lines(text: str, begin: int, end: int, slots: list[str]) -> str:
    """Normalize everything in one part of a text; patterns also see the text before that part."""
    pieces: list[str] = []
    at = begin
    for match in _FREE_TEXT.finditer(text, begin, end):
        before = match["before"] or ""
        pieces += text[at : match.start()], _replaced(_BEFORE_TIMEOUT, before, slots), SLOT
        slots.append(match[0].removeprefix(before))
        at = match.end()
    pieces.append(text[at:end])
    return "".join(pieces)


def _normalize_addresses(text: str, begin: int, end: int, slots: list[str]) -> str:
    """Normalize the addresses in whole lines of a text that hold nothing else to normalize."""
    if text.find("0x", begin, end) < 0:
        return text[begin:end]

    def take(match: re.Match[str]) -> str:
        blank, decimal = match[1], match[2]
        if not decimal:
            slots.append(match[0])
            return SLOT
        address = match[0][: -len(blank) - len(decimal)]
        slots.append(address)
        if int(decimal) != int(address, 16):
            return f"{SLOT}{blank}{decimal}"
        slots.append(decimal)
        return f"{SLOT}{blank}{SLOT}"

    pieces = []
    while begin < end:
        # Lines stay whole: the characters around a number decide whether it is an address.
        until = (text.find("\n", begin + SLICE, end) + 1 or end) if end - begin > SLICE else end
        pieces.append(_ADDRESS_ALONE.sub(take, text[begin:until]))
        begin = until
    return "".join(pieces)


def _take_negative(slots: list[str], match: re.Match[str]) -> str:
    bits = match["bits"]
    slots.append(f"-{bits}" if bits else match[0])
    return f"nan({SLOT}" if bits else SLOT


def _replaced(what: re.Pattern[str], text: str, slots: list[str]) -> str:
    def take(match: re.Match[str]) -> str:
        before = match["before"] or "" if has_before else ""
        slots.append(match[0].removeprefix(before))
        return before + SLOT

    has_before = "before" in what.groupindex
    return what.sub(take, text)


def normalize_record(
    record: Record | Event,
    *,
    numbers_are_data: bool = False,
    join_arguments: bool = False,
    rank: int | None = None,
) -> Normalized:
    """Return *record* with its addresses replaced, and the replaced parts.

    With *numbers_are_data* (``print/x``) hexadecimal numbers are values and stay. With
    *join_arguments* each argument in a stack is replaced whole, so that ranks at the same place are
    of one class whatever their arguments are; an argument on which all agree keeps its value. With
    *rank* the slot for the detail of a stop keeps the texts of the ranks that differ.
    """
    if numbers_are_data:
        if isinstance(record, Value) and record.bounds and SLOT not in record.text:
            normalized = replace(record, bounds=SLOT)
            return Normalized(record=normalized, slots=(record.bounds,))
        return Normalized(record=record, slots=())
    if isinstance(record, Running | Done):
        return Normalized(record=record, slots=())
    slots: list[str] = []
    change = _Normalizer(slots, join_arguments=join_arguments)
    if isinstance(record, Threads):
        return _normalize_threads(record, join_arguments)
    if not isinstance(record, Stop):
        return Normalized(record=map_texts(record, change), slots=tuple(slots))
    if record.frame is None:
        return Normalized(record=replace(record, values=()), slots=())
    # A stop says which ranks stopped where; the arguments may differ on every rank.
    frame = map_arguments(record.frame, _Normalizer(slots, join_arguments=True))
    slots.append(str(frame.level))
    frame = replace(frame, level=0)
    event = _replaced(_PROCESS, record.event, slots) if record.event else ""
    # Ranks at one place are of one class whichever of their threads has come there.
    slots.extend(each for each in (record.thread, record.thread_name) if each)
    thread, name = SLOT if record.thread else "", SLOT if record.thread_name else ""
    # The slot of the detail is the last one.
    label, colon, value = record.detail.partition(": ")
    slots.extend(SLOT for _ in range(label.count(SLOT)))
    detail = label
    if colon:
        if rank is not None and "\0" not in value:
            value = slot_of_rank(rank, with_values(value, record.values))
        slots.append(value)
        detail = f"{label}{colon}{SLOT}"
    stop = replace(
        record,
        frame=frame,
        detail=detail,
        values=(),
        event=event,
        thread=thread,
        thread_name=name,
    )
    return Normalized(record=stop, slots=tuple(slots))


class _Normalizer:
    """Normalizer of the texts of one record in turn, each by its kind."""

    def __init__(self, slots: list[str], *, join_arguments: bool) -> None:
        self._slots = slots
        self._join_arguments = join_arguments

    def __call__(self, text: str, kind: TextKind) -> str:
        if kind in ("hidden", "bounds") or (kind == "argument" and self._join_arguments):
            self._slots.append(text)
            return SLOT
        if kind == "digest":
            return text
        if kind == "text":
            return normalize_free_text(text, self._slots)
        return normalize_values(text, self._slots)


def _normalize_threads(record: Threads, join_arguments: bool) -> Normalized:
    """Normalize the stacks of threads, and join equal stacks into one with their number.

    The stacks are sorted by their normalized form, so ranks with the same threads have equal
    records.
    """
    counts: dict[Stack, int] = {}
    slots_of: dict[Stack, tuple[str, ...]] = {}
    for each in record.stacks:
        slots: list[str] = []
        stack = map_texts(each.stack, _Normalizer(slots, join_arguments=join_arguments))
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
        are_tasks=record.are_tasks,
    )
    return Normalized(record=threads, slots=tuple(all_slots))


class Normalized(msgspec.Struct, frozen=True):
    """A normalized record and the parts that were replaced."""

    record: Record | Event
    slots: tuple[str, ...]


def join_slots(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """Merge the slots of two members of a class: equal slots stay, others become DIFFERENT_SLOT,
    or one slot with the texts of all ranks where both keep these.

    The operation is associative, commutative and idempotent, as merging needs.

    :raises ProtocolError: if the numbers of slots differ; slots come from the wire.
    """
    if one == other:
        return tuple(one)
    if len(one) != len(other):
        raise ProtocolError(f"{len(one)} slots and {len(other)} slots for one record")
    # Most slots keep no texts, and the call for each would cost more than all else here.
    return tuple(
        [
            a if a == b else (is_listed(a) and join_listed(a, b)) or DIFFERENT_SLOT
            for a, b in zip(one, other, strict=True)
        ]
    )


class SlotFiller:
    """Filler of slots in the texts of one record, in order."""

    def __init__(self, slots: Sequence[str]) -> None:
        self._left = iter(slots)

    def fill(self, text: str) -> str:
        """Return *text* with each mark replaced by the next slot, or by ``…`` if the members
        differ."""
        if SLOT not in text:
            return text
        if "nan(" in text:
            return _FILLED.sub(self._fill_nan, text)
        return re.sub(SLOT, lambda _: self._next(), text)

    def _fill_nan(self, match: re.Match[str]) -> str:
        slot = self._next()
        if not match["nan"]:
            return slot
        return f"-nan({slot[1:]}" if slot.startswith("-0x") else f"nan({slot}"

    def _next(self) -> str:
        slot = next(self._left, DIFFERENT_SLOT)
        if is_listed(slot):
            return joined_text(slot)
        return DIFFERENT if slot == DIFFERENT_SLOT else slot


def joined_text(slot: str) -> str:
    """Return the text of a slot that keeps the texts of its ranks, ``…`` where these differ.

    Addresses in it are no differences.
    """
    texts = texts_of_slot(slot)
    found: list[tuple[str, list[str]]] = []
    wholes = set()
    for _, packed in texts:
        text, values = values_of(packed)
        if len(texts) == 1:
            return text
        slots: list[str] = []
        found.append((normalize_values(text, slots), slots))
        wholes.add(tuple(each.digest for each in values))
    if len({text for text, _ in found}) != 1 or len(wholes) != 1:
        return DIFFERENT
    slots_of_all = functools.reduce(join_slots, (tuple(slots) for _, slots in found))
    return SlotFiller(slots_of_all).fill(found[0][0])
