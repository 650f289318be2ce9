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

from pgdb.records import (
    SLOT,
    BreakpointsMade,
    Event,
    Failure,
    Output,
    Record,
    Stack,
    Stop,
    Text,
    Value,
    Variable,
    Variables,
)

# A mark in the program's own data is masked too, so that it gets itself back.
# User-space addresses of the machines we know have 5 to 16 hex digits. Short numbers are data:
# 0x0 (null) and 0x10 (an offset from null) must go on telling ranks apart.
_POINTER = re.compile(rf"{SLOT}|\b0x[0-9a-f]{{5,16}}\b")
# In free text (x, info registers) only what lies where Linux maps programs is taken for an
# address: 47-bit user space, position-independent executables, libraries, stacks.
_FREE_TEXT = re.compile(rf"{SLOT}|\b0x0*(?:5[5-6][0-9a-f]{{10}}|7[ef][0-9a-f]{{10}})\b")
DIFFERENT_SLOT = f"\0{SLOT}\0"
"""A slot in which the members of a class differ; no text that GDB prints."""
DIFFERENT = "…"
"""Shown where the members of a class have different addresses."""


def mask_values(text: str, slots: list[str]) -> str:
    """Replace pointers in a value that GDB printed without a format, appending them to *slots*.

    >>> found = []
    >>> mask_values('(char *) 0x5555555592a0 "abc"', found), found
    ('(char *) \ufffc "abc"', ['0x5555555592a0'])
    """
    return _mask(_POINTER, text, slots)


def mask_free_text(text: str, slots: list[str]) -> str:
    """Replace what looks like an address of a program in any text, appending it to *slots*."""
    return _mask(_FREE_TEXT, text, slots)


def _mask(pattern: re.Pattern[str], text: str, slots: list[str]) -> str:
    if "0x" not in text and SLOT not in text:
        return text

    def take(match: re.Match[str]) -> str:
        slots.append(match[0])
        return SLOT

    return pattern.sub(take, text)


def mask_record(
    record: Record | Event, *, numbers_are_data: bool = False, join_arguments: bool = False
) -> Masked:
    """Return *record* with its addresses masked, and what was masked.

    With *numbers_are_data* (``print/x``) hexadecimal numbers are values and stay. With
    *join_arguments* the arguments in a stack are masked whole, so that ranks at the same place
    are of one class whatever they were called with; where they agree the value is kept.
    """
    slots: list[str] = []
    if numbers_are_data:
        return Masked(record=record, slots=())
    masked: Record | Event = record
    match record:
        case Value(text=text):
            masked = Value(text=mask_values(text, slots))
        case Variables(items=items, empty=empty):
            masked = Variables(items=_mask_variables(items, slots), empty=empty)
        case Stack(frames=frames, hidden=hidden, more=more):
            mask = _mask_whole if join_arguments else _mask_variables
            if hidden:
                slots.append(hidden)
                hidden = SLOT
            masked = Stack(
                frames=tuple(
                    msgspec.structs.replace(frame, arguments=mask(frame.arguments, slots))
                    for frame in frames
                ),
                hidden=hidden,
                more=more,
            )
        case Stop(frame=frame) if frame is not None:
            # Who stopped where is the news of a stop; its arguments may differ on every rank.
            arguments = _mask_whole(frame.arguments, slots)
            slots.append(str(frame.level))
            frame = msgspec.structs.replace(frame, arguments=arguments, level=0)
            label, colon, value = record.detail.partition(": ")
            slots.extend(SLOT for _ in range(label.count(SLOT)))
            detail = label
            if colon:
                slots.append(value)
                detail = f"{label}{colon}{SLOT}"
            masked = msgspec.structs.replace(record, frame=frame, detail=detail)
        case Text(text=text):
            masked = Text(text=mask_free_text(text, slots))
        case Output(text=text):
            masked = Output(text=mask_free_text(text, slots))
        case Failure(message=message):
            masked = Failure(message=mask_values(message, slots))
        case BreakpointsMade(text=text):
            masked = msgspec.structs.replace(record, text=mask_values(text, slots))
        case _:
            pass
    return Masked(record=masked, slots=tuple(slots))


def _mask_variables(items: Sequence[Variable], slots: list[str]) -> tuple[Variable, ...]:
    return tuple(
        Variable(name=item.name, value=mask_values(item.value, slots), is_argument=item.is_argument)
        for item in items
    )


def _mask_whole(items: Sequence[Variable], slots: list[str]) -> tuple[Variable, ...]:
    slots.extend(item.value for item in items)
    return tuple(
        Variable(name=item.name, value=SLOT, is_argument=item.is_argument) for item in items
    )


class Masked(msgspec.Struct, frozen=True):
    """A record without what does not matter, and what was taken out."""

    record: Record | Event
    slots: tuple[str, ...]


def join_slots(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """Merge the slots of two members of a class: equal ones stay, others become different.

    DIFFERENT_SLOT means "different": the operation is associative, commutative and idempotent, as
    merging needs.
    """
    if one == other:
        return tuple(one)
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
