"""The report: what is known of a job at one moment, and of the events before it.

All forms show this model. JSON is the model itself: ``docs/reference/report-schema.json`` has its
schema. Schema 1 only grows. Ranks are sets in text, such as ``0-3,8``; times are Unix times in
seconds.
"""

from __future__ import annotations

import json
import sys
from typing import Literal

import msgspec

from pgdb.errors import CommandError
from pgdb.frontend.show.json.json_parts import RankText
from pgdb.frontend.show.json.json_shapes import opened
from pgdb.ranks import RankSet

SCHEMA_VERSION = 1

Severity = Literal["error", "warning", "note"]


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of all parts of a report. Fields of later releases are ignored."""


class Cause(Part, frozen=True, kw_only=True):
    """The summary: what happened, where, and to which ranks."""

    kind: str
    """``signal``, ``abort``, ``assertion``, ``exception``, ``runtime-error``, ``sanitizer``,
    ``exit-code``, ``hang``, ``time-limit``, ``ended``, ``request``, ``check``, ``lost`` or
    ``none``."""
    what: str
    """The event in one sentence: ``rank 3 received SIGSEGV, Segmentation fault``."""
    where: str = ""
    """The place in one line: ``solve at solver.c:41``; empty if it is not known."""
    who: RankText = ""
    """The ranks to which it happened first."""
    file: str = ""
    """Source file of the place, as the compiler recorded it."""
    line: int = 0
    """Line in *file*; 0 if it is not known."""
    severity: Severity = "error"
    """``error`` for a failure, ``warning`` for a suspicion such as a hang, ``note`` otherwise."""


class Job(Part, frozen=True, kw_only=True):
    """The job and the session that looked at it."""

    line: tuple[str, ...] = ()
    """The launcher's line, without secrets; empty if it is not known."""
    description: str = ""
    """The job in words, as PGDB found it."""
    mode: str = ""
    """``attach``, ``launch``, ``run``, ``replay`` or ``core``."""
    mpi: str = ""
    begun: float = 0.0
    """Time at which PGDB began to watch the job; 0 if it is not known."""
    exit_code: int | None = None
    """Exit status of the launcher, negative for a signal; None while it runs."""


class Versions(Part, frozen=True, kw_only=True):
    """Versions of the programs that made the report."""

    pgdb: str = ""
    python: str = ""
    gdb: str = ""
    system: str = ""
    """Kernel and machine of the host on which PGDB ran."""


class HostRanks(Part, frozen=True, kw_only=True):
    """The ranks of one host."""

    host: str
    ranks: RankText
    pids: tuple[int, ...] = ()
    """Process id of each rank, in the order of *ranks*; empty if they are not known."""


class RankStates(Part, frozen=True, kw_only=True):
    """The ranks by their state when the report was made."""

    stopped: RankText = ""
    running: RankText = ""
    exited: RankText = ""
    lost: RankText = ""
    detached: RankText = ""


class Argument(Part, frozen=True, kw_only=True):
    """An argument of a function."""

    name: str
    value: str
    """The value; ``…`` if ranks of the class differ."""


class ReportFrame(Part, frozen=True, kw_only=True):
    """One frame of a stack, innermost first."""

    function: str
    arguments: tuple[Argument, ...] = ()
    file: str = ""
    fullname: str = ""
    line: int = 0
    library: str = ""
    language: str = ""
    """``python`` for a frame of Python, empty for compiled code."""
    dying: str = ""
    """The way in which the ranks die in this function."""


class SourceLines(Part, frozen=True, kw_only=True):
    """Lines of a source file around the place of a class of ranks."""

    file: str
    first: int
    """Number of the first line."""
    marked: int
    """Number of the line at which the ranks are."""
    lines: tuple[str, ...]
    frame: int = 0
    """Index of the frame in the stack of the class."""


class RankValue(Part, frozen=True, kw_only=True):
    """A value and the ranks that have it."""

    ranks: RankText
    text: str


class ValuePlace(Part, frozen=True, kw_only=True):
    """A part of a variable in which ranks differ."""

    path: str
    """Expression of the part: ``grid.n[2]``."""
    values: tuple[RankValue, ...]
    """The values, most common first."""
    more: int = 0
    """Number of further values that are left out."""


class NumberRange(Part, frozen=True, kw_only=True):
    """The numbers of a variable that is a number on each rank."""

    low: str
    high: str
    at_low: RankText
    at_high: RankText
    distinct: int
    """Number of different values; 0 if it is not known."""


class ReportVariable(Part, frozen=True, kw_only=True):
    """A local variable or an argument, compared across the ranks of a class."""

    name: str
    ranks: RankText
    """The ranks that have the variable."""
    is_argument: bool = False
    differs: bool = False
    text: str = ""
    """The value, with ``…`` for each part that differs."""
    places: tuple[ValuePlace, ...] = ()
    more_places: int = 0
    """Number of further places that are left out."""
    numbers: NumberRange | None = None


class ReportStop(Part, frozen=True, kw_only=True):
    """The last event of some ranks: a stop, or their end."""

    ranks: RankText
    text: str
    reason: str = ""
    """Reason of the stop as in ``--json``; empty for an end."""
    signal: str = ""
    meaning: str = ""
    dying: str = ""
    code: int | None = None
    """Exit status of ranks that have ended by themselves."""
    is_error: bool = False
    is_first: bool = False
    """Whether these ranks were the first to fail."""
    has_ended: bool = False
    """Whether the ranks have ended."""


class RankClass(Part, frozen=True, kw_only=True):
    """Ranks with the same stack."""

    number: int
    ranks: RankText
    count: int
    """Number of ranks."""
    frames: tuple[ReportFrame, ...] = ()
    hidden: str = ""
    """Number of frames inside an MPI call that are left out, if it is the same on all ranks."""
    more: bool = False
    """Whether there are more outer frames."""
    source: SourceLines | None = None
    variables: tuple[ReportVariable, ...] = ()
    """Variables of the frame of *source*: those that differ come first."""
    no_variables: str = ""
    """The reason why there are no variables, if there is one."""
    error: str = ""
    """The reason why there is no stack."""
    is_odd: bool = False
    """Whether it is the only smallest class."""


class ReportNode(Part, frozen=True, kw_only=True):
    """A node of the merged call tree."""

    number: int
    parent: int
    """Number of the parent; 0 for a node at the top."""
    ranks: RankText
    count: int
    frames: tuple[str, ...]
    """Labels of the frames, outermost first."""
    lines: tuple[str, ...] = ()
    """Source lines of the innermost frame: ``ring.c:41``."""
    is_leaf: bool = False
    is_odd: bool = False


class ReportThreads(Part, frozen=True, kw_only=True):
    """Threads of any ranks with the same stack."""

    ranks: RankText
    threads: int
    """Number of threads on all ranks together."""
    counts: tuple[RankValue, ...] = ()
    """Numbers of such threads on one rank, with the ranks that have that number."""
    frames: tuple[ReportFrame, ...] = ()


class OutputTail(Part, frozen=True, kw_only=True):
    """The end of the output of some ranks."""

    ranks: RankText = ""
    """The ranks that have written it; empty if the launcher has mixed the output of all."""
    stream: str = "stdout"
    text: str = ""
    dropped_bytes: int = 0
    """Number of bytes before *text* that were not kept."""
    file: str = ""
    """The file that has all of it, if there is one."""


class TimedEvent(Part, frozen=True, kw_only=True):
    """An event of the time line."""

    time: float
    kind: str
    """``stop``, ``exit``, ``lost``, ``joined``, ``notice``, ``output``, ``action`` …"""
    text: str
    ranks: RankText = ""
    is_error: bool = False


class EnvironmentVariable(Part, frozen=True, kw_only=True):
    """A variable of the environment."""

    name: str
    value: str = ""
    is_secret: bool = False
    """Whether the value is left out because the variable may have a secret."""


class Environment(Part, frozen=True, kw_only=True):
    """The environment of the job."""

    source: str
    """The process whose environment it is, in words."""
    variables: tuple[EnvironmentVariable, ...] = ()


class Verdict(Part, frozen=True, kw_only=True):
    """A finding of an analysis, such as a deadlock."""

    kind: str
    text: str
    ranks: RankText = ""
    """The ranks that are the cause."""
    victims: RankText = ""
    """Ranks that wait because of them."""
    confidence: str = ""
    """The words of ``why`` for its certainty: ``certain``, ``likely`` or neither."""
    details: tuple[str, ...] = ()
    """Lines with the evidence."""
    is_error: bool = True
    file: str = ""
    line: int = 0


class Wait(Part, frozen=True, kw_only=True):
    """Ranks that wait for other ranks."""

    ranks: RankText
    on: RankText
    text: str


class Report(Part, frozen=True, kw_only=True, omit_defaults=False, tag="report", tag_field="type"):
    """A report on one job."""

    schema: int = SCHEMA_VERSION
    time: float
    """Time at which the report was made."""
    title: str
    cause: Cause
    ranks: RankText
    """All ranks."""
    job: Job = msgspec.field(default_factory=Job)
    versions: Versions = msgspec.field(default_factory=Versions)
    hosts: tuple[HostRanks, ...] = ()
    states: RankStates = msgspec.field(default_factory=RankStates)
    verdicts: tuple[Verdict, ...] = ()
    waits: tuple[Wait, ...] = ()
    classes: tuple[RankClass, ...] = ()
    """Ranks by stack, those that failed first, then the smallest class first."""
    tree: tuple[ReportNode, ...] = ()
    """Nodes of the merged call tree, parents before children."""
    stops: tuple[ReportStop, ...] = ()
    """The last event of each rank: signals, deaths, exit codes; the first failures first."""
    threads: tuple[ReportThreads, ...] = ()
    """Stacks of all threads, where ranks have several."""
    output: tuple[OutputTail, ...] = ()
    environment: Environment | None = None
    timeline: tuple[TimedEvent, ...] = ()
    notes: tuple[str, ...] = ()
    """Facts that the report could not find out, with the reason."""

    def __str__(self) -> str:
        from pgdb.frontend.report.forms import text

        return text.render(self)

    def _repr_html_(self) -> str:
        """Return the page of the report for a notebook, in a frame of its own."""
        from pgdb.frontend.report.forms.html import in_frame

        return in_frame(self)

    @property
    def rank_set(self) -> RankSet:
        """All ranks."""
        return parse_ranks(self.ranks)


def parse_ranks(text: RankText) -> RankSet:
    """Return the set of ranks of a field.

    >>> parse_ranks(""), parse_ranks("0-2")
    (RankSet(''), RankSet('0-2'))
    """
    return RankSet.parse(text) if text else RankSet()


def encode_part(part: Part) -> bytes:
    """Return a part of a report, or all of it, as JSON for programs and for people."""
    return msgspec.json.format(msgspec.json.encode(part), indent=1) + b"\n"


def decode(data: bytes, name: str) -> Report:
    """Return the report that :func:`encode_part` has written; *name* is for messages.

    :raises CommandError: if it is no report, or of a later schema.
    """
    try:
        version = msgspec.json.decode(data, type=_Head)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise CommandError(f"{name} is no report of PGDB in JSON: {error}") from None
    if version.schema > SCHEMA_VERSION:
        raise CommandError(
            f"{name} has schema {version.schema}, and this PGDB reads up to {SCHEMA_VERSION}; "
            "a newer PGDB can read it"
        )
    try:
        return msgspec.json.decode(data, type=Report)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise CommandError(f"{name} is no report of PGDB in JSON: {error}") from None


class _Head(Part, frozen=True, kw_only=True, tag="report", tag_field="type"):
    """The fields that every schema has."""

    schema: int


def schema() -> dict[str, object]:
    """Return the JSON Schema of a report."""
    declared = msgspec.json.schema(Report)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Report of PGDB, schema version {SCHEMA_VERSION}",
        "description": "A file of 'pgdb report -o FILE.json';"
        " docs/reference/report.md explains the fields.",
        **{key: opened(value) for key, value in declared.items()},
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(schema(), indent=2, sort_keys=True) + "\n")
