"""Every message of the overlay, and its form on the wire.

Messages are tagged, immutable structs in MessagePack, decoded strictly; a peer's bytes are
data: :func:`decode` either returns a message or raises :class:`~pgdb.errors.ProtocolError`.
They say what is wanted (Evaluate, Backtrace, Resume), never how GDB/MI spells it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import msgspec

from pgdb.errors import ProtocolError, RankSetError
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.graph import AnswerGraph
from pgdb.merge.rankset_codec import pack, unpack
from pgdb.ranks import RankSet
from pgdb.records import Event

PROTOCOL_VERSION = 1
MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""Largest message that is sent or accepted."""
MAX_SETS_BYTES = 1 << 30
"""Most that the rank sets of one message may take: some bytes can stand for megabytes."""

MAX_NODES = 1 << 17
"""More aggregators than this are no tree: the biggest machines have some ten thousand hosts."""

RunWord = Literal["continue", "step", "next", "stepi", "nexti", "finish", "until", "advance"]
"""GDB's commands that set a rank running, spelled out."""

_NUMBER_FORMATS = frozenset("xoutzdcf")
"""GDB's format letters that make numbers of pointers; with a, s and i addresses stay addresses."""

FRONT_END = -1
"""Number of the front end as a node of the tree; aggregators count from 0."""


class Message(msgspec.Struct, frozen=True, tag=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all messages."""


Logged = Literal["as it is", "expression", "command", "count"]
"""The way in which a log shows a field of an operation; see :mod:`pgdb.frontend.store.redact`."""


class Operation(msgspec.Struct, frozen=True, tag=True, kw_only=True, forbid_unknown_fields=True):
    """The work that a request asks a rank's debugger for.

    The class variables are properties of the operation, which its fields do not change. They do
    not travel.
    """

    only_reads: ClassVar[bool] = False
    """Whether it changes neither the rank nor its debugger."""
    needs_stopped_rank: ClassVar[bool] = False
    is_urgent: ClassVar[bool] = False
    """Whether it does not wait until earlier operations are complete."""
    is_about_breakpoints: ClassVar[bool] = False
    """Whether it must be repeated for a rank that gets a new debugger."""
    uses_frame: ClassVar[bool] = False
    """Whether the answer depends on the selected frame or thread."""
    keeps_answer: ClassVar[bool] = True
    """Whether the aggregator keeps the answer of each rank, for a :class:`Recall`."""
    outdates_answers: ClassVar[bool] = False
    """Whether earlier answers may be wrong after it."""
    logged: ClassVar[Mapping[str, Logged]] = {}
    """The fields that a log shows, besides numbers."""

    @property
    def sets_running(self) -> bool:
        """Whether it sets the rank running."""
        return False

    @property
    def joins_arguments(self) -> bool:
        """Whether frames whose arguments differ are of one class."""
        return False

    @property
    def asks_for_numbers(self) -> bool:
        """Whether other addresses are other answers."""
        return False


# -- operations ---------------------------------------------------------------------------


class Acquire(Operation, frozen=True, kw_only=True):
    """Start a debugger for the rank and get hold of it; answered with a Stop."""


class Reattach(Operation, frozen=True, kw_only=True):
    """Get hold again of a rank whose debugger is gone or does not answer, or that was let go.

    Answered with a Stop, or with a Text where the rank has a debugger that answers.
    """

    outdates_answers: ClassVar[bool] = True


class Evaluate(Operation, frozen=True, kw_only=True):
    """Print the value of an expression."""

    only_reads: ClassVar[bool] = True
    needs_stopped_rank: ClassVar[bool] = True
    uses_frame: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"expression": "expression", "format": "as it is"}

    expression: str
    format: str = ""
    """GDB's format letters without the slash, e.g. ``x``."""
    raw_pointers: bool = False
    """Whether pointers with other addresses are other values."""

    @property
    def asks_for_numbers(self) -> bool:
        """Whether other addresses are other answers."""
        return self.raw_pointers or any(letter in _NUMBER_FORMATS for letter in self.format)


class Backtrace(Operation, frozen=True, kw_only=True):
    """List the frames of the selected thread."""

    only_reads: ClassVar[bool] = True
    needs_stopped_rank: ClassVar[bool] = True

    limit: int = 0
    """Number of innermost frames, or of outermost when negative; 0 for all."""
    fold: bool = True
    """Fold away what goes on inside an MPI call."""
    split: bool = False
    """Whether ranks with other values of arguments are of another class."""
    threads: bool = False
    """Whether to list all threads; answered with Threads instead of a Stack. With *fold*, those of
    the MPI library itself are left out."""
    offsets: bool = False
    """Whether frames say where in their function they stand."""

    @property
    def joins_arguments(self) -> bool:
        """Whether frames whose arguments differ are of one class."""
        return not self.split


class ReadBlock(Operation, frozen=True, kw_only=True):
    """Read numbers as they stand in memory; answered with a Block."""

    only_reads: ClassVar[bool] = True
    needs_stopped_rank: ClassVar[bool] = True
    uses_frame: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"expression": "expression"}

    expression: str
    """A number or an array of numbers, ``u[0]@1000`` included."""
    start: int = 0
    """Number of elements to pass over."""
    count: int = 0
    """Number of elements to read, 0 for all the rest."""
    limit_bytes: int
    """More than this is not read but answered with a Failure."""


class Reduce(Operation, frozen=True, kw_only=True):
    """Sum up a number, or all elements of an array of numbers, on the way up.

    Answered with Various of the one form that is a hole, whatever the number.
    """

    only_reads: ClassVar[bool] = True
    needs_stopped_rank: ClassVar[bool] = True
    uses_frame: ClassVar[bool] = True
    keeps_answer: ClassVar[bool] = False
    logged: ClassVar[Mapping[str, Logged]] = {"expression": "expression"}

    expression: str
    low: float = 0.0
    """Lower end of a histogram; used where *bins* is not 0."""
    high: float = 0.0
    bins: int = 0
    limit_bytes: int
    """Larger arrays are not read but answered with a Failure."""


class Recall(Operation, frozen=True, kw_only=True):
    """Say again what was said to an earlier request, in full: addresses, every value."""

    only_reads: ClassVar[bool] = True
    uses_frame: ClassVar[bool] = True
    keeps_answer: ClassVar[bool] = False

    request_id: int


class SelectFrame(Operation, frozen=True, kw_only=True):
    """Select another frame; answered with a stack of that one."""

    needs_stopped_rank: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"command": "command"}

    command: str
    """``frame …``, ``up …`` or ``down …``."""

    @property
    def joins_arguments(self) -> bool:
        """Whether frames whose arguments differ are of one class."""
        return True


class ListVariables(Operation, frozen=True, kw_only=True):
    """List variables of the selected frame."""

    only_reads: ClassVar[bool] = True
    needs_stopped_rank: ClassVar[bool] = True
    uses_frame: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"which": "as it is"}

    which: Literal["locals", "arguments"]
    raw_pointers: bool = False
    """Whether pointers with other addresses are other values."""

    @property
    def asks_for_numbers(self) -> bool:
        """Whether other addresses are other answers."""
        return self.raw_pointers


class Console(Operation, frozen=True, kw_only=True):
    """Run one GDB command as it is."""

    uses_frame: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"command": "command"}

    command: str
    run: bool = False
    """Whether the command sets the rank running."""

    @property
    def sets_running(self) -> bool:
        """Whether it sets the rank running."""
        return self.run


class Script(Operation, frozen=True, kw_only=True):
    """Run several lines as one GDB script (``define``, ``python``, ``if`` …)."""

    outdates_answers: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"lines": "count"}

    lines: tuple[str, ...]


class Resume(Operation, frozen=True, kw_only=True):
    """Set the rank running."""

    needs_stopped_rank: ClassVar[bool] = True
    outdates_answers: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"command": "as it is", "argument": "expression"}

    command: RunWord
    argument: str = ""

    @property
    def sets_running(self) -> bool:
        """Whether it sets the rank running."""
        return True


class Interrupt(Operation, frozen=True, kw_only=True):
    """Stop the rank if it runs; answered at once, the stop is an event."""

    is_urgent: ClassVar[bool] = True
    outdates_answers: ClassVar[bool] = True


class InsertBreakpoint(Operation, frozen=True, kw_only=True):
    """Make breakpoints, watchpoints or catchpoints with a GDB command."""

    is_about_breakpoints: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"command": "command"}

    command: str
    """The whole command, e.g. ``tbreak ring.c:10 if x > 3``."""
    first_number: int
    """Job-wide number of the first one made; further ones count on."""


class ChangeBreakpoints(Operation, frozen=True, kw_only=True):
    """Delete, enable, disable … breakpoints by their job-wide numbers."""

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
    """What follows the numbers."""


class BreakpointCommands(Operation, frozen=True, kw_only=True):
    """Attach GDB commands to breakpoints."""

    is_about_breakpoints: ClassVar[bool] = True
    logged: ClassVar[Mapping[str, Logged]] = {"numbers": "as it is", "commands": "count"}

    numbers: tuple[str, ...]
    commands: tuple[str, ...]


class ListBreakpoints(Operation, frozen=True, kw_only=True):
    """List the job-wide breakpoints of the rank."""

    only_reads: ClassVar[bool] = True


class Detach(Operation, frozen=True, kw_only=True):
    """Take everything of ours out of the rank and let it run on free."""

    outdates_answers: ClassVar[bool] = True


class Kill(Operation, frozen=True, kw_only=True):
    """End the rank's process."""

    is_urgent: ClassVar[bool] = True
    outdates_answers: ClassVar[bool] = True


AnyOperation = (
    Acquire
    | Reattach
    | Evaluate
    | Backtrace
    | SelectFrame
    | ListVariables
    | ReadBlock
    | Reduce
    | Recall
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


RecordedOperation = (
    Evaluate
    | Backtrace
    | SelectFrame
    | ListVariables
    | ReadBlock
    | Reduce
    | Recall
    | Console
    | ListBreakpoints
)
"""The operations whose answers a recording keeps, unless they set the rank running."""


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
    names: tuple[str, ...] = ()
    """What launchers may call its host by: names, then addresses."""
    address: str = ""
    """``host:port`` at which this node listens."""
    wants_table: bool = False
    """Whether it only asks the front end for the :class:`Table`, before it has a parent."""
    generation: int = 0
    """How often its place has been filled anew: the last that took it has it."""
    joins: int = 0
    """How many parents it has had, this one included: of two words on where it hangs, the one of
    the later parent is true."""
    parent: int = FRONT_END
    """Who that is, as it says itself in handing this on."""
    below: tuple[bytes, ...] = ()
    """The packed hellos of the nodes that hang on it now, for its new parent."""
    is_set_up: bool = False
    """Whether it has been told of its ranks, and to take hold of them."""

    def pack(self) -> bytes:
        """Return it as it is kept and handed on: of 8,192 nodes it would take megabytes else."""
        alone = msgspec.structs.replace(self, below=())
        return msgspec.msgpack.encode(msgspec.structs.astuple(alone))

    @classmethod
    def unpack(cls, data: bytes) -> Hello:
        """Return what was packed.

        :raises ProtocolError: if it is none.
        """
        try:
            values = _HELLO_VALUES.decode(data)
            return msgspec.convert(dict(zip(cls.__struct_fields__, values, strict=True)), cls)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise ProtocolError(f"no hello ({error}): {data[:40]!r}") from None


class Table(Message, frozen=True, kw_only=True):
    """A node's place in the tree, for the wire-up without MPI or from a front end that calls.

    From a front end that listens it answers a :class:`Hello`. Where the front end can only call,
    it is the first message on the link to node 0, and nodes hand it on to their children.
    """

    node: int
    """The receiver's number from now on."""
    count: int
    fan_out: int
    addresses: tuple[str, ...]
    """``host:port`` of all nodes, by number; empty where MPI has told them."""
    is_parent: bool = False
    """Whether the link that it came by is the one to the receiver's parent."""
    generation: int = 0
    """To be said in every :class:`Hello`."""

    def __post_init__(self) -> None:
        # Whoever has it computes with it: a tree of 2 ** 60 nodes would take for ever.
        if not 0 <= self.node < self.count <= MAX_NODES or self.fan_out < 1:
            raise ValueError("no place in a tree")
        if 0 < len(self.addresses) < self.count:
            raise ValueError("not an address for each node")


class Joined(Message, frozen=True, kw_only=True):
    """Nodes that have joined the tree; travels up to the front end."""

    nodes: tuple[bytes, ...]
    """Their packed hellos."""


class Find(Message, frozen=True, kw_only=True):
    """Look for ranks of the job on your host; every node answers with a :class:`Found`."""

    mark: str = ""
    """At a launch: the mark that held ranks carry; answered when all of the host are held."""
    selector: str = ""
    """What finds the ranks of a running job, see :mod:`pgdb.jobs.environment_scan`."""
    shares: tuple[int, ...] = ()
    """For each node, which share of its host's ranks it takes."""
    shares_per_host: int = 1


class FoundRanks(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Ranks of one job on one host."""

    job: str
    """What tells the job from others that were found; empty for held ranks."""
    size: int
    """Ranks in MPI_COMM_WORLD, 0 where nothing tells."""
    ranks: RankSet
    pids: tuple[int, ...]
    """Process of each rank, in order."""
    executable: str = ""
    """What the first of them executes."""


class Found(Message, frozen=True, kw_only=True):
    """What one node has found on its host."""

    node: int
    jobs: tuple[FoundRanks, ...]


class Share(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The ranks of one aggregator."""

    node: int
    packed_ranks: bytes
    """MessagePack of what they are sent as, which is smaller than a set: every node above has those
    of all below."""
    packed_pids: bytes = b""
    """Process of each rank, in order, as MessagePack of the first and of the steps from one to the
    next, which are mostly small."""

    @classmethod
    def of(cls, node: int, ranks: RankSet, pids: Sequence[int] = ()) -> Share:
        """Return the share of *node*: *ranks*, and the process of each in order."""
        steps = [pid - before for pid, before in zip(pids, (0, *pids), strict=False)]
        packed_pids = msgspec.msgpack.encode(steps) if steps else b""
        packed_ranks = msgspec.msgpack.encode(pack(ranks))
        return cls(node=node, packed_ranks=packed_ranks, packed_pids=packed_pids)

    @property
    def ranks(self) -> RankSet:
        """Ranks of the node; made anew each time.

        :raises ProtocolError: if they are none, which is so in no message that was decoded.
        """
        try:
            return unpack(msgspec.msgpack.decode(self.packed_ranks))
        except msgspec.DecodeError as error:
            raise ProtocolError(f"node {self.node}'s ranks: {error}") from None

    @property
    def pids(self) -> tuple[int, ...]:
        """Process of each rank, in order; none at nodes that only hand requests on.

        :raises ProtocolError: if there are others than one for each rank.
        """
        if not self.packed_pids:
            return ()
        try:
            steps = _STEPS.decode(self.packed_pids)
        except msgspec.DecodeError as error:
            raise ProtocolError(f"node {self.node}'s processes: {error}") from None
        pids = tuple(itertools.accumulate(steps))
        if len(pids) != len(self.ranks):
            raise ProtocolError(f"node {self.node}'s ranks and processes are not as many")
        if pids and not 0 <= min(pids) <= max(pids) < 1 << 32:
            raise ProtocolError(f"node {self.node}'s processes have no such numbers")
        return pids


_STEPS = msgspec.msgpack.Decoder(list[int])


class Deploy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the files of the ranks come to the hosts (``--sbd``)."""

    cache: str
    """Directory of the cache on every host, with ``%h`` for its name; empty for the default."""
    max_bytes: int
    """Most that the cache of one host holds."""
    max_age_s: float
    """What was not used for so long is removed."""
    wait_s: float
    """How long a rank waits for its files before its GDB reads them by itself."""


class Setup(Message, frozen=True, kw_only=True):
    """Who debugs what; travels down to every node."""

    shares: tuple[Share, ...]
    is_held: bool = False
    """Whether the ranks wait in the hold program, before their own."""
    gdb: str
    """The GDB to run: a path, or a name to be looked for on each host."""
    gdb_version: str = ""
    """What the front end takes that to be; empty if it does not know."""
    gdb_commands: tuple[str, ...] = ()
    """GDB commands to run in every GDB before it attaches."""
    program: str = ""
    """Base name of the program to stop in, where wrappers come before it."""
    nursery: bool = True
    """Whether GDBs may be forked from one that has read the symbols."""
    guard: bool = False
    """Whether ranks are to survive the end of their GDB at any breakpoint."""
    event_window_s: float = 0.02
    deploy: Deploy | None = None
    """None where every GDB reads the files by itself."""


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


class Notice(Message, frozen=True, kw_only=True):
    """What the user should know of how aggregators work, such as that they do so more slowly."""

    text: str
    hosts: tuple[str, ...]
    """Where it is so."""


class FileKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What names a file on all hosts."""

    build_id: str
    """In hexadecimal digits."""
    kind: Literal["object", "debug"] = "object"
    """The object itself, or the file with what was stripped from it."""


class WantedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file that a node asks for."""

    key: FileKey
    path: str
    """Where the object is on the host that runs it."""


class FileIs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What there is of a file."""

    key: FileKey
    size_bytes: int
    """-1 where nobody has it."""
    mtime_ns: int = 0
    why: str = ""
    """Why nobody has it."""


class WantFiles(Message, frozen=True, kw_only=True):
    """Ask where files are to be had; answered with :class:`FilesAre`.

    On its way down it makes the one who asked first the source of them.
    """

    files: tuple[WantedFile, ...]


class FilesAre(Message, frozen=True, kw_only=True):
    """Say what there is of files; the sender can be asked for their parts."""

    files: tuple[FileIs, ...]


class WantPart(Message, frozen=True, kw_only=True):
    """Ask for one part of a file; answered with a :class:`FilePart`, or with FilesAre if it has
    gone."""

    key: FileKey
    offset: int


class FilePart(Message, frozen=True, kw_only=True):
    """One part of a file."""

    key: FileKey
    offset: int
    data: bytes
    """Compressed by zlib."""
    digest: bytes = b""
    """With the last part: SHA-256 of the whole file."""


class Delivered(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one node has had to do with files so far; all are counts."""

    node: int
    host: str
    wanted_files: int = 0
    """Files that its own ranks need."""
    cached_files: int = 0
    """Of these, what its cache had already."""
    received_files: int = 0
    received_bytes: int = 0
    """As they came over the link, compressed."""
    resumed_bytes: int = 0
    """What interrupted transfers had brought before."""
    sent_parts: int = 0
    sent_bytes: int = 0
    read_files: int = 0
    """Files that it has read where they come from, for all."""
    read_bytes: int = 0
    missing_files: int = 0
    """What its GDBs had to read by themselves."""


class Deliveries(Message, frozen=True, kw_only=True):
    """How the files come along; travels up to the front end, each node's latest."""

    nodes: tuple[Delivered, ...]


class Announce(Message, frozen=True, kw_only=True):
    """What the ranks of a node that found a new parent are doing; taken as the truth.

    On its way down, where it is empty, it asks for that.
    """

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
    | Find
    | Found
    | Setup
    | Request
    | Reply
    | Events
    | Lost
    | Notice
    | WantFiles
    | FilesAre
    | WantPart
    | FilePart
    | Deliveries
    | Announce
    | Shutdown
    | Heartbeat
)


def _encode_hook(value: Any) -> Any:
    if isinstance(value, RankSet):
        return pack(value)
    raise TypeError(f"no wire form for {type(value).__name__}")


def _decode_hook(kind: type, value: Any) -> Any:
    if kind is not RankSet:
        raise TypeError(f"no wire form for {kind.__name__}")
    ranks = unpack(value)
    if isinstance(value, str) and len(value) < _FEW_LETTERS and "-" not in value:
        return ranks  # one rank or a few: those that there are by the thousand
    _ROOM.left_bytes -= ranks.size_bytes
    if _ROOM.left_bytes < 0:
        raise ProtocolError("its rank sets are too large")
    return ranks


_FEW_LETTERS = 12


class _Room(threading.local):
    """What the rank sets of the message that is being decoded may take."""

    left_bytes = 0


_ROOM = _Room()
_HELLO_VALUES = msgspec.msgpack.Decoder(list)
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


def decode(data: bytes | bytearray) -> AnyMessage:
    """Return the message in *data*.

    :raises ProtocolError: if *data* is no valid message; its start is quoted.
    """
    _ROOM.left_bytes = MAX_SETS_BYTES
    try:
        message = _DECODER.decode(data)
        if isinstance(message, Setup):
            for share in message.shares:
                _decode_hook(RankSet, msgspec.msgpack.decode(share.packed_ranks))
        return message
    except (
        msgspec.DecodeError,
        ProtocolError,
        RankSetError,
        ValueError,
        RecursionError,
    ) as error:
        why = " ".join(str(error).split())  # it quotes what came, line ends and all
        raise ProtocolError(f"no valid message ({why}): {bytes(data[:40])!r}") from None
