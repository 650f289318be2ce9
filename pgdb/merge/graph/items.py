"""Records as paths of items: a record is split into items, and joined from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from pgdb.errors import ProtocolError
from pgdb.merge.graph.wire import Binding, Call, Item, Line, ThreadEnd, Whole
from pgdb.records import (
    Done,
    Frame,
    Record,
    Stack,
    Text,
    Threads,
    ThreadStack,
    Variables,
)

ItemKind = TypeVar("ItemKind", Line, Call, Binding)


def split_record(record: Record) -> tuple[Record, list[Item]]:
    """Return *record* without its items, and these."""
    match record:
        case Stack(frames=frames):
            return replace(record, frames=()), [*_calls(frames)]
        case Threads(stacks=stacks):
            items: list[Item] = []
            for each in stacks:
                items += _calls(each.stack.frames)
                shape = replace(each.stack, frames=())
                items.append(ThreadEnd(shape=shape, count=each.count))
            return replace(record, stacks=()), items
        case Variables(items=variables, empty=empty):
            return Variables(items=(), empty=empty), [Binding(variable=each) for each in variables]
        case Text(text=text):
            return Text(text=""), [Line(text=line) for line in text.split("\n")]
        case _:
            return Done(), [Whole(record=record)]


def join_record(shape: Record, items: Sequence[Item]) -> Record:
    """Return the record that :func:`split_record` split.

    :raises ProtocolError: if *items* do not fit *shape*.
    """
    match shape:
        case Threads():
            return replace(shape, stacks=_thread_stacks(items))
        case Variables(empty=empty):
            bound = tuple(item.variable for item in _all(Binding, items))
            return Variables(items=bound, empty=empty)
        case Text():
            return Text(text="\n".join(item.text for item in _all(Line, items)))
        case _:
            if len(items) != 1 or not isinstance(items[0], Whole):
                raise ProtocolError("answer graph: an end whose path is no single record")
            return items[0].record


def _calls(frames: Sequence[Frame]) -> list[Call]:
    # The path gives the level. Equal frames at different depths below the innermost one must become
    # one node.
    return [Call(frame=replace(frame, level=0)) for frame in reversed(frames)]


def _frames(calls: Sequence[Call]) -> tuple[Frame, ...]:
    return tuple(replace(call.frame, level=level) for level, call in enumerate(reversed(calls)))


def _thread_stacks(items: Sequence[Item]) -> tuple[ThreadStack, ...]:
    stacks = []
    calls: list[Call] = []
    for item in items:
        if isinstance(item, Call):
            calls.append(item)
        elif isinstance(item, ThreadEnd):
            stack = replace(item.shape, frames=_frames(calls))
            stacks.append(ThreadStack(stack=stack, count=item.count))
            calls = []
        else:
            raise ProtocolError("answer graph: a path that is not all threads")
    if calls:
        raise ProtocolError("answer graph: a thread without an end")
    return tuple(stacks)


def _all(kind: type[ItemKind], items: Sequence[Item]) -> list[ItemKind]:
    found = [item for item in items if isinstance(item, kind)]
    if len(found) != len(items):
        raise ProtocolError(f"answer graph: a path that is not all {kind.__name__}")
    return found
