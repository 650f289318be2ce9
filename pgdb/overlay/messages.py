"""Every message of the overlay, and its form on the wire.

Messages are tagged, immutable structs in MessagePack, decoded strictly; a peer's bytes are
data: :func:`decode` either returns a message or raises :class:`~pgdb.errors.ProtocolError`.
They say what is wanted (Evaluate, Backtrace, Resume), never how GDB/MI spells it.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from pgdb.errors import ProtocolError, RankSetError
from pgdb.merge.answer import EquivalenceClass, Missing
from pgdb.merge.graph import AnswerGraph
from pgdb.ranks import RankSet
from pgdb.records import Event

PROTOCOL_VERSION = 1
MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""Largest message that is sent or accepted."""
MAX_WIRE_RANK = 1 << 26
"""Ranks above this are refused from the wire: a few bytes could stand for a huge set."""

RunWord = Literal["continue", "step", "next", "stepi", "nexti", "finish", "until", "advance"]
"""GDB's commands that set a rank running, spelled out."""

FRONT_END = -1
"""Number of the front end as a node of the tree; aggregators count from 0."""


class Message(msgspec.Struct, frozen=True, tag=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all messages."""


class Operation(msgspec.Struct, frozen=True, tag=True, kw_only=True, forbid_unknown_fields=True):
    """What a request asks a rank's debugger to do."""


# -- operations ---------------------------------------------------------------------------


class Acquire(Operation, frozen=True, kw_only=True):
    """Start a debugger for the rank and get hold of it; answered with a Stop."""


class Evaluate(Operation, frozen=True, kw_only=True):
    """Print the value of an expression."""

    expression: str
    format: str = ""
    """GDB's format letters without the slash, e.g. ``x``."""


class Backtrace(Operation, frozen=True, kw_only=True):
    """List the frames of the selected thread."""

    limit: int = 0
    """Number of innermost frames, or of outermost when negative; 0 for all."""
    fold: bool = True
    """Fold away what goes on inside an MPI call."""
    split: bool = False
    """Whether ranks with other values of arguments are of another class."""


class SelectFrame(Operation, frozen=True, kw_only=True):
    """Select another frame; answered with a stack of that one."""

    command: str
    """``frame …``, ``up …`` or ``down …``."""


class ListVariables(Operation, frozen=True, kw_only=True):
    """List variables of the selected frame."""

    which: Literal["locals", "arguments"]


class Console(Operation, frozen=True, kw_only=True):
    """Run one GDB command as it is."""

    command: str
    run: bool = False
    """Whether the command sets the rank running."""


class Script(Operation, frozen=True, kw_only=True):
    """Run several lines as one GDB script (``define``, ``python``, ``if`` …)."""

    lines: tuple[str, ...]


class Resume(Operation, frozen=True, kw_only=True):
    """Set the rank running."""

    command: RunWord
    argument: str = ""


class Interrupt(Operation, frozen=True, kw_only=True):
    """Stop the rank if it runs; answered at once, the stop is an event."""


class InsertBreakpoint(Operation, frozen=True, kw_only=True):
    """Make breakpoints, watchpoints or catchpoints with a GDB command."""

    command: str
    """The whole command, e.g. ``tbreak ring.c:10 if x > 3``."""
    first_number: int
    """Job-wide number of the first one made; further ones count on."""


class ChangeBreakpoints(Operation, frozen=True, kw_only=True):
    """Delete, enable, disable … breakpoints by their job-wide numbers."""

    command: str
    """``delete``, ``disable``, ``enable``, ``enable once``, ``condition``, ``ignore`` …"""
    numbers: tuple[str, ...]
    """Job-wide numbers, ``3`` or with a location ``3.1``; empty for all."""
    argument: str = ""
    """What follows the numbers."""


class BreakpointCommands(Operation, frozen=True, kw_only=True):
    """Attach GDB commands to breakpoints."""

    numbers: tuple[str, ...]
    commands: tuple[str, ...]


class ListBreakpoints(Operation, frozen=True, kw_only=True):
    """List the job-wide breakpoints of the rank."""


class Detach(Operation, frozen=True, kw_only=True):
    """Take everything of ours out of the rank and let it run on free."""


class Kill(Operation, frozen=True, kw_only=True):
    """End the rank's process."""


AnyOperation = (
    Acquire
    | Evaluate
    | Backtrace
    | SelectFrame
    | ListVariables
    | Console
    | Script
    | Resume
    | Interrupt
    | InsertBreakpoint
    | ChangeBreakpoints
    | BreakpointCommands
    | ListBreakpoints
    | Detach
    | Kill
)


# -- messages -----------------------------------------------------------------------------


class Hello(Message, frozen=True, kw_only=True):
    """The first message of a node to its parent, at the start or after it lost another one."""

    version: int
    """PROTOCOL_VERSION of the sender."""
    release: str
    """Version of PGDB and of Python, for the message that says they differ."""
    node: int
    host: str
    pid: int
    address: str = ""
    """``host:port`` at which this node listens; empty when the wire-up was done by MPI."""
    wants_table: bool = False
    """Whether it only asks the front end for the :class:`Table`, before it has a parent."""
    subtree: tuple[int, ...] = ()
    """Nodes that hang on this one now, itself included, when it comes from a lost parent."""


class Table(Message, frozen=True, kw_only=True):
    """The addresses of all nodes, by node number, for the wire-up without MPI."""

    addresses: tuple[str, ...]


class Joined(Message, frozen=True, kw_only=True):
    """Nodes that have joined the tree; travels up to the front end."""

    nodes: tuple[Hello, ...]


class Share(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The ranks of one aggregator."""

    node: int
    ranks: RankSet
    index: int = 0
    """Which share of its host this is; the host's ranks are divided by :mod:`pgdb.jobs.hold`."""
    pids: tuple[int, ...] = ()
    """Process of each rank, in order; empty at a launch, where the held ranks report."""


class Setup(Message, frozen=True, kw_only=True):
    """Who debugs what; travels down to every node."""

    shares: tuple[Share, ...]
    mark: str = ""
    """The mark of the hold program, at a launch."""
    gdb: str
    """The GDB to run."""
    gdb_commands: tuple[str, ...] = ()
    """GDB commands to run in every GDB before it attaches."""
    program: str = ""
    """Base name of the program to stop in, where wrappers come before it."""
    event_window_s: float = 0.02


class Request(Message, frozen=True, kw_only=True):
    """Ask some ranks to do something."""

    request_id: int
    ranks: RankSet
    operation: AnyOperation
    timeout_s: float
    """Seconds until a leaf answers for a GDB that is still silent."""


class Reply(Message, frozen=True, kw_only=True):
    """The merged answers of some ranks to a request."""

    request_id: int
    graph: AnswerGraph
    missing: Missing = Missing()
    late: bool = False
    """Whether it comes after the deadline's reply: further answers for the same request."""


class Events(Message, frozen=True, kw_only=True):
    """What ranks have told unasked, merged over a short window."""

    classes: tuple[EquivalenceClass[Event], ...]


class Lost(Message, frozen=True, kw_only=True):
    """Nodes have been lost, and with them, for now or for good, these ranks."""

    nodes: tuple[int, ...]
    ranks: RankSet
    why: str


class Announce(Message, frozen=True, kw_only=True):
    """What the ranks below a node that found a new parent are doing; taken as the truth."""

    nodes: tuple[int, ...]
    classes: tuple[EquivalenceClass[Event], ...]


class Shutdown(Message, frozen=True, kw_only=True):
    """Detach what is still attached, and leave."""


class Heartbeat(Message, frozen=True, kw_only=True):
    """Nothing but a sign of life."""


AnyMessage = (
    Hello
    | Table
    | Joined
    | Setup
    | Request
    | Reply
    | Events
    | Lost
    | Announce
    | Shutdown
    | Heartbeat
)


_DIGITS = re.compile(r"[0-9]+")
_FOLDED = re.compile(r"[0-9]+(?:-[0-9]+(?:/[0-9]+)?)?(?:,[0-9]+(?:-[0-9]+(?:/[0-9]+)?)?)*")


def _encode_hook(value: Any) -> Any:
    if isinstance(value, RankSet):
        text = str(value)
        data = value.to_bytes()
        return text if len(text) <= len(data) else data
    raise TypeError(f"no wire form for {type(value).__name__}")


def _decode_hook(kind: type, value: Any) -> Any:
    if kind is not RankSet:
        raise TypeError(f"no wire form for {kind.__name__}")
    if value == "":
        return RankSet()
    if isinstance(value, str):
        if not _FOLDED.fullmatch(value):
            raise ValueError("rank set: no folded text")
        if any(len(number) > 9 or int(number) > MAX_WIRE_RANK for number in _DIGITS.findall(value)):
            raise ValueError("rank set: a rank is too large")
        ranks = RankSet.parse(value)
    elif isinstance(value, bytes):
        ranks = RankSet.from_bytes(value)
    else:
        raise ValueError(f"rank set: {type(value).__name__}")
    if ranks and ranks.last > MAX_WIRE_RANK:
        raise ValueError("rank set: a rank is too large")
    return ranks


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_encode_hook)
_DECODER: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(
    AnyMessage, dec_hook=_decode_hook, strict=True
)


def encode(message: AnyMessage) -> bytes:
    """Return the wire form of *message*.

    :raises ProtocolError: if it would be larger than :data:`MAX_MESSAGE_BYTES`.
    """
    data = _ENCODER.encode(message)
    if len(data) > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"a {type(message).__name__} of {len(data)} bytes is too large to send")
    return data


def decode(data: bytes) -> AnyMessage:
    """Return the message in *data*.

    :raises ProtocolError: if *data* is no valid message; its start is quoted.
    """
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, RankSetError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())  # it quotes what came, line ends and all
        raise ProtocolError(f"no valid message ({why}): {data[:40]!r}") from None
