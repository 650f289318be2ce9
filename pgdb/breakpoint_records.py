"""Records of breakpoints: what one rank's GDB has of each, and how they have changed."""

from pgdb.record_base import Struct


class Location(Struct, frozen=True):
    """One of several places of a breakpoint."""

    number: int
    """Number behind the dot: 2 for ``1.2``."""
    enabled: bool = True
    function: str = ""
    file: str = ""
    line: int = 0
    """Line in *file*; 0 if there is none."""
    at: str = ""
    """Symbol and offset of the address, where it has no line."""
    installed: bool | None = None
    """Whether the target has the tracepoint there; None for other kinds."""
    condition_is_invalid: bool = False
    """Whether GDB has disabled it because the condition has no meaning there."""


class Breakpoint(Struct, frozen=True):
    """One breakpoint, watchpoint or catchpoint on one rank."""

    number: int
    """Job-wide number."""
    kind: str
    """GDB's type: ``breakpoint``, ``hw watchpoint``, ``catchpoint`` …"""
    disposition: str = "keep"
    enabled: bool = True
    what: str = ""
    """Watched expression or caught event."""
    function: str = ""
    file: str = ""
    line: int = 0
    """Line in *file*; 0 if there is none."""
    location_count: int = 1
    """Number of places in the program, 0 while the location is pending."""
    original: str = ""
    """The location as the user wrote it."""
    at: str = ""
    """Symbol and offset of an address, such as ``<main+16>``; empty for other locations that have
    a line."""
    condition: str = ""
    times: int = 0
    """Number of hits on this rank."""
    ignore: int = 0
    """Number of further hits that GDB passes over."""
    thread: str = ""
    """GDB's number of the only thread that it stops, empty for all."""
    task: str = ""
    """GDB's number of the only task of Ada that it stops, empty for all."""
    disable_after: int = 0
    """Number of further hits after which it is disabled (``enable count``), 0 for no limit."""
    passes: int = 0
    """Number of hits of a tracepoint after which the trace ends (``passcount``), 0 for no limit."""
    commands: tuple[str, ...] = ()
    """GDB commands that are carried out at each hit; the ``printf`` of a ``dprintf``, and the
    actions of a tracepoint."""
    event: str = ""
    """Kind of event of a catchpoint, such as ``syscall``, where GDB reports it."""
    matching: str = ""
    """Regular expression of the exceptions that a catchpoint is limited to."""
    locations: tuple[Location, ...] = ()
    """The places of a breakpoint with several ones, in GDB's order."""
    installed: bool | None = None
    """Whether the target has the tracepoint; None for other kinds and for several places."""
    options: str = ""
    """Options of PGDB's as they are typed, such as ``--stop all``. GDB knows nothing of them."""


class BreakpointsMade(Struct, frozen=True, tag="breakpoints"):
    """Breakpoints that a command made, in the order of their job-wide numbers."""

    breakpoints: tuple[Breakpoint, ...]
    text: str = ""
    notes: str = ""
    """GDB's notes about other breakpoints at the same addresses, without the addresses."""


class BreakpointList(Struct, frozen=True, tag="breakpoint-list"):
    """All job-wide breakpoints of a rank."""

    breakpoints: tuple[Breakpoint, ...]


class BreakpointsChanged(Struct, frozen=True, tag="breakpoints-changed"):
    """Breakpoints that were made, deleted or changed other than by a command of PGDB's for that.

    Commands of a breakpoint, scripts, Python and user-defined commands can do that.
    """

    made: tuple[Breakpoint, ...] = ()
    deleted: tuple[int, ...] = ()
    """Job-wide numbers of the breakpoints."""
    changed: tuple[Breakpoint, ...] = ()
    """As they are now, without their hits."""
    last: int = 0
    """The last number that the rank's GDB has given."""
