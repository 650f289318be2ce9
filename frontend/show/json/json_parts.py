"""Shapes of the parts of the lines of ``--json``: rank sets, classes, tree nodes, differences."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

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
