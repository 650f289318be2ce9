"""Shapes of the records inside the lines of ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import msgspec

from pgdb.records import (
    Block,
    BreakpointList,
    BreakpointsMade,
    Done,
    Exit,
    Failure,
    Running,
    Stack,
    Stop,
    Text,
    Threads,
    ThreadStack,
    Value,
    Variables,
    Various,
)

# The overlay tags records with "type", which in a line is the line's own type.


class StackRecord(Stack, frozen=True, tag_field="kind", tag="stack"):
    """Frames of the selected thread, innermost first."""


class ThreadStackPart(ThreadStack, frozen=True):
    """Threads of a rank that have the same stack."""

    stack: StackRecord


class ThreadsRecord(Threads, frozen=True, tag_field="kind", tag="threads"):
    """The stacks of all threads of a rank, each distinct one once."""

    stacks: tuple[ThreadStackPart, ...]


class BlockRecord(Block, frozen=True, tag_field="kind", tag="block"):
    """Numbers in memory, in base64, as they stand there."""


class ValueRecord(Value, frozen=True, tag_field="kind", tag="value"):
    """The value of an expression, as GDB prints it."""


class VariablesRecord(Variables, frozen=True, tag_field="kind", tag="variables"):
    """Variables of the selected frame."""


class TextRecord(Text, frozen=True, tag_field="kind", tag="text"):
    """What a GDB command printed."""


class ErrorRecord(Failure, frozen=True, tag_field="kind", tag="error"):
    """The command failed on these ranks."""


class DoneRecord(Done, frozen=True, tag_field="kind", tag="done"):
    """The command worked and has nothing to say."""


class BreakpointsRecord(BreakpointsMade, frozen=True, tag_field="kind", tag="breakpoints"):
    """Breakpoints that the command made."""


class BreakpointListRecord(BreakpointList, frozen=True, tag_field="kind", tag="breakpoint-list"):
    """All breakpoints of these ranks."""


class StopRecord(Stop, frozen=True, tag_field="kind", tag="stop"):
    """The ranks have stopped."""


class ExitRecord(Exit, frozen=True, tag_field="kind", tag="exit"):
    """The processes of the ranks have ended."""


class RunningRecord(Running, frozen=True, tag_field="kind", tag="running"):
    """The ranks have been set running."""


class VariousRecord(Various, frozen=True, tag_field="kind", tag="various"):
    """Answers of one form with too many different values in it to be told one by one."""

    template: (
        StackRecord | ThreadsRecord | ValueRecord | VariablesRecord | TextRecord | ErrorRecord
    ) = msgspec.field(name="form")


RecordObject = (
    StackRecord
    | ThreadsRecord
    | ValueRecord
    | BlockRecord
    | VariousRecord
    | VariablesRecord
    | TextRecord
    | ErrorRecord
    | DoneRecord
    | BreakpointsRecord
    | BreakpointListRecord
    | StopRecord
    | ExitRecord
    | RunningRecord
)
"""A record as it stands in a line, its tag as ``kind``."""

RECORD_OBJECTS: Mapping[type, type[RecordObject]] = {
    kind.__base__: kind for kind in get_args(RecordObject)
}
