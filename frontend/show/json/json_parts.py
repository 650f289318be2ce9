"""Parts of ``--json`` lines: rank sets, classes, tree nodes, differences."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from pgdb.frontend.analysis.why.verdict import Confidence, VerdictKind
from pgdb.frontend.api.absentees import AbsenceKind, BarrierThen
from pgdb.frontend.show.json.json_records import RecordObject
from pgdb.records import (
    Frame,
    StopReason,
)

_RANGE = r"\d+(-\d+(/\d+)?)?"
RankText = Annotated[
    str,
    Meta(
        description="Set of MPI ranks, folded: '0-3,8', '0-30/2'; empty for none.",
        pattern=rf"^({_RANGE}(,{_RANGE})*)?$",
    ),
]


class Part(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of all objects inside lines; fields with their default are left out."""


class HostRanks(Part, frozen=True, kw_only=True):
    """The ranks of one host."""

    host: str
    ranks: RankText


class PlaceRanks(Part, frozen=True, kw_only=True):
    """A place in the program, and the ranks that stand there."""

    ranks: RankText
    function: str
    file: str = ""
    """The source file without its folders; absent without line information."""
    line: int = 0
    offset: str = ""
    """The place in the function, such as ``+31``, where it counts."""


class AbsentRanks(Part, frozen=True, kw_only=True):
    """Ranks that are not at a barrier for one reason."""

    ranks: RankText
    kind: AbsenceKind
    why: str
    """The reason in words."""


class BarrierState(Part, frozen=True, kw_only=True):
    """A barrier at one moment."""

    number: int
    """The number of its breakpoint."""
    location: str
    ranks: RankText
    """The ranks that are to meet."""
    condition: str = ""
    then: BarrierThen
    times: int = 0
    """The number of times after which it is deleted; 0 if it stays."""
    met: int = 0
    """The number of times that all ranks have met that could come."""
    incomplete: int = 0
    """The number of these times at which a rank was missing that could not come any more."""
    arrived: RankText = ""
    """The ranks that have come."""
    going: RankText = ""
    """The ranks that run on now."""
    disabled: RankText = ""
    """The ranks on which its breakpoint is disabled."""
    absent: tuple[AbsentRanks, ...] = ()


class ProgressRow(Part, frozen=True, kw_only=True):
    """Ranks with equal states in all samples of a :class:`SamplesLine`."""

    ranks: RankText
    symbols: str
    """A letter for each sample: ``#`` computes, ``z`` sleeps, ``i`` in I/O, ``l`` waits for a lock
    or a thread, ``p`` in Python, ``!`` dies or exits, ``=`` in the same call of MPI as before,
    ``>`` in another one, ``-`` stopped, ``x`` ended, ``?`` not seen."""
    call: str = ""
    """The function of MPI that they were in at last; empty outside MPI."""
    activity: str = ""
    function: str = ""
    file: str = ""
    line: int = 0


class WhyVerdict(Part, frozen=True, kw_only=True):
    """One reason why ranks wait."""

    kind: VerdictKind
    ranks: RankText
    """The ranks whose calls, or whose absence, are the cause."""
    victims: RankText = ""
    """Ranks that wait because of them."""
    text: str
    """The reason in one sentence."""
    confidence: Confidence
    rule: str
    """The rule that led to the verdict."""
    evidence: tuple[str, ...] = ()
    """The calls and places of the ranks, one text for each group of them."""
    decides: str = ""
    """The fact that would decide, for a verdict that is not certain."""
    commands: tuple[str, ...] = ()
    """The commands of a session that show that fact."""


class WhyWait(Part, frozen=True, kw_only=True):
    """Ranks in one state; each rank that was looked at is in one."""

    ranks: RankText
    state: str
    """As in the answer to ``mpi calls``, or the reason why there is none: ``ended``, ``lost`` …"""
    call: str = ""
    """The function of MPI; absent for ranks outside MPI."""
    communicator: str = ""
    """Name of the communicator, the window or the file."""
    members: RankText = ""
    """Ranks in it, as far as they are known."""
    peers: RankText = ""
    """Ranks that have to do something before the call returns."""
    any_source: bool = False
    """Whether one message of any rank is enough."""
    tag: int | str | UnsetType = UNSET
    root: int | str | UnsetType = UNSET
    operation: str = ""
    count: int | UnsetType = UNSET
    datatype: str = ""
    requests: tuple[str, ...] = ()
    """The requests that are not complete, in words."""
    arrived: tuple[str, ...] = ()
    """The messages that have come and that no receive takes, in words."""
    activity: str = ""
    """The work of ranks outside MPI."""
    thread: str = ""
    """GDB's number of the thread at which the ranks are kept, if it is not the first."""
    function: str = ""
    """Function of the user's code."""
    file: str = ""
    line: int = 0
    source: str = ""
    """The sources of the arguments."""
    text: str
    """The state in words."""
    note: str = ""
    """The reason why arguments, or the state, are unknown."""


class Column(Part, frozen=True, kw_only=True):
    """Summary of the values at one placeholder of a form."""

    count: int
    """Number of finite numbers."""
    low: int | float | None = None
    """The least of them; null if there is none."""
    high: int | float | None = None
    at_low: RankText = ""
    at_high: RankText = ""
    mean: float | None = None
    deviation: float | None = None
    """Standard deviation; null if it is not finite."""
    distinct: int = 0
    """Number of different numbers; an estimate from 128 on."""
    nan: RankText = ""
    above: RankText = ""
    """Ranks with a positive infinity."""
    below: RankText = ""
    """Ranks with a negative infinity."""
    others: RankText = ""
    """Ranks with another text than a number."""
    rounded: bool = False
    """Whether ends and different values are of doubles, which do not hold all digits."""


class AnswerClass(Part, frozen=True, kw_only=True):
    """Ranks with the same answer."""

    ranks: RankText
    text: str
    """Text of the answer for people, without the ranks."""
    record: RecordObject
    """The answer for programs."""
    error: bool = False
    """Whether the command failed on these ranks."""
    value: int | float | UnsetType = UNSET
    """The value, if the record is a value and its text is a finite number."""
    columns: tuple[Column, ...] = ()
    """For a record of kind various: summaries of the values at the placeholders (U+FFF9) of its
    form."""


class PlaceText(Part, frozen=True, kw_only=True):
    """Ranks with the same text at a place."""

    ranks: RankText
    text: str


class DifferentPlace(Part, frozen=True, kw_only=True):
    """A place at which the answers of ranks differ."""

    path: str
    """Path from the value, such as ``.x[1]``; the name of a variable and the path; the first words
    of a line of output."""
    texts: tuple[PlaceText, ...]
    """The texts, the most common first."""


class MarkedLine(Part, frozen=True, kw_only=True):
    """A source line at which ranks stand or a breakpoint is."""

    file: str
    """Path of the file, or its name as the compiler recorded it."""
    line: int
    ranks: RankText = ""
    """Ranks that stand there."""
    breakpoints: tuple[int, ...] = ()
    """Numbers of the enabled breakpoints there."""
    disabled: tuple[int, ...] = ()
    """Numbers of the disabled ones."""


class MissingRanks(Part, frozen=True, kw_only=True):
    """Asked ranks without an answer, by reason."""

    late: RankText
    lost: RankText
    running: RankText
    held: RankText = ""
    """Ranks that a run command has left where they are."""


class StillRunningRanks(Part, frozen=True, kw_only=True):
    """Ranks that still run after a command has waited for them, at one place."""

    ranks: RankText
    function: str = ""
    """The function of MPI or of a library that the program has called, else that of the program;
    missing if PGDB has not looked."""
    text: str
    """The place in words, or the reason why it is unknown."""


class TreeFrame(Part, frozen=True, kw_only=True):
    """The part of a frame that distinguishes it from other frames."""

    function: str
    file: str = ""
    line: int = 0
    offset: str = ""
    """Offset in the function; only in a tree by pc."""
    dying: str = ""
    """The way in which the ranks die in this function."""
    language: str = ""
    """``python`` for a Python frame."""


class TreeSource(Part, frozen=True, kw_only=True):
    """A line of a source file."""

    file: str
    line: int


class TreeNode(Part, frozen=True, kw_only=True):
    """A branching point or a leaf of a call tree."""

    number: int
    """Number from 1 on, parents before children; ``@3`` names its ranks."""
    ranks: RankText
    parent: int = 0
    """Number of the parent; 0 for a node at the top."""
    frames: tuple[TreeFrame, ...] = ()
    """Frames, outermost first; empty for ranks whose innermost frame is the parent's last frame."""
    sources: tuple[TreeSource, ...] = ()
    leaf: bool = False
    """Whether its ranks are a class, with stacks that end here."""
    odd: bool = False
    """Whether it is the only smallest class."""
    threads: int | UnsetType = UNSET
    """Number of threads on all ranks together; only in a tree of threads."""
    samples: tuple[RankText, ...] = ()
    """Ranks in each of several samples."""


class TreeFailure(Part, frozen=True, kw_only=True):
    """Ranks without a stack."""

    ranks: RankText
    message: str


class StopDetail(Part, frozen=True, kw_only=True):
    """Ranks whose stops have the same detail."""

    ranks: RankText
    text: str
    digests: tuple[str, ...] = ()
    """Hashes of the values of which *text* shows a part: equal values have equal ones."""


class StopClass(Part, frozen=True, kw_only=True):
    """Ranks that stopped at the same place for the same reason."""

    ranks: RankText
    reason: StopReason
    text: str
    signal: str = ""
    meaning: str = ""
    breakpoint: int = 0
    frame: Frame | UnsetType = UNSET
    inside: str = ""
    detail: str = ""
    details: tuple[StopDetail, ...] = ()
    """The details of ranks with different ones: each detail without its label, the most common
    first."""
    program: str = ""
    dying: str = ""
    """The way in which the ranks die, such as ``MPI_Abort(comm, 3)``; empty if they do not."""
    after: RankText = ""
    """Ranks that were about to die before."""
    hit: str = ""
    event: str = ""
    thread: str = ""
    thread_name: str = ""
    location: int = 0
    stopped_with: RankText = ""
    """Ranks whose stop made PGDB interrupt these, by the stop mode."""
    breakpoints: tuple[int, ...] = ()
    """The numbers of all breakpoints that have stopped these ranks at once, if several have."""


class ExitClass(Part, frozen=True, kw_only=True):
    """Ranks whose processes ended in the same way."""

    ranks: RankText
    text: str
    code: int | UnsetType = UNSET
    """Exit status; absent after a fatal signal."""
    signal: str = ""
    after: RankText = ""
    """Ranks that died before, if the launcher has ended these ranks because of that."""


class LauncherEnd(Part, frozen=True, kw_only=True):
    """The end of the job's launcher."""

    code: int | UnsetType = UNSET
    signal: str = ""


class ComparedPart(Part, frozen=True, kw_only=True):
    """A place in a value at which two sides differ."""

    path: str = ""
    """Path, such as ``.x[1]``; empty for the whole value."""
    before: str
    after: str
    absolute: float | UnsetType = UNSET
    """Absolute difference, if both are finite numbers."""
    relative: float | UnsetType = UNSET
    """Absolute difference divided by the larger magnitude."""


class ComparedRanks(Part, frozen=True, kw_only=True):
    """Ranks with the same difference."""

    ranks: RankText
    others: RankText
    """Ranks on the other side; by rank, the same ranks."""
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
    """Whether *value* is an error, because there is no value."""


class HistogramBin(Part, frozen=True, kw_only=True):
    """Number of values between two ends."""

    low: float
    high: float
    count: int


class PlacedRanks(Part, frozen=True, kw_only=True):
    """Ranks on one host in one state."""

    ranks: RankText
    host: str
    pids: tuple[int, ...]
    """Process id of each rank, in order of ranks."""
    state: str
    """``stopped``, ``running``, ``exited``, ``detached`` or ``lost``."""


class HeldRanks(Part, frozen=True, kw_only=True):
    """Ranks that run commands leave where they are, for one reason."""

    ranks: RankText
    why: str
    """``hold``, or the barrier."""


class HostProcesses(Part, frozen=True, kw_only=True):
    """Processes of one host."""

    host: str
    pids: tuple[int, ...]


class WorldRanks(Part, frozen=True, kw_only=True):
    """The ranks of one MPI_COMM_WORLD."""

    world: int
    """0 for the ranks that the launcher has started, then in the order of MPI_Comm_spawn."""
    size: int
    """Number of ranks in MPI_COMM_WORLD, 0 if unknown."""
    hosts: tuple[HostProcesses, ...]
    """The processes that were found, by the rank in MPI_COMM_WORLD on each host."""
    ranks: RankText = ""
    """The ranks by their numbers in the session; absent if the world is not in it."""
    job: str = ""
    """Another job, as the user has named it; absent for the ranks of the session's own."""


class ArrayForm(Part, frozen=True, kw_only=True):
    """Ranks whose numbers have the same type and shape."""

    ranks: RankText
    dtype: str
    """Element type as NumPy names it, such as ``float64``."""
    shape: tuple[int, ...]
    """Number of elements in each dimension; empty for a single number."""


class ArrayFailure(Part, frozen=True, kw_only=True):
    """Ranks on which the numbers could not be read."""

    ranks: RankText
    message: str


class TracedValue(Part, frozen=True, kw_only=True):
    """The value of some ranks at one hit."""

    ranks: RankText
    value: int | float | str | UnsetType = UNSET
    """The value; NaN and infinities are texts."""
    low: int | float | UnsetType = UNSET
    """The least finite value, where the ranks have too many different ones."""
    high: int | float | UnsetType = UNSET
    mean: float | UnsetType = UNSET


class TracePlace(Part, frozen=True, kw_only=True):
    """The place of a trace on some ranks."""

    ranks: RankText
    text: str
    """The place as GDB has found it: ``solve at solve.c:57``."""


class TraceState(Part, frozen=True, kw_only=True):
    """A trace: a place, and the expressions that are collected there."""

    number: int
    place: str
    """The location, as it was typed."""
    expressions: tuple[str, ...]
    ranks: RankText
    """The ranks that have it."""
    condition: str = ""
    every: int = 1
    """Rows are collected at the first hit, and at each *every*-th one from there on."""
    first: int = 0
    """Most rows of a rank; 0 for no limit."""
    places: tuple[TracePlace, ...] = ()
    """Places on the ranks, when the trace is set."""


class TracedRow(Part, frozen=True, kw_only=True):
    """The values of one collected hit."""

    row: int
    """Row, from 1 on."""
    values: tuple[tuple[TracedValue, ...], ...]
    """The different values of each expression."""


class FlightPlace(Part, frozen=True, kw_only=True):
    """Ranks with one last call in a process group."""

    ranks: RankText
    state: Literal["waits", "missing", "differs", "done"]
    call: str = ""
    sequence: int
    """Number of the call in its group, from 1 on; 0 before the first."""
    sizes: str = ""
    where: str = ""


class FlightGroup(Part, frozen=True, kw_only=True):
    """A process group of PyTorch."""

    name: str
    description: str = ""
    members: RankText
    places: tuple[FlightPlace, ...]
    unknown: RankText = ""
    """Members without a record."""
