"""Typed records: what one rank answered or reported, decoded from GDB (or, later, another source).

A record that can be an answer is a member of :data:`Record`. In its texts :data:`SLOT` marks
replace parts that differ without a meaning (raw addresses, the arguments in a stop line); the parts
travel beside the record, see :mod:`pgdb.merge.classes`.
"""

import os
import signal
from typing import Literal

import msgspec

from pgdb.breakpoint_records import Breakpoint as Breakpoint
from pgdb.breakpoint_records import BreakpointList as BreakpointList
from pgdb.breakpoint_records import BreakpointsChanged as BreakpointsChanged
from pgdb.breakpoint_records import BreakpointsMade as BreakpointsMade
from pgdb.breakpoint_records import Location as Location
from pgdb.mpi_calls import MpiCallStatus
from pgdb.patterns import pattern
from pgdb.rank_sample import RankSample
from pgdb.record_base import Struct as Struct

SLOT = "\ufffc"
"""Sign in a text for a part that is kept beside it (OBJECT REPLACEMENT CHARACTER)."""
PYTHON = "python"
"""Mark in place of bounds for a value of Python whose text could be one of C's."""

ARROW = " -> "
"""Text between the old and the new value of a watchpoint."""

FATAL_SIGNALS = frozenset({"SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSYS", "SIGTRAP"})
"""Signals after which a rank does not continue by itself, so that other ranks would wait for it."""


# Numbers as NumPy names them; the limit of dimensions is that of the oldest NumPy supported.
_DTYPE = pattern(r"[<>|=][biufc][1-9][0-9]?\Z")
_MOST_DIMENSIONS = 32


class Variable(Struct, frozen=True):
    """A name with its value, as GDB prints it."""

    name: str
    value: str
    is_argument: bool = False
    bounds: str = ""
    """As in :class:`Value`."""
    digest: str = ""
    """As in :class:`Value`, for a variable of which *value* is a part."""
    whole: "str | Block | None" = None
    """As in :class:`Value`; it does not leave the node of the rank."""
    looked_at: int = 0
    """As in :class:`Value`."""


class Frame(Struct, frozen=True):
    """One frame of a call stack."""

    level: int
    """Level; 0 is the innermost. In a :class:`Stack` levels count from the first frame shown."""
    function: str
    """Name of the function; ``??`` if GDB does not know it."""
    arguments: tuple[Variable, ...] = ()
    file: str = ""
    """Source file as the compiler recorded it; empty without line information."""
    fullname: str = ""
    line: int = 0
    """Line number from 1 on; 0 without line information."""
    library: str = ""
    """Object file, if there is no line information."""
    offset: str = ""
    """Offset of the program counter in *function*, such as ``+31``; only on request."""
    dying: str = ""
    """The way in which the rank dies in this function, such as ``fatal error: MPI_ERR_RANK: invalid
    rank``; empty in any other function."""
    language: str = ""
    """``python`` for a frame of the Python interpreter, ``unknown`` for the mark between frames
    whose order is unknown; empty for a frame of GDB's."""


class Stack(Struct, frozen=True, tag="stack"):
    """Frames of the selected thread, innermost first.

    Levels count from the first frame shown. The number of frames folded away inside an MPI call
    changes from moment to moment, so it is in a slot of its own.
    """

    frames: tuple[Frame, ...]
    hidden: str = ""
    """Number of frames folded away inside the first one (a slot mark), empty when none are."""
    more: bool = False
    """Whether there are more outer frames than requested."""
    thread: str = ""
    """Python's name of the thread, such as ``MainThread, holds the GIL``, in a list of threads."""
    note: str = ""
    """The reason why frames are absent, or Python frames not in their place; empty if there is
    none."""


class ThreadStack(Struct, frozen=True):
    """The threads of one rank with equal stacks."""

    stack: Stack
    count: int = 1
    """Number of threads."""


class Threads(Struct, frozen=True, tag="threads"):
    """The stacks of all threads of a rank; each distinct one is there once, in a fixed order."""

    stacks: tuple[ThreadStack, ...]
    hidden: str = ""
    """Number of threads folded away because they are MPI's own (a slot mark), or empty."""
    are_tasks: bool = False
    """Whether they are tasks of asyncio; ``thread`` of a stack has name and state of the task."""


class Value(Struct, frozen=True, tag="value"):
    """The value of one expression, as GDB prints it with the requested format.

    GDB prints a part of long values only (``print elements``, ``max-value-size`` and the like).
    """

    text: str
    bounds: str = ""
    """Lower bounds of the arrays of Fortran in *text*, in their order: ``-1,0``. Empty if all are
    1, and ``?`` if GDB cannot say. ``python`` for a value of Python whose text could be one of C's.
    A slot mark, see :class:`Stack`."""
    digest: str = ""
    """Hash of the value in full, where *text* is a part of it: ``0x`` and hexadecimal digits.
    Addresses do not count in it."""
    whole: "str | Block | None" = None
    """The value in full, on request: text, or the numbers in memory."""
    looked_at: int = 0
    """Number of elements after which *digest* and *whole* end as well; 0 if they do not, -1 if even
    that number is unknown."""
    warnings: str = ""
    """GDB's warnings about the expression, with ``…`` for addresses. They are no part of the
    value."""
    base: int = 0
    """Base of the numbers in *text*, 2 or 8, which their digits do not show; else 0."""

    @property
    def is_part(self) -> bool:
        """Whether *text* shows only a part of the value."""
        return bool(self.digest or self.looked_at)

    @property
    def number(self) -> int | float | None:
        """The value as a number, or None if its text is not a plain number."""
        return parse_number(self.text, self.base)


class Variables(Struct, frozen=True, tag="variables"):
    """Variables of the selected frame."""

    items: tuple[Variable, ...]
    empty: str = ""
    """GDB's text when there are none, e.g. ``No locals.``"""


class Block(Struct, frozen=True, tag="block"):
    """Numbers in memory, byte for byte."""

    dtype: str
    """Element type as NumPy writes it, such as ``<f8``."""
    shape: tuple[int, ...]
    """Elements along each dimension of the whole expression, in the program's order of indices;
    empty for a single number."""
    data: bytes
    """The bytes of the elements from *start* on."""
    start: int = 0
    """Number of elements before *data*."""
    order: Literal["C", "F"] = "C"
    """``C`` if the last index varies fastest in memory, ``F`` if the first does."""
    lower: tuple[int, ...] = ()
    """Lower bound of each index, for an array of Fortran."""
    is_rounded: bool = False
    """Whether the elements are those of the program with fewer digits."""

    def __post_init__(self) -> None:
        # A block comes from the wire too, and NumPy makes an array of it.
        sizes = (*self.shape, self.start)
        if not _DTYPE.match(self.dtype) or len(self.shape) > _MOST_DIMENSIONS or min(sizes) < 0:
            raise ValueError("no block of numbers")
        if self.lower and len(self.lower) != len(self.shape):
            raise ValueError("no bounds of a block")


class Text(Struct, frozen=True, tag="text"):
    """The output of a GDB command."""

    text: str


READS_ITS_INPUT = "its GDB reads commands as the input of a command that it carries out"
"""First words of the failure of a rank whose debugger the front end replaces."""


class FileWritten(Struct, frozen=True, tag="written"):
    """File that a command has written on the host of the rank."""

    path: str
    """The whole path, where ``{rank}`` stands for the rank and ``{pid}`` for *process*."""
    host: str
    process: str = ""
    """The process id in the path (a slot mark), empty if there is none."""
    text: str = ""
    """The output of the command, besides the name of the file."""


class Failure(Struct, frozen=True, tag="error"):
    """Failure of a command on this rank; a failure is an answer."""

    message: str
    output: str = ""
    """The text that the command had printed before it failed."""
    has_no_debugger: bool = False
    """Whether the rank's debugger cannot be used any longer; ``reattach`` gives it another one."""


PLACEHOLDER = "\ufff9"
"""Sign in a text for a part that differs from rank to rank (INTERLINEAR ANNOTATION ANCHOR)."""
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
    """Success of a command without output."""


StopReason = Literal[
    "breakpoint-hit",
    "death",
    "sanitizer-report",
    "watchpoint-trigger",
    "watchpoint-scope",
    "signal-received",
    "interrupted",
    "end-stepping-range",
    "function-finished",
    "location-reached",
    "exec",
    "attached",
    "core",
    "main",
    "entry",
    "other",
]


class Stop(Struct, frozen=True, tag="stop"):
    """Stop of a rank, which accepts queries now."""

    reason: StopReason
    run: int = 0
    """Number of the request that resumed the rank; 0 for the stop at the start."""
    breakpoint: int = 0
    """Job-wide number of the breakpoint that was hit, or 0. Of several at one place it is the least
    number of those that stop this rank."""
    signal: str = ""
    """Name of the received signal, e.g. ``SIGSEGV``."""
    meaning: str = ""
    """GDB's description of the signal or the reason."""
    frame: Frame | None = None
    """The selected frame: after an interrupt or an attach the innermost one with a readable source
    file, else the innermost one."""
    inside: str = ""
    """The MPI or library function that *frame* has called and that has not returned."""
    detail: str = ""
    """Old and new value of a watchpoint, the value returned by ``finish``, the user's caller of a
    function in which a rank faulted, the place on a GPU and the line that has triggered an
    exception there, or a peculiarity of a rank that was just attached."""
    values: tuple[Value, ...] = ()
    """The value that ``finish`` returned, or the old and the new value of a watchpoint, where
    *detail* shows only a part of them, or where its text cannot be taken apart. Between nodes they
    travel in the slot of the detail."""
    dying: str = ""
    """The way in which the rank dies, such as ``assertion 'n > 0' failed``; empty for a rank that
    does not, as far as its innermost frames say."""
    after: str = ""
    """Ranks that died, or were about to die, before this rank was; empty for the first ones. At a
    signal of a launcher, the ranks for which it ends this one."""
    program: str = ""
    """Interpreter and script, such as ``python3.11 running job.py``, in the first stop; empty for
    any other program."""
    hit: str = ""
    """GDB's word for *breakpoint* if it is no ordinary one: ``Temporary breakpoint``,
    ``Catchpoint``, ``Hardware read watchpoint`` …"""
    event: str = ""
    """The event that a catchpoint has caught, such as ``exception thrown``, the kind of error that
    a sanitizer has reported, such as ``heap-buffer-overflow``, or GDB's words for the start of a
    kernel on a GPU, which no breakpoint with a number has caught."""
    thread: str = ""
    """GDB's number of the thread that has stopped the rank, unless it is the first one."""
    thread_name: str = ""
    """Name of that thread, where GDB prints it."""
    was_stopped: bool = False
    """Whether a signal had stopped the rank before it was attached to; only in the first stop."""
    location: int = 0
    """Number of the location that was hit, of a breakpoint with several ones; else 0."""
    stopped_with: str = ""
    """Ranks whose stop made PGDB interrupt this one, by the stop mode. The front end fills it in.
    """
    breakpoints: tuple[int, ...] = ()
    """The numbers of all breakpoints that have stopped this rank at once, the least one first;
    empty unless there are several."""


def stopped_at(record: object) -> tuple[int, ...]:
    """Return the numbers of the breakpoints at which a record says that a rank has stopped, the
    least one first; none for a record that is no stop."""
    if not isinstance(record, Stop):
        return ()
    return record.breakpoints or ((record.breakpoint,) if record.breakpoint else ())


def is_fatal(stop: Stop) -> bool:
    """Return whether a rank does not continue after *stop* by itself: others would wait for it."""
    # After an exception in a kernel the GPU computes nothing more for this process; the names are
    # NVIDIA's.
    is_of_gpu = stop.signal.startswith("CUDA_EXCEPTION_")
    return stop.reason == "death" or stop.signal in FATAL_SIGNALS or is_of_gpu


def is_error(stop: Stop) -> bool:
    """Return whether a rank stopped for an error: one that ends it, or a sanitizer's report."""
    return stop.reason == "sanitizer-report" or is_fatal(stop)


class Exit(Struct, frozen=True, tag="exit"):
    """End of a rank's process."""

    code: int | None = None
    """Exit status, if the process ended by itself."""
    signal: str = ""
    """The signal that ended the process, if one did."""
    run: int = 0
    after: str = ""
    """Ranks that died before, if their launcher has ended this one because of that."""

    @classmethod
    def of_status(cls, status: int, run: int = 0) -> "Exit":
        """Return the end that a status of waitpid(2) means."""
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            return cls(code=code, run=run)
        known = {each.value: each.name for each in signal.Signals}
        return cls(signal=known.get(-code, f"SIG{-code}"), run=run)


class Running(Struct, frozen=True, tag="running"):
    """State of a rank that runs; as an answer: the rank was resumed."""

    run: int = 0


class Output(Struct, frozen=True, tag="output"):
    """Text that GDB printed without a request: displays, commands attached to a breakpoint."""

    text: str
    of_stop: bool = False
    """Whether it is a part of the report of a stop, as displays are."""


class Progress(Struct, frozen=True, tag="progress"):
    """Arrival of a rank at the next stage of the session's start."""

    stage: Literal["held", "gdb", "attached"]


class Gone(Struct, frozen=True, tag="gone"):
    """Loss of the debugger of a rank; the rank itself runs on freely, or has ended."""

    why: str
    has_ended: bool = False
    """Whether the rank has ended, too; an Exit that says how comes next."""


Record = (
    Stack
    | Threads
    | Value
    | Variables
    | Block
    | Text
    | FileWritten
    | MpiCallStatus
    | RankSample
    | Failure
    | Various
    | Done
    | BreakpointsMade
    | BreakpointList
    | Stop
    | Exit
    | Running
)
"""The answers that one rank can give."""

Event = Stop | Exit | Running | Output | Progress | BreakpointsChanged | Gone
"""The events that one rank can report."""


# GDB writes a NaN with its bits.
_NAN = pattern(r"([-+]?)nan\(0x[0-9a-f]+\)\Z")


def parse_number(text: str, base: int = 0) -> int | float | None:
    """Return the number that the GDB value *text* is, or None.

    *base* is 2 or 8 for an integer whose digits do not show it.

    >>> parse_number("42"), parse_number("-1.5e3"), parse_number("0x10"), parse_number("{1, 2}")
    (42, -1500.0, 16, None)
    >>> parse_number("0144", 8), parse_number("-101", 2), parse_number("0o7")
    (100, -5, 7)
    >>> parse_number("-nan(0x8000000000000)")
    nan
    """
    if "_" in text:  # Python's own way to write 1_000
        return None
    try:
        return int(text, base)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return float("nan") if _NAN.match(text) else None
