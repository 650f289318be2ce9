"""The file of a recording: a line of text that names its format, then packed MessagePack.

It is decoded strictly and never executed: a file from a colleague is data. Its size is checked
before it is unpacked, and its unpacked size before it is decoded.
"""

from __future__ import annotations

import contextlib
import resource
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from pgdb.errors import CommandError, ProtocolError, RankSetError, one_line
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.saved import Saved
from pgdb.frontend.store.recorder import Change, Exchange, WorkspaceState
from pgdb.frontend.system.user_files import read_regular, reason, write_atomically
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.graph import AnswerGraph, from_graph, to_graph
from pgdb.merge.rankset_codec import pack, unpack
from pgdb.overlay.messages import Delivered, RecordedOperation
from pgdb.patterns import pattern
from pgdb.proctable import ProcTable, RankProcess, SessionMode
from pgdb.ranks import RankSet, SetsRoom
from pgdb.records import Event
from pgdb.regular_files import open_regular
from pgdb.sizes import size_text, whole_size

VERSION = 1
MAX_FILE_BYTES = 64 << 20
"""Largest file that is read or written."""
MAX_DATA_BYTES = 256 << 20
"""Largest size of the unpacked data."""
MAX_SETS_BYTES = 512 << 20
"""Most memory that its rank sets may take."""
MAX_MEMORY_BYTES = 2 << 30
"""Largest size in memory of the decoded recording: few bytes can stand for much."""
_LAST_TIME_S = 1e11
_HEAD = pattern(rb"pgdb-recording (\d{1,9})\n")
MAGIC = b"pgdb-recording "


class _Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base of the stored structs."""


class Ranks(_Struct, frozen=True):
    """Ranks of one host with one executable."""

    host: str
    executable: str
    ranks: RankSet
    packed_pids: bytes
    """Process of each rank, in order, four bytes each."""


class States(_Struct, frozen=True):
    """The states of the ranks when the file was written."""

    stopped: RankSet
    running: RankSet
    exited: RankSet
    lost: RankSet
    detached: RankSet
    latest: tuple[EquivalenceClass[Event], ...]
    """The last stops and ends of the ranks."""


class StoredAnswer(_Struct, frozen=True):
    """An answer."""

    command: str
    ranks: RankSet
    graph: AnswerGraph
    request_id: int
    elapsed_s: float
    is_reported: bool = msgspec.field(name="told")
    may_run: bool


class StoredExchange(_Struct, frozen=True, omit_defaults=True):
    """A request; its answer is a position in the list of answers."""

    sequence: int
    operation: RecordedOperation
    answer: int
    time_s: float
    occasion: int = 0
    """See :attr:`Exchange.occasion`."""
    place: str = ""
    """See :attr:`Exchange.place`."""


class StoredChange(_Struct, frozen=True):
    """A command that set ranks running, or selected another frame."""

    sequence: int
    command: str
    ranks: RankSet


class StoredNumber(_Struct, frozen=True):
    """An answer with the number that it had at the prompt."""

    number: int
    answer: int


class StoredName(_Struct, frozen=True):
    """An answer that was kept under a name."""

    name: str
    answer: int
    time_s: float
    job: str


# An older PGDB does not know newer fields. It reads a file in which these have their defaults.
class Recording(_Struct, frozen=True, omit_defaults=True):
    """The whole content of a recording."""

    pgdb: str
    """Version of PGDB that has written the file."""
    begun_s: float
    saved_s: float
    """Times at which the session began and the file was written, in seconds since 1970."""
    mode: SessionMode
    description: str
    """The job in words."""
    gdb: str
    mpi: str
    source: str
    """The way in which the ranks were found, in words."""
    aggregators: int
    fan_out: int
    compare_pointers: Literal["symbol", "raw"]
    last_breakpoint: int
    table: tuple[Ranks, ...]
    states: States
    sets: dict[str, RankSet]
    numbered_sets: tuple[RankSet, ...]
    focus: RankSet
    deliveries: tuple[Delivered, ...]
    answers: tuple[StoredAnswer, ...]
    exchanges: tuple[StoredExchange, ...]
    runs: tuple[StoredChange, ...]
    moves: tuple[StoredChange, ...]
    history: tuple[StoredNumber, ...]
    names: tuple[StoredName, ...]
    forgotten: int
    """Number of answers without room in the session's memory."""
    is_unfinished: bool = False
    """Whether the session had not ended: it was killed later, or still runs."""


class Answers:
    """The answers for a file, each once."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, str], int] = {}
        self._held: list[Answer] = []  # so that no id is used for two
        self.stored: list[StoredAnswer] = []

    def put(self, answer: Answer) -> int:
        """Add an answer; return its position."""
        # Answers with the same classes are the same: those of a workspace differ in little else.
        key = (id(answer.classes), f"{answer.command}\0{answer.ranks}\0{answer.missing}")
        if key not in self._numbers:
            self._numbers[key] = len(self.stored)
            self._held.append(answer)
            self.stored.append(
                StoredAnswer(
                    command=answer.command,
                    ranks=answer.ranks,
                    graph=to_graph(answer.classes, answer.missing),
                    request_id=answer.request_id,
                    elapsed_s=answer.elapsed_s,
                    is_reported=answer.is_reported,
                    may_run=answer.may_run,
                )
            )
        return self._numbers[key]


def store_table(table: ProcTable) -> tuple[Ranks, ...]:
    """Return the stored form of a proctable."""
    groups: dict[tuple[str, str], list[RankProcess]] = {}
    for process in table.processes:
        groups.setdefault((process.host, process.executable), []).append(process)
    stored = []
    for (host, executable), members in groups.items():
        members.sort(key=lambda process: process.rank)
        pids = struct.pack(f"<{len(members)}I", *(process.pid for process in members))
        ranks = RankSet(process.rank for process in members)
        stored.append(Ranks(host=host, executable=executable, ranks=ranks, packed_pids=pids))
    return tuple(stored)


def store_changes(changes: Iterable[Change]) -> tuple[StoredChange, ...]:
    """Return the stored form of changes."""
    return tuple(
        StoredChange(sequence=each.sequence, command=each.command, ranks=each.ranks)
        for each in changes
    )


def store_exchanges(exchanges: Iterable[Exchange], answers: Answers) -> tuple[StoredExchange, ...]:
    """Return the stored form of exchanges, and add their answers to *answers*."""
    return tuple(
        StoredExchange(
            sequence=each.sequence,
            operation=each.operation,
            answer=answers.put(each.answer),
            time_s=each.time_s,
            occasion=each.occasion,
            place=each.place,
        )
        for each in exchanges
    )


class Loaded:
    """A recording that was read, with its parts connected."""

    def __init__(self, file: Recording) -> None:
        """Connect the parts of a file.

        :raises ProtocolError: if they do not fit each other.
        """
        self.file = file
        answers = tuple(map(_restore, file.answers))
        self._answers = answers
        self.table = _restore_table(file)
        self.ranks = self.table.ranks
        states = file.states
        parts = (states.stopped, states.running, states.exited, states.lost, states.detached)
        if RankSet.union(parts) != self.ranks or sum(map(len, parts)) != len(self.ranks):
            raise ProtocolError("not every rank does one thing")
        elsewhere = RankSet.union((file.focus, *file.sets.values())) - self.ranks
        if elsewhere:
            raise ProtocolError(f"ranks {elsewhere} are in no table")
        self.exchanges = tuple(
            Exchange(
                each.sequence,
                each.operation,
                self._answer(each.answer),
                each.time_s,
                each.occasion,
                each.place,
            )
            for each in file.exchanges
        )
        times_s = (file.begun_s, file.saved_s, *(each.time_s for each in file.names))
        if not all(0 <= time_s < _LAST_TIME_S for time_s in times_s):
            raise ProtocolError("it is of no time")
        numbers = [each.number for each in file.history]
        if numbers != sorted(set(numbers)) or min(numbers, default=1) < 1:
            raise ProtocolError("its answers are not numbered from 1 up")
        self.runs = _restore_changes(file.runs)
        self.moves = _restore_changes(file.moves)
        self.workspace = WorkspaceState(
            focus=file.focus,
            history=tuple((each.number, self._answer(each.answer)) for each in file.history),
            saved=tuple(
                Saved(each.name, self._answer(each.answer), each.time_s, each.job)
                for each in file.names
            ),
            sets=file.sets,
            numbered_sets=file.numbered_sets,
        )

    def _answer(self, number: int) -> Answer:
        if not 0 <= number < len(self._answers):
            raise ProtocolError(f"there is no answer {number}")
        return self._answers[number]


def _restore(stored: StoredAnswer) -> Answer:
    classes, missing = from_graph(stored.graph)
    named = RankSet.union((*(each.ranks for each in classes), missing.ranks))
    if named - stored.ranks:
        raise ProtocolError(f"'{stored.command}' is answered by who was not asked")
    return Answer(
        command=stored.command,
        ranks=stored.ranks,
        classes=classes,
        missing=missing,
        request_id=stored.request_id,
        elapsed_s=stored.elapsed_s,
        is_reported=stored.is_reported,
        may_run=stored.may_run,
    )


def _restore_changes(stored: Iterable[StoredChange]) -> tuple[Change, ...]:
    return tuple(Change(each.sequence, each.command, each.ranks) for each in stored)


def _restore_table(file: Recording) -> ProcTable:
    processes: list[RankProcess] = []
    for each in file.table:
        if len(each.packed_pids) != 4 * len(each.ranks):
            raise ProtocolError(f"host {each.host}: ranks and processes are not as many")
        pids = struct.unpack(f"<{len(each.ranks)}I", each.packed_pids)
        processes += [
            RankProcess(rank=rank, host=each.host, pid=pid, executable=each.executable)
            for rank, pid in zip(each.ranks, pids, strict=True)
        ]
    processes.sort(key=lambda process: process.rank)
    if not processes:
        raise ProtocolError("it has no ranks")
    if len({process.rank for process in processes}) < len(processes):
        raise ProtocolError("a rank is at two places")
    return ProcTable(processes=tuple(processes), source=file.source)


# -- bytes -------------------------------------------------------------------------------------


def encode(recording: Recording) -> bytes:
    """Return the bytes of a file.

    :raises CommandError: if there are too many.
    """
    data = msgspec.msgpack.encode(recording, enc_hook=_encode_hook)
    packed = zlib.compress(data, 6)
    if len(data) > MAX_DATA_BYTES or len(packed) > MAX_FILE_BYTES:
        raise CommandError(
            f"the recording would take {size_text(len(packed))}, {size_text(len(data))} "
            f"unpacked, more than {whole_size(MAX_FILE_BYTES)} and "
            f"{whole_size(MAX_DATA_BYTES)}; nothing is written"
        )
    return b"%s%d\n%s" % (MAGIC, VERSION, packed)


def decode(data: bytes) -> Loaded:
    """Return the recording in *data*.

    :raises ProtocolError: if it is none, or of a version that this PGDB does not know.
    """
    head = _HEAD.match(data)
    if head is None:
        raise ProtocolError("it is no recording of PGDB's")
    if int(head[1]) != VERSION:
        raise ProtocolError(
            f"it is a recording of version {int(head[1])}, and this PGDB reads version {VERSION}"
        )
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(data[head.end() :], MAX_DATA_BYTES)
    except zlib.error:
        raise ProtocolError("it is damaged: what it holds cannot be unpacked") from None
    if unpacker.unconsumed_tail:
        raise ProtocolError(f"it holds more than {whole_size(MAX_DATA_BYTES)}")
    if not unpacker.eof or unpacker.unused_data:
        raise ProtocolError("it is damaged: its end is missing, or it goes on behind its end")
    room = SetsRoom(MAX_SETS_BYTES)

    def decode_set(kind: type, value: Any) -> Any:
        if kind is not RankSet:
            raise TypeError(f"no form for {kind.__name__}")
        return room.take(unpack(value))

    try:
        return Loaded(msgspec.msgpack.decode(unpacked, type=Recording, dec_hook=decode_set))
    except (
        msgspec.DecodeError,
        ProtocolError,
        RankSetError,
        ValueError,
        RecursionError,
    ) as error:
        why = one_line(error)[:200]
        raise ProtocolError(f"it is no valid recording: {why}") from None


def write(recording: Recording, path: Path) -> int:
    """Write a file, all of it or nothing; return its size in bytes.

    A recording of the same name is replaced.

    :raises CommandError: if another file has the name, or if it cannot be written.
    """
    data = encode(recording)
    try:
        check_place(path)
        write_atomically(path, data)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {reason(error)}") from None
    return len(data)


def check_place(path: Path) -> None:
    """Check that a recording may be written to *path*.

    :raises CommandError: if another file has the name, or there is no such directory.
    """
    try:
        if not path.exists():
            if not path.resolve().parent.is_dir():
                raise CommandError(f"{path} cannot be written: there is no such directory")
            return
        start = b"-"
        if path.is_file():
            with open_regular(path) as file:
                start = file.read(len(MAGIC))
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {reason(error)}") from None
    if start not in (b"", MAGIC):
        raise CommandError(f"{path} is there already, and is no recording; choose another name")


def read(path: Path) -> Loaded:
    """Read a file.

    :raises CommandError: if it cannot be read, or is no recording.
    """
    try:
        data = read_regular(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        raise CommandError(f"{path}: there is no such file") from None
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {reason(error)}") from None
    try:
        with _memory_bounded():
            return decode(data)
    except MemoryError:
        most = whole_size(MAX_MEMORY_BYTES)
        raise CommandError(f"{path}: it would take more than {most} of memory") from None
    except ProtocolError as error:
        raise CommandError(f"{path}: {error}") from None


@contextlib.contextmanager
def _memory_bounded() -> Iterator[None]:
    """Limit the additional memory of this process to :data:`MAX_MEMORY_BYTES`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    most = pages * resource.getpagesize() + MAX_MEMORY_BYTES
    if soft != resource.RLIM_INFINITY:
        most = min(most, soft)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _encode_hook(value: Any) -> Any:
    if isinstance(value, RankSet):
        return pack(value)
    raise TypeError(f"no form for {type(value).__name__}")
