"""Visit the texts inside a record, in one fixed order.

Parts removed from the texts of a record (addresses, parts in which ranks differ) are kept as a
plain sequence beside it. Removing and filling both use :func:`map_texts`, so they agree on the
order.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Literal, TypeVar

from msgspec.structs import replace

from pgdb.records import (
    PLACEHOLDER,
    SLOT,
    Block,
    BreakpointsMade,
    Event,
    Failure,
    FileWritten,
    Frame,
    Output,
    Record,
    Stack,
    Text,
    Threads,
    Value,
    Variable,
    Variables,
)

R = TypeVar("R", bound=Record | Event)

TextKind = Literal["value", "argument", "hidden", "bounds", "digest", "text", "message"]
"""Kinds of text: a value, an argument in a stack, a number of hidden frames or threads, the bounds
of arrays, the hash of a value, the output of a command, an error."""
Change = Callable[[str, TextKind], str]


# No name of a function begins with a digit. The others stand for an address, or a part of one, that
# has been taken out; the last one where addresses differ.
_ADDRESS_BEGINS = ("0", SLOT, PLACEHOLDER, "…")

LONG_TEXT = 1 << 16
"""Length in characters or bytes from which a record is long."""


def is_long(record: Record | Event) -> bool:
    """Return whether processing *record* would block the event loop too long.

    A million characters take some tens of milliseconds.
    """
    match record:
        case Value(text=text, whole=str(whole)):
            return len(text) + len(whole) >= LONG_TEXT
        case Value(text=text) | Text(text=text) | Failure(output=text):
            return len(text) >= LONG_TEXT
        case Block(data=data):
            return len(data) >= LONG_TEXT
        case Variables(items=items):
            return sum(len(each.value) for each in items) >= LONG_TEXT
        case _:
            return False


def map_texts(record: R, change: Change) -> R:
    """Return *record* with each of its texts replaced by the result of *change*.

    Names of functions, files and variables are not texts in this sense: ranks that differ in them
    are at different places.
    """
    mapped: Record | Event = record
    match record:
        case Value(text=text, bounds=bounds):
            mapped = Value(
                text=change(text, "value"),
                bounds=change(bounds, "bounds") if bounds else "",
                warnings=record.warnings,
                base=record.base,
            )
            if record.is_part:
                # Values with other hashes have the same template.
                digest = change(record.digest, "digest") if record.digest else ""
                mapped = replace(record, text=mapped.text, bounds=mapped.bounds, digest=digest)
        case Variables(items=items, empty=empty):
            mapped = Variables(items=_variables(items, change, "value"), empty=empty)
        case Stack():
            mapped = _stack(record, change)
        case Threads(stacks=stacks, hidden=hidden):
            mapped = Threads(
                stacks=tuple(replace(each, stack=_stack(each.stack, change)) for each in stacks),
                hidden=change(hidden, "hidden") if hidden else "",
            )
        case Text(text=text):
            mapped = Text(text=change(text, "text"))
        case FileWritten(process=process, text=text):
            process = change(process, "hidden") if process else ""
            mapped = replace(record, process=process, text=change(text, "text") if text else "")
        case Output(text=text):
            mapped = replace(record, text=change(text, "text"))
        case Failure(message=message, output=output):
            output = change(output, "text") if output else ""
            mapped = replace(record, message=change(message, "message"), output=output)
        case BreakpointsMade(text=text):
            mapped = replace(record, text=change(text, "text") if text else "")
        case _:
            pass
    return mapped  # type: ignore[return-value]  # each case returns the class it was given


def map_arguments(frame: Frame, change: Change) -> Frame:
    """Return *frame* with the values of its arguments changed.

    So is an address that stands for the name of the function, which no object file holds.
    """
    if frame.function[:1] in _ADDRESS_BEGINS:
        frame = replace(frame, function=change(frame.function, "value"))
    arguments = _variables(frame.arguments, change, "argument")
    if arguments is frame.arguments:
        return frame
    return replace(frame, arguments=arguments)


# Unchanged frames and variables are returned as they are: merging maps the same frames many times.


def _stack(stack: Stack, change: Change) -> Stack:
    hidden = change(stack.hidden, "hidden") if stack.hidden else ""
    frames = tuple(map_arguments(frame, change) for frame in stack.frames)
    if hidden == stack.hidden and all(map(operator.is_, frames, stack.frames)):
        return stack
    return replace(stack, hidden=hidden, frames=frames)


def _variables(items: tuple[Variable, ...], change: Change, kind: TextKind) -> tuple[Variable, ...]:
    texts = [
        (
            change(item.value, kind),
            change(item.bounds, "bounds") if item.bounds else "",
            change(item.digest, "digest") if item.digest else "",
        )
        for item in items
    ]
    for (value, bounds, digest), item in zip(texts, items, strict=True):
        if value is not item.value or bounds is not item.bounds or digest is not item.digest:
            break
    else:
        return items
    return tuple(
        [
            Variable(
                name=item.name,
                value=value,
                is_argument=item.is_argument,
                bounds=bounds,
                digest=digest,
                looked_at=item.looked_at,
            )
            for (value, bounds, digest), item in zip(texts, items, strict=True)
        ]
    )
