"""Calls that the recorder of MPI calls has kept in the memory of a rank."""

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
    ELSEWHERE,
    PROC_NULL,
    ROOT,
    CallKind,
    CallState,
    Communicator,
    FieldSource,
    Group,
    MpiCall,
    MpiCallStatus,
    Peer,
    RecordedCall,
    Request,
    RequestKind,
    Tag,
)
from pgdb.mpi_functions import NUMBERED, Prototype, Role
from pgdb.mpi_recorder import layout
from pgdb.process_maps import DELETED, Mapping
from pgdb.ranks import RankSet

Read = Callable[[int, int], bytes]
"""Function that reads at an address (first) so many bytes (second); fewer where no memory is."""

_MOST_MEMBERS = 1 << 22
"""More members than any communicator has; a larger number is damage."""
_KINDS: dict[CallKind, tuple[RequestKind, RequestKind]] = {
    "send": ("send", "persistent send"),
    "sendrecv": ("send", "persistent send"),
    "recv": ("recv", "persistent recv"),
    "collective": ("collective", "persistent collective"),
    "comm": ("collective", "persistent collective"),
    "rma": ("rma", "rma"),
    "file": ("file", "file"),
}
"""Kinds of requests by those of the functions that make them, and of the persistent ones."""
_PARTITIONED: dict[str, RequestKind] = {
    "MPI_Psend_init": "partitioned send",
    "MPI_Precv_init": "partitioned recv",
}
_STATES: dict[int, CallState] = {
    layout.BEFORE_INIT: "before_init",
    layout.READY: "outside",
    layout.FINALIZED: "after_finalize",
}
_FREED = ("comm", "win", "file")
"""Arguments whose handles a function frees if it has them by their addresses."""
_NO_SOURCES = ("sources", "words", "where", "thread", "kind", "blocking", "part_of", "waits_for")
"""Fields of a call that no single source gives."""


class Recorded(msgspec.Struct, frozen=True):
    """The calls of one rank that have not returned, and the number of calls of each thread."""

    state: CallState
    """State of a thread that is in no call."""
    calls: dict[int, MpiCall]
    """The current call of each thread that is in one, by the thread's number in the kernel."""
    counts: dict[int, int]
    """Number of calls that each thread has begun."""
    recent: tuple[RecordedCall, ...] = ()
    """The last calls of each thread, oldest first, if they were asked for."""


def is_recorder(path: str) -> bool:
    """Return whether a mapped file is the library of the recorder, which may be deleted."""
    return path.rpartition("/")[2].removesuffix(DELETED) == layout.LIBRARY


def read_recorded(source: Source, last: int = 0) -> Recorded | None:
    """Return the recorded calls of a rank, with the *last* ones of each thread; None if it has no
    recorder that we can read."""
    try:
        begin = find_recorder(source)
        if begin is None:
            return None
        with source.opened() as read:
            return decode(begin, read, last)
    except OSError:
        return None


def find_recorder(source: Source) -> int | None:
    """Return the address of the recorder's memory, None if the process has no recorder.

    :raises OSError: if the process cannot be read.
    """
    mappings = source.mappings()
    own = [each for each in mappings if is_recorder(each.path)]
    if not own:
        return None
    with source.opened() as read:
        for begin in _candidates(own, mappings):
            if read(begin, len(layout.MAGIC)) == layout.MAGIC:
                return begin
    return None


def _candidates(own: Sequence[Mapping], mappings: Sequence[Mapping]) -> Iterator[int]:
    """Yield the addresses at which the recorder's memory may begin: writable, behind its code."""
    end = max(each.end for each in own)
    writable = [each for each in own if each.is_writable]
    writable += [each for each in mappings if each.start == end and each.is_writable]
    for each in writable:
        yield from range(each.start, each.end, layout.ALIGNMENT_BYTES)


def decode(begin: int, read: Read, last: int = 0) -> Recorded | None:
    """Return the calls in the recorder's memory at *begin*, with the *last* ones of each thread;
    None if it is of another layout."""
    size = layout.Memory.thread.offset
    data = read(begin, size)
    if len(data) < size:
        return None
    head = layout.Memory.from_buffer_copy(data.ljust(ctypes.sizeof(layout.Memory), b"\0"))
    if head.version != layout.VERSION:
        return None
    decoder = _Decoder(begin, head, read)
    calls, counts = {}, {}
    for thread in decoder.threads():
        counts[thread.tid] = thread.calls
        if (call := decoder.current(thread)) is not None:
            calls[thread.tid] = call
    recent = tuple(decoder.recent(last)) if last else ()
    state = _STATES.get(head.state, "unknown")
    return Recorded(state=state, calls=calls, counts=counts, recent=recent)


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
    if len(call.requests) == len(recorded.requests):
        pairs = zip(recorded.requests, call.requests, strict=True)
        values["requests"] = tuple(_with_request(*each) for each in pairs)
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


def _with_request(recorded: Request, seen: Request) -> Request:
    """Return a recorded request with the rest of it from MPI's memory: whether it is complete."""
    missing = {
        field: value
        for field in seen.__struct_fields__
        if getattr(recorded, field) is None and (value := getattr(seen, field)) is not None
    }
    return msgspec.structs.replace(recorded, **missing)


class _Decoder:
    """Maker of calls from the entries of one memory."""

    def __init__(self, begin: int, head: layout.Memory, read: Read) -> None:
        self._begin = begin
        self._head = head
        self._read = read
        self._datatypes = _names(head.datatypes)
        self._operations = _names(head.operations)
        self._groups: dict[int, layout.Group | None] = {}

    def _bytes(self, offset: int, size: int) -> bytes | None:
        data = self._read(self._begin + offset, size)
        return data if len(data) == size else None

    def threads(self) -> Iterator[layout.Thread]:
        """Yield the threads that are there."""
        size = ctypes.sizeof(layout.Thread)
        for place in range(min(self._head.threads, layout.MOST_THREADS)):
            data = self._bytes(layout.Memory.thread.offset + place * size, size)
            if data is not None and (thread := layout.Thread.from_buffer_copy(data)).tid:
                yield thread

    def current(self, thread: layout.Thread) -> MpiCall | None:
        """Return the call that a thread has not returned from, None if it is in none."""
        if not thread.calls or not thread.frame:
            return None
        entry = thread.ring[(thread.calls - 1) % layout.MOST_CALLS]
        function = _function(entry)
        return None if function is None else self._call(entry, function, thread)

    def recent(self, last: int) -> Iterator[RecordedCall]:
        """Yield the last calls of each thread, oldest first.

        The thread may run on. It fills the entry of its next call before it counts that one, so one
        entry less than there are can be trusted.
        """
        threads = list(self.threads())
        pasts = [_past(each) for each in threads]
        for at, thread in enumerate(threads):
            others = pasts[:at] + pasts[at + 1 :]
            size = ctypes.sizeof(ctypes.c_uint64)
            place = layout.Memory.thread.offset + (thread.number - 1) * ctypes.sizeof(layout.Thread)
            counted = self._bytes(place, size)
            now = thread.calls if counted is None else int.from_bytes(counted, "little")
            first = max(0, thread.calls - last, now - layout.MOST_CALLS + 1)
            for number in range(first, thread.calls):
                entry = thread.ring[number % layout.MOST_CALLS]
                function = _function(entry)
                if function is None:
                    continue
                earlier = layout.Call.from_buffer_copy(entry)
                # A group that may have been freed since may have left its place to another.
                is_kept = pasts[at].last_freed < number
                if not is_kept or not all(each.keeps_groups(entry.began) for each in others):
                    earlier.group = 0
                yield RecordedCall(
                    call=self._call(earlier, function, None),
                    began_s=entry.began / 1e9,
                    returned=number + 1 < thread.calls or not thread.frame,
                    thread=thread.number,
                )

    def _call(
        self, entry: layout.Call, function: Prototype, thread: layout.Thread | None
    ) -> MpiCall:
        """Return a call; without *thread*, an earlier one, whose requests are not kept."""
        group = self._group(entry.group)
        names = {each.name for each in function.arguments}
        counts = "comm" in names and Role.COLLECTIVE in function.role
        peer = self._peer(entry.peer, group)
        call = MpiCall(
            function=function.name,
            kind=function.kind,
            blocking=function.blocking,
            waits_for=function.waits_for,
            communicator=self._communicator(
                group, entry.group_calls if counts else 0, is_now=thread is not None
            ),
            dest=peer if names & {"dest", "target"} else None,
            source=self._peer(entry.source, group) if "source" in names else None,
            tag=self._tag(entry.tag) if "tag" in names else None,
            receive_tag=self._tag(entry.receive_tag) if "tag2" in names else None,
            root=peer if "root" in names else None,
            operation=self._operations.get(entry.operation) if "op" in names else None,
            count=entry.count if "count" in names else None,
            receive_count=entry.receive_count if "count2" in names else None,
            datatype=self._datatypes.get(entry.datatype) if "datatype" in names else None,
            window=self._other(group, layout.WINDOW),
            displacement=entry.displacement if "displacement" in names else None,
            file_handle=self._other(group, layout.FILE),
            requests=() if thread is None else self._waited_for(entry, function, thread),
        )
        fields = (each for each in call.__struct_fields__ if each not in _NO_SOURCES)
        known = (each for each in fields if getattr(call, each) not in (None, ()))
        return msgspec.structs.replace(
            call, sources=tuple(FieldSource(each, "recorder") for each in known)
        )

    def _group(self, place: int) -> layout.Group | None:
        if place not in self._groups:
            data = None
            if 0 < place <= layout.MOST_GROUPS:
                size = ctypes.sizeof(layout.Group)
                data = self._bytes(layout.Memory.group.offset + (place - 1) * size, size)
            self._groups[place] = None if data is None else layout.Group.from_buffer_copy(data)
        return self._groups[place]

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

    def _communicator(
        self, group: layout.Group | None, calls: int, *, is_now: bool = True
    ) -> Communicator | None:
        if group is None or group.kind != layout.COMMUNICATOR:
            return None
        return Communicator(
            name=_text(group.name),
            members=self._rank_set(group.members, group.size),
            remote=self._remote(group),
            identity=f"{group.identity:016x}" if group.identity else "",
            collectives=calls or (group.collectives if is_now else None),
        )

    def _remote(self, group: layout.Group) -> str:
        """Return the remote group of an intercommunicator."""
        if not group.remote_size:
            return ""
        return self._rank_set(group.remote, group.remote_size) or ELSEWHERE

    def _other(self, group: layout.Group | None, kind: int) -> Group | None:
        if group is None or group.kind != kind:
            return None
        return Group(name=_text(group.name), members=self._rank_set(group.members, group.size))

    def _peer(self, rank: int, group: layout.Group | None) -> Peer | None:
        memory = self._head
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
        return ANY_TAG if tag == self._head.any_tag else tag

    def _waited_for(
        self, entry: layout.Call, function: Prototype, thread: layout.Thread
    ) -> tuple[Request, ...]:
        if Role.OPENS in function.role:
            return ()
        if any(each.name == "requests" for each in function.arguments):
            handles = thread.requests[: max(0, min(entry.count, layout.MOST_HANDLES))]
            found = [self._request(each) for each in handles]
            if entry.count > len(handles):
                found.append(Request())  # stands for the rest
            return tuple(found)
        if any(each.standard_name == "request" for each in function.arguments):
            return (self._request(entry.request),)
        return ()

    def _places(self, handle: int) -> Iterator[layout.Call]:
        """Yield the places at which a request can be."""
        size = ctypes.sizeof(layout.Call)
        first = layout.request_place(handle)
        for at in range(layout.PROBES if self._head.displaced else 1):
            place = (first + at) % layout.MOST_REQUESTS
            data = self._bytes(layout.Memory.request.offset + place * size, size)
            if data is not None:
                yield layout.Call.from_buffer_copy(data)

    def _request(self, handle: int) -> Request:
        found = next((each for each in self._places(handle) if each.request == handle), None)
        function = None if found is None or not handle else _function(found)
        if found is None or function is None:
            return Request()
        names = {each.name for each in function.arguments}
        group = self._group(found.group)
        kind = _PARTITIONED.get(function.name)
        if kind is None and function.kind in _KINDS:
            kind = _KINDS[function.kind][Role.PERSISTENT in function.role]
        peer = None
        if names & {"dest", "target", "source"} and "root" not in names:
            is_receive = "source" in names and "dest" not in names
            peer = self._peer(found.source if is_receive else found.peer, group)
        return Request(
            kind=kind,
            communicator=self._communicator(group, 0),
            peer=peer,
            tag=self._tag(found.tag) if "tag" in names else None,
            count=found.count if "count" in names else None,
        )


class _Past(msgspec.Struct, frozen=True):
    """The part of the calls of a thread that says which groups were freed."""

    last_freed: int
    """Number of the last call that is kept and frees a communicator, a window or a file; -1 for
    none."""
    kept_since: int | None
    """Beginning of the oldest call that is kept, if older ones are forgotten; in nanoseconds."""

    def keeps_groups(self, since: int) -> bool:
        """Return whether the thread has surely freed nothing since a time, in nanoseconds."""
        return self.last_freed < 0 and (self.kept_since is None or self.kept_since < since)


def _past(thread: layout.Thread) -> _Past:
    kept = range(max(0, thread.calls - layout.MOST_CALLS + 1), thread.calls)
    freed = (at for at in reversed(kept) if _frees(thread.ring[at % layout.MOST_CALLS]))
    oldest = thread.ring[kept.start % layout.MOST_CALLS].began if kept.start else None
    return _Past(last_freed=next(freed, -1), kept_since=oldest)


def _frees(entry: layout.Call) -> bool:
    function = _function(entry)
    return function is not None and any(
        each.is_pointed and each.name in _FREED for each in function.arguments
    )


def _function(entry: layout.Call) -> Prototype | None:
    number = entry.function & ~layout.PERSISTENT
    return NUMBERED[number - 1] if 0 < number <= len(NUMBERED) else None


def _names(table: ctypes.Array[layout.Name]) -> dict[int, str]:
    return {each.handle: _text(each.text) for each in reversed(table) if each.text}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
