"""The MPI calls that a rank has not returned from, with their arguments.

Ranks are those of the rank's own ``MPI_COMM_WORLD``, whatever communicator a call has. A field that
no source gives is None: nothing here is guessed. No field has an address or a handle, so that ranks
in equal calls have equal records.
"""

from typing import Final, Literal

from pgdb.record_base import Struct

ANY_SOURCE: Final = "MPI_ANY_SOURCE"
ANY_TAG: Final = "MPI_ANY_TAG"
PROC_NULL: Final = "MPI_PROC_NULL"
ROOT: Final = "MPI_ROOT"
"""In the group of the root of an intercommunicator: the calling rank is the root."""

MOST_ARRIVED: Final = 4
"""Most messages of one communicator that a rank lists as arrived; there may be further ones. They
make ranks differ, and one is mostly enough."""

ELSEWHERE: Final = "?"
"""The members of a communicator that belong to another world: MPI_Comm_spawn, or a connection,
has made it."""
Peer = int | Literal["MPI_ANY_SOURCE", "MPI_PROC_NULL", "MPI_ROOT"]
"""A rank in ``MPI_COMM_WORLD``, or one of MPI's values that stand for no single rank."""
Tag = int | Literal["MPI_ANY_TAG"]

CallState = Literal["in_call", "outside", "before_init", "after_finalize", "no_mpi", "unknown"]
"""The state of a rank towards MPI: in a call; between two calls; MPI_Init not begun;
MPI_Finalize returned; a program without MPI; not known."""

Activity = Literal[
    "", "computing", "sleeping", "io", "lock", "deadlock", "thread", "python", "dying", "exiting"
]
"""The work of a rank outside MPI, as far as its innermost frames and the kernel say it. Threads in
a ``deadlock`` wait for a lock that they hold themselves, together or alone; ``thread`` is a wait
for another thread."""

Loop = Literal["", "no way out", "spins"]
"""The loop in which a rank is: no path through its code leads out of it; it comes back to the same
state, so that only another thread or process can end it; empty if nothing is proven."""

CallKind = Literal[
    "send",
    "recv",
    "sendrecv",
    "wait",
    "test",
    "probe",
    "start",
    "collective",
    "rma",
    "comm",
    "file",
    "init",
    "finalize",
    "other",
]
"""The kind of a call: ``comm`` makes or frees communicators, collectively; ``start`` starts
persistent or partitioned requests; ``rma`` has a window, ``file`` a file."""

RequestKind = Literal[
    "send",
    "recv",
    "persistent send",
    "persistent recv",
    "partitioned send",
    "partitioned recv",
    "collective",
    "persistent collective",
    "rma",
    "file",
    "generalized",
    "null",
]
SENDS: Final = frozenset({"send", "persistent send", "partitioned send"})
"""The kinds of requests that send a message."""
RECEIVES: Final = frozenset({"recv", "persistent recv", "partitioned recv"})
"""The kinds of requests that receive a message."""

ArgumentSource = Literal[
    "recorder",
    "caller code",
    "callee code",
    "request",
    "debug information",
    "source line",
    "name",
]
"""The source of a value: the recorder of MPI calls; data flow through the machine code of the
caller, or of the MPI function; the request that the call itself has made; DWARF's parameters of
call sites; the source line, evaluated in the caller's frame; the name of the function."""


class CallSite(Struct, frozen=True):
    """A place in the user's code."""

    function: str = ""
    """Name of the function; empty if it is unknown."""
    file: str = ""
    """Source file as the compiler recorded it; empty without line information."""
    line: int = 0
    """Line number from 1 on; 0 without line information."""
    fullname: str = ""
    library: str = ""
    """Object file, if there is no line information."""


class Communicator(Struct, frozen=True):
    """A communicator as far as one rank knows it."""

    name: str = ""
    """Name, MPI's or the user's; empty if there is none."""
    members: str | None = None
    """World ranks of its (local) group as the text of a rank set, such as ``0-3,8``."""
    remote: str = ""
    """World ranks of the remote group of an intercommunicator; empty for any other. It is
    :data:`ELSEWHERE` where processes of another world, which have no rank in this one, are
    members."""
    identity: str = ""
    """A text that is equal on all members and for no other communicator of them; empty if it is
    unknown."""
    collectives: int | None = None
    """Number of collective calls begun on it, from the recorder."""


class Group(Struct, frozen=True):
    """A window, an open file, or a group of processes."""

    name: str = ""
    """Name of the window or of the file; empty if it has none, or if it is unknown."""
    members: str | None = None
    """World ranks of its group as the text of a rank set."""
    identity: str = ""
    """A text that is equal on all members and for no other window of them; empty if it is unknown,
    and for a file or a group."""


class Request(Struct, frozen=True):
    """A request that a call waits for, tests or starts."""

    kind: RequestKind | None = None
    communicator: Communicator | None = None
    peer: Peer | None = None
    tag: Tag | None = None
    count: int | None = None
    complete: bool | None = None
    neighbours: str | None = None
    """Of a collective request whose communicator has a topology: see :attr:`MpiCall.neighbours`."""


class ArrivedMessage(Struct, frozen=True):
    """A message that has come to a rank, and that no receive of the rank has taken."""

    source: Peer | None
    tag: Tag | None
    """The tag; None for a message of a collective call."""
    communicator: Communicator | None = None
    function: str = ""
    """The collective call that has sent it; empty for the message of a send."""


class FieldSource(Struct, frozen=True):
    """The source of one field of a call."""

    field: str
    """Name of the field of :class:`MpiCall`."""
    source: ArgumentSource


class Word(Struct, frozen=True):
    """An argument of a call as the source line has it, such as ``h.nbr[1]``."""

    argument: str
    """Name of the argument in the MPI standard, such as ``dest``."""
    text: str


class MpiCall(Struct, frozen=True):
    """One call of MPI."""

    function: str
    """Name in the MPI standard, such as ``MPI_Recv``; of a call of torch.distributed its name
    there, such as ``all_reduce``."""
    kind: CallKind = "other"
    blocking: bool | None = None
    """Whether the call returns only after other ranks have done their part. A send is blocking,
    though a small one may return early."""
    where: CallSite | None = None
    """Place of the call, if it is another than that of the status: a call of another thread."""
    thread: str = ""
    """GDB's number of the thread, for calls of threads other than the first."""
    communicator: Communicator | None = None
    dest: Peer | None = None
    source: Peer | None = None
    tag: Tag | None = None
    """Tag of the message; for a call that sends and receives, that of the message sent."""
    receive_tag: Tag | None = None
    """Tag of the message received, for a call that sends and receives."""
    root: Peer | None = None
    operation: str | None = None
    """Name of a predefined reduction, such as ``MPI_SUM``."""
    count: int | None = None
    receive_count: int | None = None
    """Count of elements received, for a call with two counts."""
    datatype: str | None = None
    """Name of the datatype, such as ``MPI_DOUBLE``."""
    window: Group | None = None
    displacement: int | None = None
    """The place in the part of the window that :attr:`dest` has, in units of the window."""
    file_handle: Group | None = None
    group: Group | None = None
    """The group that MPI_Comm_create_group, MPI_Win_start or MPI_Win_post names."""
    requests: tuple[Request, ...] = ()
    """The requests in their order; all are the same kind of *wait* with :attr:`waits_for`."""
    neighbours: str | None = None
    """World ranks of the neighbours whose part a neighbourhood call waits for, as the text of a
    rank set; None for any other call, and where they are unknown."""
    awaits: str | None = None
    """World ranks whose part a call that gathers still receives, as the text of a rank set; None
    for any other call, and where they are unknown."""
    came: str | None = None
    """World ranks whose part of a call that gathers has come, though not all have, as the text of a
    rank set; some of them at least. None for any other call, and where they are unknown."""
    part_of: str = ""
    """The operation of mpi4py whose part the call is, such as ``Comm.allreduce``; empty for a call
    that the program makes itself."""
    waits_for: Literal["", "all", "any", "some"] = ""
    """The requests that end the call, of one that waits for requests or tests them."""
    words: tuple[Word, ...] = ()
    sources: tuple[FieldSource, ...] = ()
    """The source of each known field, in the order of the fields."""

    @property
    def peer(self) -> Peer | None:
        """The one rank that the call sends to or receives from; None if none or two are known."""
        if self.dest is None or self.source is None:
            return self.dest if self.source is None else self.source
        return self.dest if self.dest == self.source else None

    def source_of(self, field: str) -> ArgumentSource | None:
        """Return the source of the field *field*, None if the field is unknown."""
        return next((each.source for each in self.sources if each.field == field), None)


MOST_RECENT: Final = 63
"""Most calls of a thread that can be read from the recorder of MPI calls."""


class RecordedCall(Struct, frozen=True):
    """A call that the recorder of MPI calls of a rank keeps."""

    call: MpiCall
    began_s: float
    """Time at which the first call of the thread in the same second began, in seconds since 1970
    (UTC): this call began then, or later in that second."""
    returned: bool = True
    thread: int = 1
    """Number of the thread: 1 for the first one that called MPI."""


class ChildWork(Struct, frozen=True):
    """The work of child processes of a rank that waits for one."""

    program: str
    """Name of the program."""
    count: int = 1
    """Child processes with this work."""
    state: Literal["", "idle", "stopped"] = ""
    """``idle`` for workers of Python that wait for a job, ``stopped`` after a signal."""
    activity: Activity = ""
    """Empty if it is unknown; ``exiting`` for a process that has ended."""
    inside: str = ""
    """Function of a library in which it blocks, if its code has called it."""
    where: CallSite | None = None
    """Innermost place of the user's code, of a process of Python."""
    frames: tuple[str, ...] = ()
    """Functions of Python, outermost first."""


class MpiCallStatus(Struct, frozen=True, tag="mpi-calls"):
    """The calls of MPI that a stopped rank has not returned from."""

    state: CallState
    where: CallSite | None = None
    """Place of the call in the user's code; outside MPI the innermost place with a source line."""
    activity: Activity = ""
    thread: str = ""
    """GDB's number of the thread of *where* and *activity*, if the first thread waits for this one
    to end, or for a lock that it holds."""
    inside: str = ""
    """Function of a library in which a rank outside MPI blocks, such as ``accept`` or
    ``queue.Queue.get``, if the user's code has called it."""
    children: tuple[ChildWork, ...] = ()
    """Child processes of a rank outside MPI that waits for one, the busy ones first."""
    calls: tuple[MpiCall, ...] = ()
    """A call for each thread that is in one, the main thread's first."""
    note: str = ""
    """The reason why arguments are unknown, if there is one for all of them."""
    moved: bool | None = None
    """Whether the rank has begun a call since the look before, as its recorder says; None where no
    recorder was asked so, and at the first look."""
    recent: tuple[RecordedCall, ...] = ()
    """The last calls of each thread, from the recorder, if they were asked for; oldest first."""
    worked: bool | None = None
    """Whether the process, or one that it has started, used the processor since the look before;
    None at the first look, and for ranks that do not block outside MPI."""
    sleeps_s: int | None = None
    """Least length of the sleep of a rank that sleeps, in seconds: 0, 1, 10, 60, 600, 3600 or
    86400; None if it is unknown."""
    waits_on: str = ""
    """The object of the kernel on which the input or output of a rank outside MPI waits, such as
    ``its standard input, a pipe``; empty if it is unknown."""
    is_confined: bool = False
    """Whether a rank outside MPI runs under strict seccomp."""
    loop: Loop = ""
    """The loop of a rank outside MPI, if loops were looked for."""
    callback_of: MpiCall | None = None
    """The call of MPI that has called the user's function in which a rank outside MPI is, such as
    a reduction."""
    arrived: tuple[ArrivedMessage, ...] = ()
    """The messages that no receive has taken, of a rank that waits for a message or in a collective
    call, if they were asked for; the oldest ones of each communicator that is known."""

    @property
    def call(self) -> MpiCall | None:
        """The first call, None if the rank is in none."""
        return self.calls[0] if self.calls else None
