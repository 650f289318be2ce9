"""Records inside the lines of ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import msgspec

from pgdb.mpi_calls import MpiCallStatus
from pgdb.rank_sample import RankSample
from pgdb.records import (
    Block,
    BreakpointList,
    BreakpointsMade,
    Done,
    Exit,
    Failure,
    FileWritten,
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

# The overlay tags records with "type", which is the tag of the line in JSON.


class StackRecord(Stack, frozen=True, tag_field="kind", tag="stack"):
    """Frames of the selected thread, innermost first."""


class ThreadStackPart(ThreadStack, frozen=True):
    """Threads of a rank with the same stack."""

    stack: StackRecord


class ThreadsRecord(Threads, frozen=True, tag_field="kind", tag="threads"):
    """Stacks of all threads of a rank; equal stacks once, with a count."""

    stacks: tuple[ThreadStackPart, ...]


class BlockRecord(Block, frozen=True, tag_field="kind", tag="block"):
    """Numbers in memory, byte by byte, in base64."""


class ValueRecord(Value, frozen=True, tag_field="kind", tag="value"):
    """The value of an expression, as GDB prints it."""


class VariablesRecord(Variables, frozen=True, tag_field="kind", tag="variables"):
    """Variables of the selected frame."""


class TextRecord(Text, frozen=True, tag_field="kind", tag="text"):
    """Output of a GDB command."""


class FileWrittenRecord(FileWritten, frozen=True, tag_field="kind", tag="written"):
    """File that the command has written on the host of the ranks."""


class MpiCallsRecord(MpiCallStatus, frozen=True, tag_field="kind", tag="mpi-calls"):
    """The MPI calls that the ranks have not returned from."""


class RankSampleRecord(RankSample, frozen=True, tag_field="kind", tag="sample"):
    """Activity of a rank at one moment."""


class ErrorRecord(Failure, frozen=True, tag_field="kind", tag="error"):
    """Failure of the command on these ranks."""


class DoneRecord(Done, frozen=True, tag_field="kind", tag="done"):
    """Success of the command, which printed nothing."""


class BreakpointsRecord(BreakpointsMade, frozen=True, tag_field="kind", tag="breakpoints"):
    """Breakpoints set by the command."""


class BreakpointListRecord(BreakpointList, frozen=True, tag_field="kind", tag="breakpoint-list"):
    """All breakpoints of these ranks."""


class StopRecord(Stop, frozen=True, tag_field="kind", tag="stop"):
    """Stop of the ranks."""


class ExitRecord(Exit, frozen=True, tag_field="kind", tag="exit"):
    """End of the processes of the ranks."""


class RunningRecord(Running, frozen=True, tag_field="kind", tag="running"):
    """Ranks that run again."""


class VariousRecord(Various, frozen=True, tag_field="kind", tag="various"):
    """Answers of one form with too many different values to list."""

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
    | FileWrittenRecord
    | MpiCallsRecord
    | RankSampleRecord
    | ErrorRecord
    | DoneRecord
    | BreakpointsRecord
    | BreakpointListRecord
    | StopRecord
    | ExitRecord
    | RunningRecord
)
"""A record inside a line, with its tag as ``kind``."""

RECORD_OBJECTS: Mapping[type, type[RecordObject]] = {
    kind.__base__: kind for kind in get_args(RecordObject)
}
