"""The texts inside a record, in one fixed order.

What is taken out of the texts of a record (addresses, the parts in which ranks differ) is kept
as a plain sequence beside it; both ways go through :func:`map_texts`, so that they agree on
the order.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Literal, TypeVar

from msgspec.structs import replace

from pgdb.records import (
    Block,
    BreakpointsMade,
    Event,
    Failure,
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

TextKind = Literal["value", "argument", "hidden", "text", "message"]
"""What a text is: a value, an argument in a stack, a number of hidden frames or threads, what a
command printed, an error."""
Change = Callable[[str, TextKind], str]


LONG_TEXT = 1 << 16
"""Characters, or bytes."""


def is_long(record: Record | Event) -> bool:
    """Return whether a record is so long that others must not wait while it is dealt with.

    A million characters take some tens of milliseconds.
    """
    match record:
        case Value(text=text) | Text(text=text):
            return len(text) >= LONG_TEXT
        case Block(data=data):
            return len(data) >= LONG_TEXT
        case Variables(items=items):
            return sum(len(each.value) for each in items) >= LONG_TEXT
        case _:
            return False


def map_texts(record: R, change: Change) -> R:
    """Return *record* with each of its texts replaced by what *change* makes of it.

    Names of functions, files and variables are no such texts: ranks in which they differ are
    somewhere else.
    """
    mapped: Record | Event = record
    match record:
        case Value(text=text):
            mapped = Value(text=change(text, "value"))
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
        case Output(text=text):
            mapped = Output(text=change(text, "text"))
        case Failure(message=message):
            mapped = Failure(message=change(message, "message"))
        case BreakpointsMade(text=text):
            mapped = replace(record, text=change(text, "value"))
        case _:
            pass
    return mapped  # type: ignore[return-value]  # each case returns the class it was given


def map_arguments(frame: Frame, change: Change) -> Frame:
    """Return *frame* with the values of its arguments changed."""
    arguments = _variables(frame.arguments, change, "argument")
    if arguments is frame.arguments:
        return frame
    return replace(frame, arguments=arguments)


# What stays as it is is not made anew: merging maps the same frames over and over.


def _stack(stack: Stack, change: Change) -> Stack:
    hidden = change(stack.hidden, "hidden") if stack.hidden else ""
    frames = tuple(map_arguments(frame, change) for frame in stack.frames)
    if hidden == stack.hidden and all(map(operator.is_, frames, stack.frames)):
        return stack
    return Stack(hidden=hidden, frames=frames, more=stack.more)


def _variables(items: tuple[Variable, ...], change: Change, kind: TextKind) -> tuple[Variable, ...]:
    values = [change(item.value, kind) for item in items]
    for value, item in zip(values, items, strict=True):
        if value is not item.value:
            break
    else:
        return items
    return tuple(
        [
            Variable(name=item.name, value=value, is_argument=item.is_argument)
            for value, item in zip(values, items, strict=True)
        ]
    )
