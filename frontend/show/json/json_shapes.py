"""The shapes of what ``--json`` prints: every line, part of a line and record.

All objects are declared here, so that the encoder, the tests and
``docs/reference/json-schema.json``
(``python -m pgdb.frontend.show.json.json_lines > docs/reference/json-schema.json``) cannot
disagree; ``docs/reference/json.md`` says what the fields mean. Within one
:data:`SCHEMA_VERSION` types, fields and
words are added, never taken away, renamed or given another meaning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from pgdb.records import (
    Block,
    BreakpointList,
    BreakpointsMade,
    Done,
    Exit,
    Failure,
    Frame,
    Running,
    Stack,
    Stop,
    StopReason,
    Text,
    Threads,
    ThreadStack,
    Value,
    Variables,
    Various,
)

SCHEMA_VERSION = 1
"""Said in the first line; a larger one means that old fields have changed."""

_RANGE = r"\d+(-\d+(/\d+)?)?"
RankText = Annotated[
    str,
    Meta(
        description="Set of MPI ranks, folded: '0-3,8', '0-30/2'; empty for none.",
        pattern=rf"^({_RANGE}(,{_RANGE})*)?$",
    ),
]
Time = Annotated[float, Meta(description="Seconds since 1970-01-01 00:00 UTC.")]
# -- records -------------------------------------------------------------------------------------
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

_RECORD_OBJECTS: Mapping[type, type[RecordObject]] = {
    kind.__base__: kind for kind in get_args(RecordObject)
}


# -- parts of lines ------------------------------------------------------------------------------


class Part(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of all objects inside lines; what has its default is left out."""


class HostRanks(Part, frozen=True, kw_only=True):
    """The ranks of one host."""

    host: str
    ranks: RankText


class Column(Part, frozen=True, kw_only=True):
    """What is known of the values that stand in one hole of a form."""

    count: int
    """How many are finite numbers."""
    low: int | float | None = None
    """The least of them; null where there is none."""
    high: int | float | None = None
    at_low: RankText = ""
    at_high: RankText = ""
    mean: float | None = None
    deviation: float | None = None
    """Standard deviation; null where it is not finite."""
    distinct: int = 0
    """How many different numbers there are; an estimate from 128 on."""
    nan: RankText = ""
    above: RankText = ""
    """Ranks with an infinity."""
    below: RankText = ""
    """Ranks with a negative infinity."""
    others: RankText = ""
    """Ranks where there is something else than a number."""


class AnswerClass(Part, frozen=True, kw_only=True):
    """Ranks that have answered the same."""

    ranks: RankText
    text: str
    """The answer for people, without the ranks."""
    record: RecordObject
    """The answer for programs."""
    error: bool = False
    """Whether the command failed on these ranks."""
    value: int | float | UnsetType = UNSET
    """The value, where the record is one and its text is a finite number."""
    columns: tuple[Column, ...] = ()
    """Where the record is of kind various: what stands in the holes (U+FFF9) of its form."""


class MissingRanks(Part, frozen=True, kw_only=True):
    """Ranks that were asked and have not answered, by the reason."""

    late: RankText
    lost: RankText
    running: RankText


class TreeFrame(Part, frozen=True, kw_only=True):
    """A frame, as far as it tells stacks apart."""

    function: str
    file: str = ""
    line: int = 0
    offset: str = ""
    """Where in the function it stands; only in a tree by pc."""


class TreeSource(Part, frozen=True, kw_only=True):
    """A line of a source file."""

    file: str
    line: int


class TreeNode(Part, frozen=True, kw_only=True):
    """A branching point or a leaf of a call tree."""

    number: int
    """From 1, parents before children; ``@3`` is its ranks."""
    ranks: RankText
    parent: int = 0
    """0 for a node at the top."""
    frames: tuple[TreeFrame, ...] = ()
    """Outermost first; none for the ranks that stand in the parent's last frame itself."""
    sources: tuple[TreeSource, ...] = ()
    leaf: bool = False
    """Whether its ranks are a class, with stacks that end here."""
    odd: bool = False
    """Whether it is the one smallest class."""
    threads: int | UnsetType = UNSET
    """Number of threads on all ranks together; only in a tree of threads."""
    samples: tuple[RankText, ...] = ()
    """The ranks at each of several times."""


class TreeFailure(Part, frozen=True, kw_only=True):
    """Ranks that have no stack to show."""

    ranks: RankText
    message: str


class StopClass(Part, frozen=True, kw_only=True):
    """Ranks that have stopped at the same place for the same reason."""

    ranks: RankText
    reason: StopReason
    text: str
    signal: str = ""
    meaning: str = ""
    breakpoint: int = 0
    frame: Frame | UnsetType = UNSET
    inside: str = ""
    detail: str = ""
    program: str = ""


class ExitClass(Part, frozen=True, kw_only=True):
    """Ranks whose processes have ended the same way."""

    ranks: RankText
    text: str
    code: int | UnsetType = UNSET
    """Exit status, where they ended by themselves."""
    signal: str = ""


class LauncherEnd(Part, frozen=True, kw_only=True):
    """How the job's launcher has ended."""

    code: int | UnsetType = UNSET
    signal: str = ""


class ComparedPart(Part, frozen=True, kw_only=True):
    """A place in a value at which two sides differ."""

    path: str = ""
    """Where it is, such as ``.x[1]``; empty for the whole value."""
    before: str
    after: str
    absolute: float | UnsetType = UNSET
    """Size of the difference, where both are finite numbers."""
    relative: float | UnsetType = UNSET
    """The same by the larger of the two magnitudes."""


class ComparedRanks(Part, frozen=True, kw_only=True):
    """Ranks on which the same differs in the same way."""

    ranks: RankText
    others: RankText
    """The ranks on the other side; by rank, the same ones."""
    before: RecordObject
    after: RecordObject
    parts: tuple[ComparedPart, ...] = ()


class LeftOutRanks(Part, frozen=True, kw_only=True):
    """Ranks that could not be compared."""

    ranks: RankText
    side: Literal["before", "after", "both"]
    why: str


class FailingRanks(Part, frozen=True, kw_only=True):
    """Ranks that fail a check in the same way."""

    ranks: RankText
    value: str
    why: str = ""
    error: bool = False
    """Whether *value* is the error for which there is none."""


class HistogramBin(Part, frozen=True, kw_only=True):
    """How many numbers lie between two ends."""

    low: float
    high: float
    count: int


class PlacedRanks(Part, frozen=True, kw_only=True):
    """Ranks on one host in one state."""

    ranks: RankText
    host: str
    pids: tuple[int, ...]
    """Process of each rank, in order."""
    state: str
    """``stopped``, ``running``, ``exited``, ``detached`` or ``lost``."""


# -- lines ---------------------------------------------------------------------------------------


class LineBase(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="type",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """Base of all lines; what has its default is left out."""

    time: Time


class HelloLine(LineBase, frozen=True, kw_only=True, tag="hello"):
    """The first line: what is debugged, and with what."""

    schema: int
    pgdb: str
    python: str
    gdb: str
    mpi: str
    mode: Literal["attach", "launch"]
    job: str
    ranks: RankText
    hosts: tuple[HostRanks, ...]
    recorded: bool = False
    """Whether a recording answers, and there is no job."""


class AnswerLine(LineBase, frozen=True, kw_only=True, tag="answer"):
    """The answer to a command; every rank asked is in one class or in one set of missing."""

    command: str
    request: int = 0
    ranks: RankText
    classes: tuple[AnswerClass, ...]
    missing: MissingRanks
    elapsed_s: float


class TreeLine(LineBase, frozen=True, kw_only=True, tag="tree"):
    """A merged call tree; every rank asked is in a leaf, in errors or in one set of missing."""

    command: str
    by: Literal["function", "line", "pc"]
    ranks: RankText
    """The ranks whose stacks are in it."""
    nodes: tuple[TreeNode, ...]
    missing: MissingRanks
    errors: tuple[TreeFailure, ...] = ()
    times_s: tuple[float, ...] = ()
    """When each of several samples was taken, from the first one on."""
    stayed: RankText = ""
    """Ranks that ran and were in the same place in all of several samples."""
    moved: RankText = ""
    """Ranks that were in different places."""
    stopped: RankText = ""
    """Ranks that did not run from the first sample to the last."""
    files: tuple[str, ...] = ()
    """Files that it was written to."""


class ArrayForm(Part, frozen=True, kw_only=True):
    """Ranks whose numbers are of the same type and shape."""

    ranks: RankText
    dtype: str
    """Element type as NumPy names it, such as ``float64``."""
    shape: tuple[int, ...]
    """Elements along each dimension; empty for a single number."""


class ArrayFailure(Part, frozen=True, kw_only=True):
    """Ranks on which the numbers could not be read."""

    ranks: RankText
    message: str


class ArraysLine(LineBase, frozen=True, kw_only=True, tag="arrays"):
    """What dump, plot or decompose has read; every rank asked is in forms, errors or missing."""

    command: str
    expression: str
    ranks: RankText
    forms: tuple[ArrayForm, ...]
    missing: MissingRanks
    errors: tuple[ArrayFailure, ...] = ()
    size_bytes: int
    """Size of the numbers of all ranks."""
    text: str
    """The drawing, or what was written."""
    file: str = ""
    """The file that was written."""
    shape: tuple[int, ...] = ()
    """decompose: elements of the global array along each dimension."""
    absent: int = 0
    """decompose: number of elements that no rank gave."""
    conflicts: int = 0
    """decompose: number of elements of which ranks do not say the same."""


class LateLine(LineBase, frozen=True, kw_only=True, tag="late"):
    """Further answers to an earlier command, from ranks that its answer named as late."""

    command: str
    request: int = 0
    ranks: RankText
    classes: tuple[AnswerClass, ...]


class BreakpointLine(LineBase, frozen=True, kw_only=True, tag="breakpoint"):
    """A breakpoint, watchpoint or catchpoint that a command has made."""

    number: int
    """Job-wide number."""
    ranks: RankText
    kind: str
    location: str
    """As the user gave it, or what is watched or caught."""
    function: str = ""
    file: str = ""
    line: int = 0
    location_count: int = 1
    condition: str = ""
    temporary: bool = False
    request: int = 0


class StopLine(LineBase, frozen=True, kw_only=True, tag="stop"):
    """Ranks have stopped and can be looked at."""

    request: int = 0
    classes: tuple[StopClass, ...]


class RunningLine(LineBase, frozen=True, kw_only=True, tag="running"):
    """Ranks run again."""

    request: int = 0
    ranks: RankText


class ExitLine(LineBase, frozen=True, kw_only=True, tag="exit"):
    """Processes of ranks, or the job's launcher, have ended."""

    request: int = 0
    classes: tuple[ExitClass, ...] = ()
    launcher: LauncherEnd | UnsetType = UNSET


class OutputLine(LineBase, frozen=True, kw_only=True, tag="output"):
    """What the job, GDB unasked or PGDB itself has printed."""

    stream: Literal["stdout", "stderr", "gdb", "pgdb"]
    text: str
    ranks: RankText = ""
    data: bytes = b""
    """The same as it was, in base64, where it is no valid UTF-8."""


class ProgressLine(LineBase, frozen=True, kw_only=True, tag="progress"):
    """Ranks have got on with the start of the session, or are back after a loss."""

    stage: Literal["held", "gdb", "attached", "joined"]
    ranks: RankText


class LostLine(LineBase, frozen=True, kw_only=True, tag="lost"):
    """Ranks can no longer be debugged."""

    ranks: RankText
    why: str


class CompareLine(LineBase, frozen=True, kw_only=True, tag="compare"):
    """How two answers to the same command differ."""

    expression: str
    before: str
    """What the first side is: ranks, a saved answer, a file."""
    after: str
    by: Literal["rank", "position", "value"]
    same: bool
    """Whether everything was compared and nothing differs."""
    equal: RankText
    """Ranks that say the same on both sides; by value: what they say occurs on the other."""
    equal_others: RankText
    differences: tuple[ComparedRanks, ...] = ()
    only_before: tuple[AnswerClass, ...] = ()
    only_after: tuple[AnswerClass, ...] = ()
    left_out: tuple[LeftOutRanks, ...] = ()


class AssertLine(LineBase, frozen=True, kw_only=True, tag="assert"):
    """Whether a condition holds on all ranks."""

    condition: str
    expression: str
    """What the values are of."""
    ok: bool
    ranks: RankText
    passed: RankText
    failing: tuple[FailingRanks, ...] = ()
    missing: MissingRanks
    common: str = ""
    """Where all must have the same: the value of those that have passed."""


class StatLine(LineBase, frozen=True, kw_only=True, tag="stat"):
    """Numbers of many ranks, summed up."""

    expression: str
    ranks: RankText
    count: int
    low: int | float | UnsetType = UNSET
    high: int | float | UnsetType = UNSET
    at_low: RankText = ""
    at_high: RankText = ""
    mean: float | UnsetType = UNSET
    deviation: float | UnsetType = UNSET
    distinct: int = 0
    """How many different numbers there are: exact for few, estimated for many."""
    nan: RankText = ""
    above: RankText = ""
    """Ranks with an infinity."""
    below: RankText = ""
    """Ranks with a negative infinity."""
    others: RankText = ""
    """Ranks where there is something else than a number."""
    bins: tuple[HistogramBin, ...] = ()
    block: int = 1
    """Ranks in each block of *lows* and *highs*, which begin at rank 0."""
    lows: tuple[int | float | None, ...] = ()
    highs: tuple[int | float | None, ...] = ()
    errors: tuple[AnswerClass, ...] = ()
    missing: MissingRanks


class RanksLine(LineBase, frozen=True, kw_only=True, tag="ranks"):
    """Who is where and does what."""

    places: tuple[PlacedRanks, ...]
    stops: tuple[StopClass, ...] = ()
    """Where those that are stopped have stopped last."""
    exits: tuple[ExitClass, ...] = ()
    """How those that have ended have ended."""
    sets: Mapping[str, RankText] = {}
    """The named sets."""


class ErrorLine(LineBase, frozen=True, kw_only=True, tag="error"):
    """Something could not be done at all."""

    message: str
    command: str = ""


class EndLine(LineBase, frozen=True, kw_only=True, tag="end"):
    """The last line: the session is over."""

    status: int


Line = (
    HelloLine
    | AnswerLine
    | TreeLine
    | ArraysLine
    | LateLine
    | BreakpointLine
    | StopLine
    | RunningLine
    | ExitLine
    | OutputLine
    | ProgressLine
    | LostLine
    | CompareLine
    | AssertLine
    | StatLine
    | RanksLine
    | ErrorLine
    | EndLine
)
"""Any line."""


def schema() -> dict[str, object]:
    """Return the JSON Schema of a line."""
    declared = msgspec.json.schema(Line)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"PGDB JSON lines, schema version {SCHEMA_VERSION}",
        "description": "One line of the output of pgdb --json;"
        " docs/reference/json.md explains the fields.",
        **{key: _opened(value) for key, value in declared.items()},
    }


def _opened(node: object) -> object:
    """Return a schema that allows further fields: later releases may add some.

    Our own decoding refuses them, so that a test sees a misspelt one.
    """
    if isinstance(node, dict):
        return {
            # msgspec 0.18.6 and 0.22 order an anyOf differently; its order has no meaning.
            key: sorted(map(_opened, value), key=json.dumps) if key == "anyOf" else _opened(value)
            for key, value in node.items()
            if not (key == "additionalProperties" and value is False)
        }
    return [_opened(each) for each in node] if isinstance(node, list | tuple) else node
