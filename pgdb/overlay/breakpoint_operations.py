"""The operations on breakpoints and traces."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pgdb.overlay.operation import Capability, Logged, Operation

BreakpointKind = Literal["", "watchpoint", "tracepoint"]
"""Breakpoints to list: all, or those of a kind."""


class InsertBreakpoint(Operation, frozen=True, kw_only=True):
    """Order to make breakpoints, watchpoints or catchpoints with a GDB command."""

    capability: ClassVar[Capability] = Capability.BREAKPOINTS
    is_about_breakpoints: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"command": "command"}

    command: str
    """The whole command, e.g. ``tbreak ring.c:10 if x > 3``."""
    first_number: int
    """Job-wide number of the first breakpoint; the others count on."""
    holds: bool = False
    """Whether it is a barrier's: the commands of no breakpoint set a rank running that is at it."""


class ChangeBreakpoints(Operation, frozen=True, kw_only=True):
    """Order to delete, enable, disable … breakpoints by their job-wide numbers."""

    capability: ClassVar[Capability] = Capability.BREAKPOINTS
    is_about_breakpoints: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {
        "command": "as it is",
        "numbers": "as it is",
        "argument": "expression",
    }

    command: str
    """``delete``, ``disable``, ``enable``, ``enable once``, ``condition``, ``ignore`` …"""
    numbers: tuple[str, ...]
    """Job-wide numbers, ``3`` or with a location ``3.1``; empty for all."""
    argument: str = ""
    """The rest of the command after the numbers."""


class BreakpointCommands(Operation, frozen=True, kw_only=True):
    """Order to attach GDB commands to breakpoints."""

    capability: ClassVar[Capability] = Capability.BREAKPOINTS
    is_about_breakpoints: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"numbers": "as it is", "commands": "count"}

    numbers: tuple[str, ...]
    commands: tuple[str, ...]
    judged: tuple[str, ...] = ()
    """The numbers whose commands GDB does not have: the front end decides at each hit whether the
    breakpoint is for the rank, and gives it the commands then."""


class AdvanceBreakpoints(Operation, frozen=True, kw_only=True):
    """Order to give the rank's next breakpoint a number behind the last one of the job."""

    capability: ClassVar[Capability] = Capability.BREAKPOINTS

    last: int
    """The last number that the job has used."""


class ListBreakpoints(Operation, frozen=True, kw_only=True):
    """Question for the job-wide breakpoints of the rank."""

    capability: ClassVar[Capability] = Capability.BREAKPOINTS
    only_reads: ClassVar[bool] = True

    numbers: tuple[str, ...] = ()
    """Numbers, and ranges such as ``2-4``; empty for all."""
    kind: BreakpointKind = ""
    """The end of GDB's type, such as ``hw watchpoint``; empty for all."""


class CheckExpression(Operation, frozen=True, kw_only=True):
    """Question whether an expression can have a value at a place, of which nothing is evaluated.

    Answered with Done, or with GDB's error about its syntax or about a name.
    """

    capability: ClassVar[Capability] = Capability.BREAKPOINTS
    needs_stopped_rank: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"place": "command", "expression": "expression"}

    place: str
    expression: str


class StartTrace(Operation, frozen=True, kw_only=True):
    """Order to collect values at each hit of a place, without a stop; answered with a Text."""

    capability: ClassVar[Capability] = Capability.BREAKPOINTS
    logged: ClassVar[Mapping[str, Logged]] = {"place": "command", "expressions": "count"}

    number: int
    """The trace's number; an earlier trace with this number ends."""
    place: str
    expressions: tuple[str, ...]
    condition: str = ""
    every: int = 1
    """Distance of the hits at which values are collected, from the first hit on."""
    first: int = 0
    """Most hits at which values are collected; 0 for no limit."""


class StopTrace(Operation, frozen=True, kw_only=True):
    """Order to end a trace and forget its values."""

    capability: ClassVar[Capability] = Capability.BREAKPOINTS

    number: int


class ListTrace(Operation, frozen=True, kw_only=True):
    """Question for rows of a trace; answered with Variables.

    The first one, ``rows``, is the number of rows that there are. ``full`` is there if the trace
    has no room for more. ``5.0`` is the value of the first expression in row 5; rows count from 0.
    """

    only_reads: ClassVar[bool] = True

    number: int
    begin: int = 0
    count: int = 0

    @property
    def reads_kept_values(self) -> bool:
        """Whether it reads what the debugger has collected."""
        return True
