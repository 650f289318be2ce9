"""The lines of ``--json``.

Every line is declared here, its parts in ``json_parts`` and its records in ``json_records``, so
that the encoder, the tests and ``docs/reference/json-schema.json`` (``python -m
pgdb.frontend.show.json.json_lines > docs/reference/json-schema.json``) cannot disagree.
``docs/reference/json.md`` explains the fields. Within one :data:`SCHEMA_VERSION`, types, fields and
words are only added, never removed, renamed or given another meaning.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from pgdb.frontend.api.group_runs import GroupEnd
from pgdb.frontend.api.until_differ import DifferEnd
from pgdb.frontend.show.json.json_base import LineBase
from pgdb.frontend.show.json.json_parts import (
    AnswerClass,
    ArrayFailure,
    ArrayForm,
    BarrierState,
    ComparedRanks,
    DifferentPlace,
    ExitClass,
    FailingRanks,
    HeldRanks,
    HistogramBin,
    HostRanks,
    LauncherEnd,
    LeftOutRanks,
    MarkedLine,
    MissingRanks,
    PlacedRanks,
    PlaceRanks,
    ProgressRow,
    RankText,
    StillRunningRanks,
    StopClass,
    TracedRow,
    TraceState,
    TreeFailure,
    TreeNode,
    WorldRanks,
)
from pgdb.frontend.show.json.json_waits import FlightLine, WhyLine
from pgdb.proctable import SessionMode

SCHEMA_VERSION = 1
"""Version in the first line; a larger version means that existing fields have changed."""


class HelloLine(LineBase, frozen=True, kw_only=True, tag="hello"):
    """The first line: the job and the versions in use."""

    schema: int
    pgdb: str
    python: str
    gdb: str
    mpi: str
    mode: SessionMode
    job: str
    ranks: RankText
    hosts: tuple[HostRanks, ...]
    recorded: bool = False
    """Whether a recording answers and there is no job."""


class AnswerLine(LineBase, frozen=True, kw_only=True, tag="answer"):
    """The answer to a command; every asked rank is in one class or in one set of missing."""

    command: str
    request: int = 0
    ranks: RankText
    classes: tuple[AnswerClass, ...]
    missing: MissingRanks
    elapsed_s: float
    places: tuple[DifferentPlace, ...] = ()
    """Places at which structures, variables or outputs differ, most prominent first, up to 200."""
    marks: tuple[MarkedLine, ...] = ()
    """Of ``list``: the lines of the listed files at which ranks stand or breakpoints are."""
    still_running: tuple[StillRunningRanks, ...] = ()
    """Of a command that has waited for stops: where the ranks are that still run."""


class TreeLine(LineBase, frozen=True, kw_only=True, tag="tree"):
    """A merged call tree; every asked rank is in a leaf, in errors or in one set of missing."""

    command: str
    by: Literal["function", "line", "pc"]
    ranks: RankText
    """Ranks whose stacks are in the tree."""
    nodes: tuple[TreeNode, ...]
    missing: MissingRanks
    errors: tuple[TreeFailure, ...] = ()
    times_s: tuple[float, ...] = ()
    """Time of each of several samples, in seconds after the first."""
    stayed: RankText = ""
    """Ranks that ran and were in the same place in all of several samples."""
    moved: RankText = ""
    """Ranks that were in different places."""
    stopped: RankText = ""
    """Ranks that did not run from the first sample to the last."""
    files: tuple[str, ...] = ()
    """Files written from the tree."""


class ArraysLine(LineBase, frozen=True, kw_only=True, tag="arrays"):
    """The arrays of dump, plot or decompose; every asked rank is in forms, errors or missing."""

    command: str
    expression: str
    ranks: RankText
    forms: tuple[ArrayForm, ...]
    missing: MissingRanks
    errors: tuple[ArrayFailure, ...] = ()
    size_bytes: int
    """Size of the numbers of all ranks, in bytes."""
    text: str
    """The drawing, or a message about the written file."""
    file: str = ""
    """The written file."""
    shape: tuple[int, ...] = ()
    """decompose: number of elements of the global array in each dimension."""
    absent: int = 0
    """decompose: number of elements that no rank gave."""
    conflicts: int = 0
    """decompose: number of elements with different values on several ranks."""


class LateLine(LineBase, frozen=True, kw_only=True, tag="late"):
    """Further answers to an earlier command, from ranks that its answer lists as late."""

    command: str
    request: int = 0
    ranks: RankText
    classes: tuple[AnswerClass, ...]


class BreakpointLine(LineBase, frozen=True, kw_only=True, tag="breakpoint"):
    """A breakpoint, watchpoint or catchpoint that a command set."""

    number: int
    """Job-wide number."""
    ranks: RankText
    kind: str
    location: str
    """Location as the user typed it, or the watched or caught object."""
    function: str = ""
    file: str = ""
    line: int = 0
    location_count: int = 1
    condition: str = ""
    temporary: bool = False
    request: int = 0


class StopLine(LineBase, frozen=True, kw_only=True, tag="stop"):
    """Ranks that have stopped and can be inspected."""

    request: int = 0
    classes: tuple[StopClass, ...]


class RunningLine(LineBase, frozen=True, kw_only=True, tag="running"):
    """Ranks that run again."""

    request: int = 0
    ranks: RankText


class ExitLine(LineBase, frozen=True, kw_only=True, tag="exit"):
    """Processes of ranks, or the job's launcher, have ended."""

    request: int = 0
    classes: tuple[ExitClass, ...] = ()
    launcher: LauncherEnd | UnsetType = UNSET


class OutputLine(LineBase, frozen=True, kw_only=True, tag="output"):
    """Output of the job, of GDB without a request, or of PGDB."""

    stream: Literal["stdout", "stderr", "gdb", "pgdb"]
    text: str
    ranks: RankText = ""
    data: bytes = b""
    """The exact output, in base64, if it is not valid UTF-8."""


class ProgressLine(LineBase, frozen=True, kw_only=True, tag="progress"):
    """Ranks reached a stage of the start, or are back after a loss."""

    stage: Literal["held", "gdb", "attached", "joined"]
    ranks: RankText


class LostLine(LineBase, frozen=True, kw_only=True, tag="lost"):
    """Ranks that can no longer be debugged."""

    ranks: RankText
    why: str


class CompareLine(LineBase, frozen=True, kw_only=True, tag="compare"):
    """The differences of two answers to the same command."""

    expression: str
    before: str
    """Description of the first side: ranks, a saved answer, a file."""
    after: str
    by: Literal["rank", "position", "value"]
    same: bool
    """Whether all ranks were compared and none differs."""
    equal: RankText
    """Ranks with equal records on both sides; by value, ranks whose record is on the other side."""
    equal_others: RankText
    differences: tuple[ComparedRanks, ...] = ()
    only_before: tuple[AnswerClass, ...] = ()
    only_after: tuple[AnswerClass, ...] = ()
    left_out: tuple[LeftOutRanks, ...] = ()


class AssertLine(LineBase, frozen=True, kw_only=True, tag="assert"):
    """Truth of a condition on all ranks."""

    condition: str
    expression: str
    """Expression of the values."""
    ok: bool
    ranks: RankText
    passed: RankText
    failing: tuple[FailingRanks, ...] = ()
    missing: MissingRanks
    common: str = ""
    """Value of the passing ranks, if all ranks must have the same value."""


class StatLine(LineBase, frozen=True, kw_only=True, tag="stat"):
    """Statistics of the numbers of many ranks."""

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
    """Number of different numbers: exact for few, estimated for many."""
    nan: RankText = ""
    above: RankText = ""
    """Ranks with a positive infinity."""
    below: RankText = ""
    """Ranks with a negative infinity."""
    others: RankText = ""
    """Ranks with another text than a number."""
    rounded: bool = False
    """Whether ends and different values are of doubles, which do not hold all digits."""
    bins: tuple[HistogramBin, ...] = ()
    block: int = 1
    """Number of ranks in each block of *lows* and *highs*, which begin at rank 0."""
    lows: tuple[int | float | None, ...] = ()
    highs: tuple[int | float | None, ...] = ()
    errors: tuple[AnswerClass, ...] = ()
    missing: MissingRanks


class RanksLine(LineBase, frozen=True, kw_only=True, tag="ranks"):
    """Hosts, processes and states of ranks."""

    places: tuple[PlacedRanks, ...]
    stops: tuple[StopClass, ...] = ()
    """Last stop of each stopped rank."""
    exits: tuple[ExitClass, ...] = ()
    """Exit of each ended rank."""
    sets: Mapping[str, RankText] = {}
    """Named sets."""
    held: tuple[HeldRanks, ...] = ()
    """Held ranks, by the reason."""


class HeldLine(LineBase, frozen=True, kw_only=True, tag="held"):
    """Ranks that a command holds or releases."""

    ranks: RankText
    """The ranks that are held or free since now."""
    released: bool = False
    held: tuple[HeldRanks, ...] = ()
    """All ranks that are held now, by the reason."""


class TraceLine(LineBase, frozen=True, kw_only=True, tag="trace"):
    """Rows of a trace: values that ranks have collected at a place without stopping."""

    number: int
    """Number of the trace."""
    place: str
    expressions: tuple[str, ...]
    ranks: RankText
    rows: tuple[TracedRow, ...]
    least: int
    """Number of rows of the rank that has the fewest."""
    most: int
    full: RankText = ""
    """Ranks whose trace has no room for more."""
    errors: tuple[AnswerClass, ...] = ()
    missing: MissingRanks


class TracesLine(LineBase, frozen=True, kw_only=True, tag="traces"):
    """Traces that are listed, or one that was set."""

    event: Literal["set", "listed"]
    traces: tuple[TraceState, ...]
    errors: tuple[AnswerClass, ...] = ()
    missing: MissingRanks


class WorldsLine(LineBase, frozen=True, kw_only=True, tag="worlds"):
    """Worlds that ``worlds`` lists, or one whose ranks have joined the session."""

    worlds: tuple[WorldRanks, ...]


class LockstepLine(LineBase, frozen=True, kw_only=True, tag="lockstep"):
    """Steps that ranks took together."""

    command: str
    ranks: RankText
    """The ranks that were kept together."""
    steps: int
    """Number of steps after which all were at one place."""
    end: GroupEnd
    start: PlaceRanks
    """The place of most before the last step."""
    starts: tuple[PlaceRanks, ...] = ()
    """The places before the last step, that of most ranks first: one, but for the first step of
    ``finish`` and of ``until`` with a location."""
    places: tuple[PlaceRanks, ...] = ()
    """The places at which they stand, that of most ranks first."""
    classes: tuple[AnswerClass, ...]
    missing: MissingRanks
    elapsed_s: float


class DifferLine(LineBase, frozen=True, kw_only=True, tag="differ"):
    """A run from hit to hit of a place until values differ."""

    command: str
    expression: str
    location: str
    """The place of the hits."""
    ranks: RankText
    """The ranks whose values were compared."""
    hit: int
    """Number of the last hit; 0 for the place at which the ranks stood at first."""
    end: DifferEnd
    common: str = ""
    """The value of most ranks at the last hit."""
    failing: tuple[FailingRanks, ...] = ()
    """The ranks with other values at the last hit."""
    differences: tuple[ComparedRanks, ...] = ()
    """The differences from the recording at the last hit."""
    unrecorded: int = 0
    """Number of the first places at which the recording has no values to compare."""
    same_hits: int = 0
    """Number of the hits at which the values were compared and did not differ."""
    still_running: tuple[StillRunningRanks, ...] = ()
    """The places of the ranks that have not come to the last hit."""
    classes: tuple[AnswerClass, ...]
    missing: MissingRanks
    elapsed_s: float


BarriersEvent = Literal["set", "listed", "met", "absent", "waiting"]


class BarriersLine(LineBase, frozen=True, kw_only=True, tag="barriers"):
    """Barriers that are listed, or one that was set or at which something has happened."""

    event: BarriersEvent
    barriers: tuple[BarrierState, ...]


class WaitingLine(LineBase, frozen=True, kw_only=True, tag="waiting"):
    """Wait of a command for stops: after 1 s, 2 s, 4 s and so on, and every 60 s from then on."""

    command: str
    ranks: RankText
    """The ranks that the command is for."""
    running: RankText
    """The ranks among them that still run."""
    elapsed_s: float
    held: RankText = ""
    """The ranks of the session that are held where they have stopped."""
    stopped: RankText = ""
    """Further ranks that are stopped, and that the command is not for."""


class SamplesLine(LineBase, frozen=True, kw_only=True, tag="samples"):
    """The states of ranks in several samples, and the ranks that fall behind."""

    command: str
    times_s: tuple[float, ...]
    """Time of each sample, in seconds after the first."""
    rows: tuple[ProgressRow, ...]
    behind: RankText = ""
    """Ranks that are outside MPI while all others wait in MPI."""
    stands_still: bool = False
    """Whether every rank was in the same call of MPI in all samples after the first."""
    recorded: bool = False
    """Whether the recorder of MPI calls gave the samples, so that no rank was stopped."""


class ErrorLine(LineBase, frozen=True, kw_only=True, tag="error"):
    """A command, or the session, failed as a whole."""

    message: str
    command: str = ""


class EndLine(LineBase, frozen=True, kw_only=True, tag="end"):
    """Last line, at the end of the session."""

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
    | HeldLine
    | TraceLine
    | TracesLine
    | WorldsLine
    | LockstepLine
    | BarriersLine
    | DifferLine
    | WhyLine
    | SamplesLine
    | FlightLine
    | WaitingLine
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
        **{key: opened(value) for key, value in declared.items()},
    }


def opened(node: object) -> object:
    """Return a schema that allows further fields, since later releases may add some.

    PGDB's own decoder refuses unknown fields, so that a test finds a misspelled one.
    """
    if isinstance(node, dict):
        return {
            # The order of an anyOf and of the keys has no meaning; it differs between versions of
            # msgspec.
            key: sorted(map(opened, value), key=_in_order) if key == "anyOf" else opened(value)
            for key, value in node.items()
            if not (key == "additionalProperties" and value is False)
        }
    if isinstance(node, str):
        # Before Python 3.13 a docstring keeps its indentation.
        return inspect.cleandoc(node)
    return [opened(each) for each in node] if isinstance(node, list | tuple) else node


def _in_order(node: object) -> str:
    return json.dumps(node, sort_keys=True)
