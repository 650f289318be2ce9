"""All messages of the overlay, as tagged, immutable structs.

Operations stand in ``operations.py``; ``message_codec.py`` encodes messages.
"""

import itertools
from collections.abc import Sequence
from typing import Literal

import msgspec

from pgdb.cores.search import CoreSearch, HostCores
from pgdb.errors import ProtocolError
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.graph import AnswerGraph
from pgdb.merge.rankset_codec import pack, unpack
from pgdb.overlay.breakpoint_operations import (
    AdvanceBreakpoints,
    BreakpointCommands,
    BreakpointKind,
    ChangeBreakpoints,
    InsertBreakpoint,
    ListBreakpoints,
)
from pgdb.overlay.core_setup import CoreSetup
from pgdb.overlay.operation import Logged, Operation
from pgdb.overlay.operations import (
    Acquire,
    AnyOperation,
    Backtrace,
    Console,
    Detach,
    Evaluate,
    Explore,
    Interrupt,
    Kill,
    ListMpiCalls,
    ListRecordedCalls,
    ListVariables,
    MachineQuery,
    ReadBlock,
    Reattach,
    Recall,
    RecordedOperation,
    Reduce,
    Resume,
    RunWord,
    Script,
    SelectFrame,
)
from pgdb.ranks import RankSet
from pgdb.records import Event

__all__ = [
    "FRONT_END",
    "MAX_NODES",
    "PROTOCOL_VERSION",
    "Acquire",
    "AdvanceBreakpoints",
    "Announce",
    "AnyMessage",
    "AnyOperation",
    "Backtrace",
    "BreakpointCommands",
    "BreakpointKind",
    "ChangeBreakpoints",
    "Console",
    "Delivered",
    "Deliveries",
    "Deploy",
    "Detach",
    "Evaluate",
    "Events",
    "Explore",
    "FileIs",
    "FileKey",
    "FilePart",
    "FilesAre",
    "Find",
    "Found",
    "FoundRanks",
    "Heartbeat",
    "Hello",
    "InsertBreakpoint",
    "Interrupt",
    "Joined",
    "Kill",
    "ListBreakpoints",
    "ListMpiCalls",
    "ListRecordedCalls",
    "ListVariables",
    "Logged",
    "Lost",
    "MachineQuery",
    "Message",
    "Notice",
    "Operation",
    "ReadBlock",
    "Reattach",
    "Recall",
    "RecordedOperation",
    "Reduce",
    "Reply",
    "Request",
    "Resume",
    "RunWord",
    "Script",
    "SelectFrame",
    "Setup",
    "Share",
    "Shutdown",
    "Table",
    "WantFiles",
    "WantPart",
    "WantedFile",
]

PROTOCOL_VERSION = 1
MAX_NODES = 1 << 17
"""Most aggregators of a tree: the biggest machines have some ten thousand hosts."""

FRONT_END = -1
"""Number of the front end as a node of the tree; aggregators count from 0."""


class Message(msgspec.Struct, frozen=True, tag=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all messages."""


class Hello(Message, frozen=True, kw_only=True):
    """The first message of a node to its parent, at the start or after the loss of another one."""

    version: int
    """PROTOCOL_VERSION of the sender."""
    release: str
    """Version of PGDB and of Python, for the message that they differ."""
    node: int
    host: str
    pid: int
    names: tuple[str, ...] = ()
    """Names that launchers may use for its host: names, then addresses."""
    address: str = ""
    """``host:port`` at which this node listens."""
    wants_table: bool = False
    """Whether it only requests the :class:`Table` from the front end, before it has a parent."""
    generation: int = 0
    """Number of times that its place was filled again; the highest generation holds the place."""
    joins: int = 0
    """Number of parents it has had, this one included. The one with the higher number holds of
    two messages about its place."""
    parent: int = FRONT_END
    """Number of the parent, which sets it when it forwards this message."""
    below: tuple[bytes, ...] = ()
    """The packed hellos of the nodes below it, for its new parent."""
    is_set_up: bool = False
    """Whether it knows its ranks, and was asked to attach to them."""

    def pack(self) -> bytes:
        """Return the packed hello; nodes keep and forward it so, since 8,192 of them would take
        megabytes."""
        alone = msgspec.structs.replace(self, below=())
        return msgspec.msgpack.encode(msgspec.structs.astuple(alone))

    @classmethod
    def unpack(cls, data: bytes) -> "Hello":
        """Return the hello that :meth:`pack` packed.

        :raises ProtocolError: if *data* is not a hello.
        """
        try:
            values = _HELLO_VALUES.decode(data)
            return msgspec.convert(dict(zip(cls.__struct_fields__, values, strict=True)), cls)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise ProtocolError(f"no hello ({error}): {data[:40]!r}") from None


class Table(Message, frozen=True, kw_only=True):
    """A node's place in the tree, for the wire-up without MPI or from a front end that calls.

    A front end that listens answers a :class:`Hello` with it. If the front end can only call, it is
    the first message on the link to node 0, and nodes forward it to their children.
    """

    node: int
    """The receiver's number from now on."""
    count: int
    fan_out: int
    addresses: tuple[str, ...]
    """``host:port`` of all nodes, by number; empty if MPI has distributed them."""
    is_parent: bool = False
    """Whether it arrived over the link to the receiver's parent."""
    generation: int = 0
    """The generation for every :class:`Hello` of the receiver."""

    def __post_init__(self) -> None:
        # The receiver computes with these numbers: a tree of 2 ** 60 nodes would take for ever.
        if not 0 <= self.node < self.count <= MAX_NODES or self.fan_out < 1:
            raise ValueError("no place in a tree")
        if 0 < len(self.addresses) < self.count:
            raise ValueError("not an address for each node")


class Joined(Message, frozen=True, kw_only=True):
    """Nodes that have joined the tree; travels up to the front end."""

    nodes: tuple[bytes, ...]
    """Packed hellos of the nodes."""


class Find(Message, frozen=True, kw_only=True):
    """Order to find ranks of the job on the receiver's host; each node answers with a ``Found``."""

    mark: str = ""
    """At a launch: the mark of held ranks; the node answers once all ranks of the host are held."""
    selector: str = ""
    """Selector of the ranks of a running job, see :mod:`pgdb.jobs.environment_scan`."""
    shares: tuple[int, ...] = ()
    """For each node the number of its share of its host's ranks."""
    shares_per_host: int = 1
    cores: CoreSearch | None = None
    """Core files to search for in place of ranks."""


class FoundRanks(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Ranks of one job on one host."""

    job: str
    """Key that distinguishes the job from others on the host; empty for held ranks."""
    size: int
    """Number of ranks in MPI_COMM_WORLD, 0 if unknown."""
    ranks: RankSet
    pids: tuple[int, ...]
    """Process of each rank, in order."""
    executable: str = ""
    """Executable of the first of them."""


class Found(Message, frozen=True, kw_only=True):
    """The ranks that one node has found on its host."""

    node: int
    jobs: tuple[FoundRanks, ...] = ()
    cores: HostCores | None = None


class Share(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The ranks of one aggregator."""

    node: int
    packed_ranks: bytes
    """The encoded ranks in MessagePack. They are smaller than a set: every node above has the ranks
    of all nodes below."""
    packed_pids: bytes = b""
    """The process ids in the order of the ranks, in MessagePack: the first, and the differences
    from one to the next, which are mostly small."""

    @classmethod
    def of(cls, node: int, ranks: RankSet, pids: Sequence[int] = ()) -> "Share":
        """Return the share of *node*: *ranks*, and the process of each in order."""
        steps = [pid - before for pid, before in zip(pids, (0, *pids), strict=False)]
        packed_pids = msgspec.msgpack.encode(steps) if steps else b""
        packed_ranks = msgspec.msgpack.encode(pack(ranks))
        return cls(node=node, packed_ranks=packed_ranks, packed_pids=packed_pids)

    @property
    def ranks(self) -> RankSet:
        """Ranks of the node, decoded anew each time.

        :raises ProtocolError: if they are invalid; they are not in a message that was decoded.
        """
        try:
            return unpack(msgspec.msgpack.decode(self.packed_ranks))
        except msgspec.DecodeError as error:
            raise ProtocolError(f"node {self.node}'s ranks: {error}") from None

    @property
    def pids(self) -> tuple[int, ...]:
        """Process of each rank, in order; empty at nodes that only forward requests.

        :raises ProtocolError: if there is not one process for each rank.
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
_HELLO_VALUES = msgspec.msgpack.Decoder(list)


class Deploy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings for delivering the files of the ranks to the hosts (``--sbd``)."""

    cache: str
    """Directory of the cache on every host, with ``%h`` for its name; empty for the default."""
    max_bytes: int
    """Most bytes in the cache of one host."""
    max_age_s: float
    """Seconds without use after which a file is removed."""
    wait_s: float
    """Seconds that a rank waits for its files before its GDB reads them by itself."""


class Setup(Message, frozen=True, kw_only=True):
    """The ranks of each node and the settings of a session; travels down to every node."""

    shares: tuple[Share, ...]
    is_held: bool = False
    """Whether the ranks wait in the hold program, before their own."""
    gdb: str
    """The GDB to run: a path, or a name to look up on each host."""
    gdb_version: str = ""
    """Version of that GDB on the front end's host; empty if unknown."""
    gdb_commands: tuple[str, ...] = ()
    """GDB commands to run in every GDB before it attaches."""
    program: str = ""
    """Base name of the program in which ranks stop first, if wrappers start it."""
    nursery: bool = True
    """Whether GDBs may be forked from one that has read the symbols."""
    guard: bool = False
    """Whether ranks survive the end of their GDB at any breakpoint."""
    event_window_s: float = 0.02
    deploy: Deploy | None = None
    """None if every GDB reads the files by itself."""
    cores: CoreSetup | None = None
    """The core files that the ranks are; None for processes."""


class Request(Message, frozen=True, kw_only=True):
    """A request to some ranks to carry out an operation."""

    request_id: int
    ranks: RankSet
    operation: AnyOperation
    timeout_s: float
    """Seconds until a leaf answers for a GDB that is silent."""
    of_ended: bool = False
    """Whether the ranks have ended: their debuggers answer without a process."""


class Reply(Message, frozen=True, kw_only=True):
    """The merged answers of some ranks to a request."""

    request_id: int
    graph: AnswerGraph
    late: bool = False
    """Whether these are further answers for the same request, after the deadline's reply."""


class Events(Message, frozen=True, kw_only=True):
    """Events that ranks reported, merged over a short window."""

    classes: tuple[EquivalenceClass[Event], ...]


class Lost(Message, frozen=True, kw_only=True):
    """Lost nodes, and the ranks lost with them, for now or for good."""

    nodes: tuple[int, ...]
    ranks: RankSet
    why: str


class Notice(Message, frozen=True, kw_only=True):
    """A notice for the user about the aggregators, such as that they work more slowly."""

    text: str
    hosts: tuple[str, ...]
    """The hosts that the notice is about."""


class FileKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The identity of a file on all hosts."""

    build_id: str
    """The build-id in hexadecimal digits."""
    kind: Literal["object", "debug"] = "object"
    """``object`` for the object itself, ``debug`` for the file with the symbols stripped from it.
    """


class WantedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file that a node requests."""

    key: FileKey
    path: str
    """Path of the object on the host that runs it."""


class FileIs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Size and version of a file, or the reason why there is none."""

    key: FileKey
    size_bytes: int
    """Size in bytes; -1 if no node has the file."""
    mtime_ns: int = 0
    why: str = ""
    """Reason why no node has it."""


class WantFiles(Message, frozen=True, kw_only=True):
    """A request for files; answered with :class:`FilesAre`.

    From a parent it makes the receiver find a source among the nodes that asked, the first one
    first.
    """

    files: tuple[WantedFile, ...]


class FilesAre(Message, frozen=True, kw_only=True):
    """The state of files; the sender can send their parts."""

    files: tuple[FileIs, ...]


class WantPart(Message, frozen=True, kw_only=True):
    """A request for one part of a file; answered with a :class:`FilePart`, or with FilesAre if the
    file is gone."""

    key: FileKey
    offset: int


class FilePart(Message, frozen=True, kw_only=True):
    """One part of a file."""

    key: FileKey
    offset: int
    data: bytes
    """The bytes, compressed by zlib."""
    digest: bytes = b""
    """SHA-256 of the whole file, in the last part only."""


class Delivered(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Counts of one node's work with files so far."""

    node: int
    host: str
    wanted_files: int = 0
    """Files that its own ranks need."""
    cached_files: int = 0
    """The number of these that its cache had already."""
    received_files: int = 0
    received_bytes: int = 0
    """Compressed bytes that arrived over the link."""
    resumed_bytes: int = 0
    """Bytes that interrupted transfers had left."""
    sent_parts: int = 0
    sent_bytes: int = 0
    read_files: int = 0
    """Files that it has read at their source, for all nodes."""
    read_bytes: int = 0
    missing_files: int = 0
    """Files that its GDBs read by themselves."""


class Deliveries(Message, frozen=True, kw_only=True):
    """The latest counts of each node for the front end."""

    nodes: tuple[Delivered, ...]


class Announce(Message, frozen=True, kw_only=True):
    """The current state of the ranks of a node with a new parent; it replaces earlier states.

    An empty one from the parent requests that state.
    """

    nodes: tuple[int, ...]
    classes: tuple[EquivalenceClass[Event], ...]


class Shutdown(Message, frozen=True, kw_only=True):
    """The order to detach what is still attached, and to leave."""


class Heartbeat(Message, frozen=True, kw_only=True):
    """A sign of life without content."""


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
