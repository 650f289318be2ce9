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
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from pgdb.frontend.show.json.json_parts import (
    AnswerClass,
    ArrayFailure,
    ArrayForm,
    ComparedRanks,
    ExitClass,
    FailingRanks,
    HistogramBin,
    HostRanks,
    LauncherEnd,
    LeftOutRanks,
    MissingRanks,
    PlacedRanks,
    RankText,
    StopClass,
    TreeFailure,
    TreeNode,
)

SCHEMA_VERSION = 1
"""Said in the first line; a larger one means that old fields have changed."""
Time = Annotated[float, Meta(description="Seconds since 1970-01-01 00:00 UTC.")]


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
