"""The operations that a request can ask a rank's debugger for, and their properties.

An operation says what is wanted (Evaluate, Backtrace, Resume), never how GDB/MI spells it.
"""

import re
from collections.abc import Mapping
from typing import ClassVar, Literal

from pgdb.errors import UsageError
from pgdb.overlay.breakpoint_operations import (
    AdvanceBreakpoints,
    BreakpointCommands,
    ChangeBreakpoints,
    CheckExpression,
    InsertBreakpoint,
    ListBreakpoints,
    ListTrace,
    StartTrace,
    StopTrace,
)
from pgdb.overlay.operation import Capability, Logged, Operation
from pgdb.overlay.passed_breakpoints import PassedBreakpoint
from pgdb.overlay.query_options import QueryOptions
from pgdb.patterns import pattern

RunWord = Literal["continue", "step", "next", "stepi", "nexti", "finish", "until", "advance"]
"""GDB's commands that set a rank running, spelled out."""

_TRACE = pattern(r"trace:(\d{1,9})(?::(.*))?\Z", re.S)
_LIKE_TRACE = pattern(r"trace:(?!:)")
_NUMBER_FORMATS = frozenset("xoutzdcf")
"""GDB's format letters that make numbers of pointers; with a, s and i addresses stay addresses."""


def trace_of(expression: str) -> tuple[int, str] | None:
    """Return the number of the trace whose values an expression stands for, and the column.

    >>> trace_of("trace:2:residual"), trace_of("trace:1"), trace_of("residual")
    ((2, 'residual'), (1, ''), None)
    """
    match = _TRACE.match(expression.strip())
    return (int(match[1]), (match[2] or "").strip()) if match else None


def check_trace(expression: str) -> None:
    """Check that what looks like the values of a trace names one.

    :raises UsageError: if it has no number; GDB would say that there is no symbol ``trace``.
    """
    if _LIKE_TRACE.match(expression.strip()) and trace_of(expression) is None:
        raise UsageError(
            f"{expression!r} names no trace; trace:N:EXPR stands for the values of EXPR that trace "
            "N has collected, and 'traces' lists the numbers"
        )


class Acquire(Operation, frozen=True, kw_only=True):
    """Order to start a debugger for the rank and attach it; answered with a Stop."""


class Reattach(Operation, frozen=True, kw_only=True):
    """Order to attach again to a rank that was detached, or whose debugger is gone or silent.

    Answered with a Stop, or with a Text if the rank has a debugger that answers.
    """

    outdates_answers: ClassVar[bool] = True


class Evaluate(Operation, frozen=True, kw_only=True):
    """Question for the value of an expression."""

    only_reads: ClassVar[bool] = True
    needs_stopped_rank: ClassVar[bool] = True
    can_last: ClassVar[bool] = True
    uses_frame: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"expression": "expression", "format": "as it is"}

    expression: str
    format: str = ""
    """GDB's format letters without the slash, e.g. ``x``."""
    raw_pointers: bool = False
    """Whether pointers with other addresses are other values."""
    most_elements: int = 0
    """Most elements of text and containers to look at where GDB prints a part of a value; 0 to look
    at GDB's text only. Arrays of numbers are looked at in memory, with all elements."""
    limit_bytes: int = 0
    """Most bytes of numbers to look at."""
    whole: bool = False
    """Whether to return the value in full, or its type and shape if it is an array of numbers."""
    keeps_history: bool = False
    """Whether the value is for PGDB, and no new value of GDB's history: ``$`` stays as it is. The
    value of a call becomes one all the same, unless the expression names others of the history."""

    def check(self) -> None:
        """Check the fields, and that an expression of a trace names one."""
        super().check()
        check_trace(self.expression)

    @property
    def asks_for_numbers(self) -> bool:
        """Whether other addresses are other answers."""
        return self.raw_pointers or any(letter in _NUMBER_FORMATS for letter in self.format)


class Backtrace(Operation, frozen=True, kw_only=True):
    """Question for the frames of the selected thread."""

    only_reads: ClassVar[bool] = True
    needs_stopped_rank: ClassVar[bool] = True

    limit: int = 0
    """Number of innermost frames, or of outermost when negative; 0 for all."""
    fold: bool = True
    """Whether to fold away the frames inside an MPI call."""
    split: bool = False
    """Whether ranks with other values of arguments are of another class."""
    threads: bool = False
    """Whether to list all threads; answered with Threads instead of a Stack. With *fold*, threads
    of the MPI library itself are left out."""
    offsets: bool = False
    """Whether frames show their offset in the function."""
    whole: bool = False
    """Whether arguments that are structures or arrays, and long texts, are shown whole; not where
    a frame of the stack is of Fortran, since its bounds may not be set yet."""
    only_python: bool = False
    """Whether to list the Python frames only."""
    tasks: bool = False
    """Whether to list the stacks of asyncio's tasks; answered with Threads."""
    glue: tuple[str, ...] = ()
    """Regular expressions of further C functions to leave out between Python frames."""

    @property
    def joins_arguments(self) -> bool:
        """Whether frames whose arguments differ are of one class."""
        return not self.split


class ListMpiCalls(Operation, frozen=True, kw_only=True):
    """Question for the MPI calls that a rank has not left; answered with an MpiCallStatus.

    No function of the process is called for it, and nothing is written into the process.
    """

    only_reads: ClassVar[bool] = True
    needs_stopped_rank: ClassVar[bool] = True

    threads: bool = True
    """Whether to look at all threads, or at the first one only."""
    loops: bool = False
    """Whether to look for loops that the rank cannot leave, in the machine code of its main
    thread."""
    arrived: bool = False
    """Whether to list the messages that have come and that no receive has taken, if the rank waits
    for one."""


class ListRecordedCalls(Operation, frozen=True, kw_only=True):
    """Question to the recorder of a rank, which may run, for the MPI call that it is in.

    The answer is an MpiCallStatus with the function alone, and with ``moved``; a Failure without a
    recorder. Nothing is stopped for it.
    """

    only_reads: ClassVar[bool] = True
    keeps_answer: ClassVar[bool] = False

    last: int = 0
    """Number of calls of each thread to read, the latest first of all, with their arguments; with 0
    the answer has none."""


class TakeSample(Operation, frozen=True, kw_only=True):
    """Question for what a rank does at this moment; answered with a RankSample."""

    only_reads: ClassVar[bool] = True
    needs_stopped_rank: ClassVar[bool] = True
    keeps_answer: ClassVar[bool] = False


class SelectMpiCaller(Operation, frozen=True, kw_only=True):
    """Order to select the caller of MPI where a function of MPI is selected.

    Where no caller has source, a stop selects a function of MPI. Inside of it, MPI_Finalize of Open
    MPI returns from a short sleep again and again.
    """

    needs_stopped_rank: ClassVar[bool] = True
    uses_frame: ClassVar[bool] = True
    keeps_answer: ClassVar[bool] = False


class _OfNumbers(Operation, frozen=True, kw_only=True):
    """Base of the questions for numbers of the selected frame, or of a trace."""

    only_reads: ClassVar[bool] = True
    needs_stopped_rank: ClassVar[bool] = True
    uses_frame: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"expression": "expression"}

    expression: str
    """A number or an array of numbers, ``u[0]@1000`` included."""
    limit_bytes: int
    """Most bytes to read; a larger array is answered with a Failure."""

    def check(self) -> None:
        """Check the fields, and that an expression of a trace names one."""
        super().check()
        check_trace(self.expression)

    @property
    def reads_kept_values(self) -> bool:
        """Whether the expression stands for values of a trace, see :func:`trace_of`."""
        return trace_of(self.expression) is not None


class ReadBlock(_OfNumbers, frozen=True, kw_only=True):
    """Question for numbers in memory, byte for byte; answered with a Block."""

    start: int = 0
    """Number of elements to skip."""
    count: int = 0
    """Number of elements to read, 0 for all the rest."""


class Reduce(_OfNumbers, frozen=True, kw_only=True):
    """Question for the sum of a number, or of all elements of an array, made on the way up.

    Answered with Various, whose template is one placeholder, for any number of ranks.
    """

    keeps_answer: ClassVar[bool] = False

    low: float = 0.0
    """Lower end of a histogram; used if *bins* is not 0."""
    high: float = 0.0
    bins: int = 0
    of_look: int = 0
    """Number of an earlier request for the same numbers of a trace, whose rows are summed up again:
    a rank that runs collects further ones meanwhile. 0 for all rows."""


class ReadFile(Operation, frozen=True, kw_only=True):
    """Question for a part of a file on the rank's host; answered with a Block of bytes.

    The shape of the block is the size of the whole file.
    """

    only_reads: ClassVar[bool] = True
    keeps_answer: ClassVar[bool] = False

    path: str
    """The path of the file, which can have the placeholders of a name for several ranks."""
    start: int = 0
    """Number of bytes to skip."""
    most_bytes: int = 0
    """Most bytes to read; 0 to learn the size only."""


class Recall(Operation, frozen=True, kw_only=True):
    """Question for the whole answer to an earlier request: addresses, every value."""

    only_reads: ClassVar[bool] = True
    uses_frame: ClassVar[bool] = True
    keeps_answer: ClassVar[bool] = False

    request_id: int


class SelectFrame(Operation, frozen=True, kw_only=True):
    """Order to select another frame; answered with a Stack of the selected frame."""

    needs_stopped_rank: ClassVar[bool] = True
    can_last: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"command": "command"}

    command: str
    """``frame …``, ``up …`` or ``down …``; empty to select no other one. GDB then keeps the lines
    that ``list`` lists next, which ``frame`` changes."""

    @property
    def joins_arguments(self) -> bool:
        """Whether frames whose arguments differ are of one class."""
        return True


class ListVariables(Operation, frozen=True, kw_only=True):
    """Question for variables of the selected frame."""

    only_reads: ClassVar[bool] = True
    needs_stopped_rank: ClassVar[bool] = True
    can_last: ClassVar[bool] = True
    uses_frame: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"which": "as it is"}

    which: Literal["locals", "arguments", "python"]
    """``python`` for the variables of the selected Python frame."""
    raw_pointers: bool = False
    """Whether pointers with other addresses are other values."""
    most_elements: int = 0
    """As in :class:`Evaluate`, for the variables of which GDB prints a part."""
    limit_bytes: int = 0
    """Most bytes of numbers of one variable to look at."""

    @property
    def asks_for_numbers(self) -> bool:
        """Whether other addresses are other answers."""
        return self.raw_pointers


class Console(Operation, frozen=True, kw_only=True):
    """One GDB command, which is carried out unchanged."""

    can_last: ClassVar[bool] = True
    uses_frame: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"command": "command"}

    command: str
    run: bool = False
    """Whether the command sets the rank running."""
    is_user_defined: bool = False
    """Whether the command is the user's own, which can compute without end."""
    passed: tuple[PassedBreakpoint, ...] = ()
    """Breakpoints that a run passes over, as for :class:`Resume`."""
    display: int = 0
    """The job-wide number of the display that the command makes; 0 if it makes none."""

    @property
    def sets_running(self) -> bool:
        """Whether it sets the rank running."""
        return self.run


class MachineQuery(Operation, frozen=True, kw_only=True):
    """Command that only GDB's machine interface has; answered with a Text."""

    uses_frame: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"command": "as it is", "arguments": "count"}

    command: str
    """The command in words: ``var create``, ``list changed registers``."""
    arguments: tuple[str, ...] = ()
    options: QueryOptions = QueryOptions()


class Explore(Operation, frozen=True, kw_only=True):
    """Question for a value with the targets of its pointers, or for its children.

    Answered with a Value, or with Variables.
    """

    only_reads: ClassVar[bool] = True
    needs_stopped_rank: ClassVar[bool] = True
    uses_frame: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"expression": "expression", "path": "count"}

    expression: str
    path: tuple[str, ...] = ()
    """Names of children, from the value of *expression* on."""
    depth: int = 3
    """Number of levels that are shown."""
    most: int = 60
    """Most children of each value."""
    start: int = 0
    """Number of children to skip, if they are listed."""
    children_only: bool = False
    """Whether to list the children."""


class Script(Operation, frozen=True, kw_only=True):
    """Several lines, carried out as one GDB script (``define``, ``python``, ``if`` …)."""

    can_last: ClassVar[bool] = True
    outdates_answers: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"lines": "count"}

    lines: tuple[str, ...]


class Resume(Operation, frozen=True, kw_only=True):
    """Order to set the rank running."""

    needs_stopped_rank: ClassVar[bool] = True
    outdates_answers: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"command": "as it is", "argument": "expression"}

    command: RunWord
    argument: str = ""
    passed: tuple[PassedBreakpoint, ...] = ()
    """Breakpoints of sets that some of the ranks are not in."""

    @property
    def sets_running(self) -> bool:
        """Whether it sets the rank running."""
        return True


class Interrupt(Operation, frozen=True, kw_only=True):
    """Order to stop the rank if it runs; answered at once, the stop is an event."""

    capability: ClassVar[Capability] = Capability.RUN
    is_urgent: ClassVar[bool] = True
    outdates_answers: ClassVar[bool] = True


class Detach(Operation, frozen=True, kw_only=True):
    """Order to remove everything of PGDB's from the rank and let it run on freely."""

    outdates_answers: ClassVar[bool] = True

    @property
    def needs_process(self) -> bool:
        """Whether there must be a process."""
        return True


class Kill(Operation, frozen=True, kw_only=True):
    """Order to end the rank's process."""

    keeps_debugger: bool = False
    """Whether the debugger of a stopped rank stays, to answer from the program's file."""
    capability: ClassVar[Capability] = Capability.RUN
    is_urgent: ClassVar[bool] = True
    outdates_answers: ClassVar[bool] = True


AnyOperation = (
    Acquire
    | Reattach
    | Evaluate
    | Backtrace
    | SelectFrame
    | ListVariables
    | ListMpiCalls
    | ListRecordedCalls
    | TakeSample
    | SelectMpiCaller
    | ReadBlock
    | ReadFile
    | Reduce
    | Recall
    | Console
    | MachineQuery
    | Explore
    | Script
    | Resume
    | Interrupt
    | InsertBreakpoint
    | ChangeBreakpoints
    | BreakpointCommands
    | AdvanceBreakpoints
    | ListBreakpoints
    | CheckExpression
    | StartTrace
    | StopTrace
    | ListTrace
    | Detach
    | Kill
)


AboutExpression = Evaluate | Explore | ReadBlock | Reduce
"""The operations whose ``expression`` is evaluated in the selected frame."""


RecordedOperation = (
    Evaluate
    | Backtrace
    | SelectFrame
    | ListVariables
    | ListMpiCalls
    | ListRecordedCalls
    | TakeSample
    | ReadBlock
    | Reduce
    | Recall
    | Console
    | MachineQuery
    | Explore
    | ListBreakpoints
    | ListTrace
)
"""The operations whose answers a recording keeps, unless they set the rank running."""
