"""Calls of MPI that the flight recorder has kept in the memory of a rank."""

from __future__ import annotations

import ctypes
import struct
import typing
from collections.abc import Callable, Iterator, Sequence

import msgspec

from pgdb.backend.mpi_calls.memory import Source
from pgdb.mpi_calls import (
    ANY_SOURCE,
    ANY_TAG,
    PROC_NULL,
    ROOT,
    Communicator,
    FieldSource,
    Group,
    MpiCall,
    MpiCallStatus,
    Peer,
    Request,
    RequestKind,
    Tag,
)
from pgdb.mpi_functions import NUMBERED
from pgdb.mpi_recorder import layout
from pgdb.process_maps import Mapping
from pgdb.ranks import RankSet

Read = Callable[[int, int], bytes]
"""Reads at an address (first argument) so many bytes (second); fewer where there is no memory."""

_MOST_MEMBERS = 1 << 22
"""More members than any communicator has; a larger number is damage."""
_KINDS: dict[int, tuple[RequestKind, RequestKind]] = {
    layout.SEND: ("send", "persistent send"),
    layout.RECEIVE: ("recv", "persistent recv"),
    layout.COLLECTIVE: ("collective", "persistent collective"),
    layout.RMA: ("rma", "rma"),
    layout.IO: ("file", "file"),
    layout.GENERALIZED: ("generalized", "generalized"),
}
_PARTITIONED: dict[int, RequestKind] = {
    layout.SEND: "partitioned send",
    layout.RECEIVE: "partitioned recv",
}
_NO_SOURCES = ("sources", "words", "where", "thread", "kind", "blocking", "waits_for")
"""Fields of a call that no single source gives."""


class Recorded(msgspec.Struct, frozen=True):
    """The calls of one rank that have not returned, and the number of calls of each thread."""

    is_ready: bool
    """Whether MPI_Init has returned, and MPI_Finalize has not."""
    calls: dict[int, MpiCall]
    """The current call of each thread that is in one, by the thread's number in the kernel."""
    counts: dict[int, int]
    """Number of calls that each thread has begun."""


def is_recorder(path: str) -> bool:
    """Return whether a mapped file is the library of the recorder."""
    return path.rpartition("/")[2] == layout.LIBRARY


def read_recorded(source: Source) -> Recorded | None:
    """Return the recorded calls of a rank; None if it has no recorder that we can read."""
    try:
        mappings = source.mappings()
    except OSError:
        return None
    own = [each for each in mappings if is_recorder(each.path)]
    if not own:
        return None
    try:
        with source.opened() as read:
            for begin in _candidates(own, mappings):
                if read(begin, len(layout.MAGIC)) == layout.MAGIC:
                    return decode(read(begin, ctypes.sizeof(layout.Memory)), read)
    except OSError:
        return None
    return None


def _candidates(own: Sequence[Mapping], mappings: Sequence[Mapping]) -> Iterator[int]:
    """Yield the addresses at which the recorder's memory may begin: writable, behind its code."""
    end = max(each.end for each in own)
    writable = [each for each in own if each.is_writable]
    writable += [each for each in mappings if each.start == end and each.is_writable]
    for each in writable:
        yield from range(each.start, each.end, layout.ALIGNMENT_BYTES)


def decode(data: bytes, read: Read) -> Recorded | None:
    """Return the calls in a copy of the recorder's memory; None if it is of another layout.

    *read* reads the lists of members, which the memory points to.
    """
    if len(data) < ctypes.sizeof(layout.Memory):
        return None
    memory = layout.Memory.from_buffer_copy(data)
    if memory.version != layout.VERSION:
        return None
    decoder = _Decoder(memory, read)
    calls, counts = {}, {}
    for thread in memory.thread[: min(memory.threads, len(memory.thread))]:
        if not thread.tid:
            continue
        counts[thread.tid] = thread.calls
        if (call := decoder.current(thread)) is not None:
            calls[thread.tid] = call
    return Recorded(is_ready=memory.state == layout.READY, calls=calls, counts=counts)


def with_records(
    status: MpiCallStatus, source: Source, threads: typing.Mapping[str, int | None]
) -> MpiCallStatus:
    """Return a status with the fields that the recorder of the rank has.

    :param threads: numbers in the kernel of the threads, by GDB's; the first one comes first.
    """
    recorded = read_recorded(source)
    if recorded is None:
        return status
    first = next(iter(threads.values()), None)
    calls = []
    for call in status.calls:
        found = recorded.calls.get((threads.get(call.thread) if call.thread else first) or 0)
        calls.append(call if found is None else with_recorded(call, found))
    return msgspec.structs.replace(status, calls=tuple(calls))


def with_recorded(call: MpiCall, recorded: MpiCall) -> MpiCall:
    """Return a call with the fields that the recorder has; the others stay."""
    if call.function != recorded.function and call.source_of("function") != "name":
        return call  # the rank was stopped between the record and the call
    values = {
        field: value
        for field in recorded.__struct_fields__
        if field not in _NO_SOURCES and (value := getattr(recorded, field)) not in (None, ())
    }
    order = {field: at for at, field in enumerate(call.__struct_fields__)}
    kept = [each for each in call.sources if each.field not in values]
    sources = [*kept, *(FieldSource(field, "recorder") for field in values)]
    return msgspec.structs.replace(
        call,
        **values,
        kind=recorded.kind,
        blocking=recorded.blocking,
        waits_for=recorded.waits_for,
        sources=tuple(sorted(sources, key=lambda each: order[each.field])),
    )


class _Decoder:
    """Makes calls of the entries of one memory."""

    def __init__(self, memory: layout.Memory, read: Read) -> None:
        self._memory = memory
        self._read = read
        self._datatypes = _names(memory.datatypes)
        self._operations = _names(memory.operations)
        self._requests = {each.handle: each for each in memory.request if each.handle}

    def current(self, thread: layout.Thread) -> MpiCall | None:
        """Return the call that a thread has not returned from, None if it is in none."""
        if not thread.calls:
            return None
        entry = thread.ring[(thread.calls - 1) % layout.MOST_CALLS]
        if entry.ended or not 0 < entry.function <= len(NUMBERED):
            return None
        return self._call(entry, thread)

    def _call(self, entry: layout.Call, thread: layout.Thread) -> MpiCall:
        function = NUMBERED[entry.function - 1]
        group = self._group(entry.group)
        communicator = self._communicator(group, entry.group_calls)
        call = MpiCall(
            function=function.name,
            kind=function.kind,
            blocking=function.blocking,
            waits_for=function.waits_for,
            communicator=communicator,
            dest=self._peer(entry.dest, group),
            source=self._peer(entry.source, group),
            tag=self._tag(entry.tag),
            receive_tag=self._tag(entry.receive_tag),
            root=self._peer(entry.root, group),
            operation=self._operations.get(entry.operation),
            count=_count(entry.count),
            receive_count=_count(entry.receive_count),
            datatype=self._datatypes.get(entry.datatype),
            window=self._other(group, layout.WINDOW),
            file_handle=self._other(group, layout.FILE),
            requests=self._waited_for(entry, thread),
        )
        fields = (each for each in call.__struct_fields__ if each not in _NO_SOURCES)
        known = (each for each in fields if getattr(call, each) not in (None, ()))
        return msgspec.structs.replace(
            call, sources=tuple(FieldSource(each, "recorder") for each in known)
        )

    def _group(self, place: int) -> layout.Group | None:
        groups = self._memory.group
        return groups[place - 1] if 0 < place <= len(groups) else None

    def _members(self, address: int, size: int) -> list[int]:
        """Return the ranks in MPI_COMM_WORLD of a group; -1 for one that is of another world."""
        if not 0 < size <= _MOST_MEMBERS:
            return []
        if not address:
            return list(range(size))
        data = self._read(address, 4 * size)
        return list(struct.unpack(f"{size}i", data)) if len(data) == 4 * size else []

    def _rank_set(self, address: int, size: int) -> str | None:
        if not address and 0 < size <= _MOST_MEMBERS:
            return str(RankSet.range(0, size))
        members = self._members(address, size)
        if not members or min(members) < 0:
            return None
        return str(RankSet(members))

    def _communicator(self, group: layout.Group | None, calls: int) -> Communicator | None:
        if group is None or group.kind != layout.COMMUNICATOR:
            return None
        return Communicator(
            name=_text(group.name),
            members=self._rank_set(group.members, group.size),
            remote=self._rank_set(group.remote, group.remote_size) or "",
            identity=f"{group.identity:016x}" if group.identity else "",
            collectives=calls or group.collectives,
        )

    def _other(self, group: layout.Group | None, kind: int) -> Group | None:
        if group is None or group.kind != kind:
            return None
        return Group(name=_text(group.name), members=self._rank_set(group.members, group.size))

    def _peer(self, rank: int, group: layout.Group | None) -> Peer | None:
        memory = self._memory
        if rank == layout.NONE:
            return None
        if rank == memory.any_source:
            return ANY_SOURCE
        if rank == memory.proc_null:
            return PROC_NULL
        if rank == memory.root:
            return ROOT
        if group is None or rank < 0:
            return None
        remote = bool(group.remote_size)
        size = group.remote_size if remote else group.size
        address = group.remote if remote else group.members
        if rank >= size:
            return None
        if not address:
            return rank
        data = self._read(address + 4 * rank, 4)
        found = struct.unpack("i", data)[0] if len(data) == 4 else -1
        return found if found >= 0 else None

    def _tag(self, tag: int) -> Tag | None:
        if tag == layout.NONE:
            return None
        return ANY_TAG if tag == self._memory.any_tag else tag

    def _waited_for(self, entry: layout.Call, thread: layout.Thread) -> tuple[Request, ...]:
        handles = thread.requests[: min(entry.requests, layout.MOST_HANDLES)]
        found = [self._request(each) for each in handles]
        if entry.requests > len(handles):
            found.append(Request())  # stands for the rest
        return tuple(found)

    def _request(self, handle: int) -> Request:
        found = self._requests.get(handle)
        if found is None:
            return Request()
        group = self._group(found.group)
        base = found.kind & 15
        kind: RequestKind | None = None
        if found.kind & layout.PARTITIONED:
            kind = _PARTITIONED.get(base)
        elif base in _KINDS:
            kind = _KINDS[base][bool(found.kind & layout.PERSISTENT)]
        return Request(
            kind=kind,
            communicator=self._communicator(group, 0),
            peer=self._peer(found.peer, group),
            tag=self._tag(found.tag),
            count=_count(found.count),
        )


def _count(value: int) -> int | None:
    return None if value == layout.NO_COUNT else value


def _names(table: ctypes.Array[layout.Name]) -> dict[int, str]:
    return {each.handle: _text(each.text) for each in reversed(table) if each.text}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
