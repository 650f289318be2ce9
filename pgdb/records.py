"""What one rank said: typed records, decoded from GDB (or, later, from other sources).

A record that can be an answer is a member of :data:`Record`. Texts inside a record may hold
:data:`SLOT` marks in place of what differs without mattering (raw addresses, the arguments in a
stop line); what stood there travels beside the record, see :mod:`pgdb.merge.classes`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from pgdb.patterns import pattern

SLOT = "\ufffc"
"""Stands in a text for something that is kept beside it (OBJECT REPLACEMENT CHARACTER)."""

FATAL_SIGNALS = frozenset({"SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSYS", "SIGTRAP"})
"""Signals after which a rank does not go on by itself, so that others would wait for it."""


# The hash of a stack takes all of its frames, and merging asks for it at every step. Nothing in a
# record leads back to it, so that the garbage collector need not look at them by the thousand.
class Struct(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    cache_hash=True,
    gc=False,
):
    """Base of all records: immutable, compared by value, strictly decoded."""


# Numbers as NumPy names them, and as many dimensions as its oldest release has that is taken.
_DTYPE = pattern(r"[<>|=][biufc][1-9][0-9]?\Z")
_MOST_DIMENSIONS = 32


class Variable(Struct, frozen=True):
    """A name with its value, as GDB prints it."""

    name: str
    value: str
    is_argument: bool = False


class Frame(Struct, frozen=True):
    """One frame of a call stack."""

    level: int
    """0 is the innermost; inside a :class:`Stack` counted from the first frame shown."""
    function: str
    """``??`` where GDB knows no name."""
    arguments: tuple[Variable, ...] = ()
    file: str = ""
    """Source file as the compiler recorded it; empty without line information."""
    fullname: str = ""
    line: int = 0
    """1-based; 0 without line information."""
    library: str = ""
    """Object file, where there is no line information."""
    offset: str = ""
    """Where in *function* the program counter stands, such as ``+31``; only where asked for."""


class Stack(Struct, frozen=True, tag="stack"):
    """Frames of the selected thread, innermost first.

    Levels count from the first frame shown; where frames inside an MPI call are folded away the
    number of those is in a slot of its own, since it changes from moment to moment.
    """

    frames: tuple[Frame, ...]
    hidden: str = ""
    """Number of frames folded away inside the first one (a slot mark), empty when none are."""
    more: bool = False
    """Whether there are further outer frames than were asked for."""


class ThreadStack(Struct, frozen=True):
    """Threads of one rank that have the same stack."""

    stack: Stack
    count: int = 1
    """Number of threads."""


class Threads(Struct, frozen=True, tag="threads"):
    """The stacks of all threads of a rank, each distinct one once, in a fixed order."""

    stacks: tuple[ThreadStack, ...]
    hidden: str = ""
    """Number of threads folded away because they are the MPI's own (a slot mark), or empty."""


class Value(Struct, frozen=True, tag="value"):
    """The value of one expression, as GDB prints it with the asked-for format."""

    text: str

    @property
    def number(self) -> int | float | None:
        """The value as a number, or None if its text is no plain number."""
        return parse_number(self.text)


class Variables(Struct, frozen=True, tag="variables"):
    """Variables of the selected frame."""

    items: tuple[Variable, ...]
    empty: str = ""
    """What GDB says when there are none, e.g. ``No locals.``"""


class Block(Struct, frozen=True, tag="block"):
    """Numbers in memory, as they stand there."""

    dtype: str
    """Element type as NumPy writes it, such as ``<f8``."""
    shape: tuple[int, ...]
    """Elements along each dimension of the whole expression, as the program indexes it; empty for
    a single number."""
    data: bytes
    """Elements from *start* on, as they lie in memory."""
    start: int = 0
    """Number of elements that lie before *data*."""
    order: Literal["C", "F"] = "C"
    """Whether the last or the first index varies fastest in memory."""

    def __post_init__(self) -> None:
        # From the wire too, and NumPy makes an array of it.
        sizes = (*self.shape, self.start)
        if not _DTYPE.match(self.dtype) or len(self.shape) > _MOST_DIMENSIONS or min(sizes) < 0:
            raise ValueError("no block of numbers")


class Text(Struct, frozen=True, tag="text"):
    """What a GDB command printed."""

    text: str


class Failure(Struct, frozen=True, tag="error"):
    """The command failed on this rank; it counts as a failed command, not as no answer."""

    message: str


PLACEHOLDER = "\ufff9"
"""Stands in a text for a part that differs from rank to rank (INTERLINEAR ANNOTATION ANCHOR)."""
HOLE = PLACEHOLDER
"""An alias of :data:`PLACEHOLDER`, for programs written before it was renamed."""


class Various(Struct, frozen=True, tag="various"):
    """Answers of one template with too many different values to send each of them.

    One summary for each placeholder of *template* travels beside the record.
    """

    template: Stack | Threads | Value | Variables | Text | Failure = msgspec.field(name="form")
    """The record with :data:`PLACEHOLDER` wherever ranks differ. It is empty where the answers have
    nothing in common; then there are no summaries either."""

    @property
    def form(self) -> Stack | Threads | Value | Variables | Text | Failure:
        """An alias of *template*, for programs written before the field was renamed."""
        return self.template


class Done(Struct, frozen=True, tag="done"):
    """The command worked and has nothing to say."""


class BreakpointsMade(Struct, frozen=True, tag="breakpoints"):
    """Breakpoints that a command made, in the order of their job-wide numbers."""

    breakpoints: tuple[Breakpoint, ...]
    text: str = ""


class Breakpoint(Struct, frozen=True):
    """One breakpoint, watchpoint or catchpoint as one rank has it."""

    number: int
    """Job-wide number."""
    kind: str
    """GDB's type: ``breakpoint``, ``hw watchpoint``, ``catchpoint`` …"""
    disposition: str = "keep"
    enabled: bool = True
    what: str = ""
    """Watched expression, or what is caught."""
    function: str = ""
    file: str = ""
    line: int = 0
    """Line in *file*; 0 where there is none."""
    location_count: int = 1
    """Number of places in the program, 0 while the location is pending."""
    original: str = ""
    """The location as the user wrote it."""
    condition: str = ""
    times: int = 0
    """How often this rank has hit it."""
    ignore: int = 0
    """How many further hits are passed over."""


class BreakpointList(Struct, frozen=True, tag="breakpoint-list"):
    """All job-wide breakpoints that a rank has."""

    breakpoints: tuple[Breakpoint, ...]


StopReason = Literal[
    "breakpoint-hit",
    "watchpoint-trigger",
    "watchpoint-scope",
    "signal-received",
    "interrupted",
    "end-stepping-range",
    "function-finished",
    "location-reached",
    "exec",
    "attached",
    "main",
    "entry",
    "other",
]


class Stop(Struct, frozen=True, tag="stop"):
    """A rank has stopped and can be looked at."""

    reason: StopReason
    run: int = 0
    """Number of the request that had set the rank running; 0 for the stop at the start."""
    breakpoint: int = 0
    """Job-wide number of the breakpoint that was hit, or 0."""
    signal: str = ""
    """Name of the signal received, e.g. ``SIGSEGV``."""
    meaning: str = ""
    """What GDB says of the signal or of the reason."""
    frame: Frame | None = None
    """The innermost frame that has a source file to show, else the innermost."""
    inside: str = ""
    """What *frame* has called and has not come back from: an MPI or library function."""
    detail: str = ""
    """Old and new value of a watchpoint, value returned by ``finish``, what is unusual about a rank
    that was just taken hold of."""
    program: str = ""
    """In the first stop: interpreter and script, such as ``python3.11 running job.py``; empty for
    any other program."""


class Exit(Struct, frozen=True, tag="exit"):
    """A rank's process has ended."""

    code: int | None = None
    """Exit status, when it ended by itself."""
    signal: str = ""
    """Signal that ended it, when one did."""
    run: int = 0


class Running(Struct, frozen=True, tag="running"):
    """A rank runs; as an answer: it has been set running."""

    run: int = 0


class Output(Struct, frozen=True, tag="output"):
    """Text that GDB printed unasked: displays, commands attached to a breakpoint."""

    text: str


class Progress(Struct, frozen=True, tag="progress"):
    """A rank has got on with the start of the session."""

    stage: Literal["held", "gdb", "attached"]


class Gone(Struct, frozen=True, tag="gone"):
    """The debugger of a rank is gone; the rank itself runs on free."""

    why: str


Record = (
    Stack
    | Threads
    | Value
    | Variables
    | Block
    | Text
    | Failure
    | Various
    | Done
    | BreakpointsMade
    | BreakpointList
    | Stop
    | Exit
    | Running
)
"""What one rank can answer."""

Event = Stop | Exit | Running | Output | Progress | Gone
"""What one rank can tell unasked."""


# GDB's own spelling of a NaN has its bits in it.
_NAN = pattern(r"([-+]?)nan\(0x[0-9a-f]+\)\Z")


def parse_number(text: str) -> int | float | None:
    """Return the number that a GDB value text is, or None.

    >>> parse_number("42"), parse_number("-1.5e3"), parse_number("0x10"), parse_number("{1, 2}")
    (42, -1500.0, 16, None)
    >>> parse_number("-nan(0x8000000000000)")
    nan
    """
    if "_" in text:  # Python's own way to write 1_000
        return None
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return float("nan") if _NAN.match(text) else None
