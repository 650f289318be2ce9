"""Calls read from the memory of the recorder, whole and damaged."""

from __future__ import annotations

import ctypes
import random
import struct

from pgdb.backend.mpi_calls.recorder import decode, with_recorded
from pgdb.mpi_calls import ANY_SOURCE, FieldSource, MpiCall, Request
from pgdb.mpi_functions import NUMBERED
from pgdb.mpi_recorder import layout

MEMBERS_AT = 0x5000
NUMBERS = {each.name: number for number, each in enumerate(NUMBERED, 1)}


def memory() -> layout.Memory:
    """Return the memory of a rank whose thread 77 has been in two calls, and is in MPI_Wait."""
    made = layout.Memory(magic=layout.MAGIC, version=layout.VERSION, state=layout.READY, threads=1)
    made.any_source, made.any_tag, made.proc_null, made.root = -1, -2, -3, -4
    made.datatypes[0].text, made.datatypes[0].handle = b"MPI_INT", 900
    world, part = made.group[3], made.group[4]
    world.handle, world.kind, world.size, world.name = 8, layout.COMMUNICATOR, 4, b"MPI_COMM_WORLD"
    part.handle, part.kind, part.size, part.identity = 9, layout.COMMUNICATOR, 2, 0xABC
    part.members = MEMBERS_AT
    request = made.request[7]
    request.handle, request.kind, request.group = 555, layout.RECEIVE | layout.PERSISTENT, 5
    request.peer, request.tag, request.count = 1, -2, 3
    thread = made.thread[0]
    thread.tid, thread.calls = 77, 3
    thread.requests[0] = 555
    fill(thread.ring[2], "MPI_Wait", requests=1)
    return made


def fill(entry: layout.Call, function: str, **fields: int) -> None:
    """Fill in an entry, of whose numbers only *fields* are there."""
    entry.function, entry.ended = NUMBERS[function], 0
    entry.count = entry.receive_count = layout.NO_COUNT
    for field in ("dest", "source", "tag", "receive_tag", "root"):
        setattr(entry, field, layout.NONE)
    for field, value in fields.items():
        setattr(entry, field, value)


def read(address: int, size_bytes: int) -> bytes:
    data = struct.pack("2i", 3, 1)
    return data[address - MEMBERS_AT :][:size_bytes] if address >= MEMBERS_AT else b""


def call_in(made: layout.Memory) -> MpiCall | None:
    found = decode(bytes(made), read)
    assert found is not None and found.is_ready
    return found.calls.get(77)


def test_the_requests_that_a_call_waits_for() -> None:
    call = call_in(memory())
    assert call is not None and call.function == "MPI_Wait"
    (request,) = call.requests
    assert request.kind == "persistent recv" and request.count == 3
    assert request.tag == "MPI_ANY_TAG"
    assert request.peer == 1  # the second member
    assert request.communicator is not None
    assert request.communicator.members == "1,3"
    assert request.communicator.identity == f"{0xABC:016x}"


def test_a_peer_is_a_rank_of_the_world() -> None:
    made = memory()
    made.thread[0].calls = 4
    fill(made.thread[0].ring[3], "MPI_Recv", source=0, tag=5, count=2, group=5, datatype=900)
    call = call_in(made)
    assert call is not None
    assert (call.source, call.tag, call.count, call.datatype) == (3, 5, 2, "MPI_INT")
    fill(made.thread[0].ring[3], "MPI_Recv", source=-1, group=4)
    call = call_in(made)
    assert call is not None and (call.source, call.tag) == (ANY_SOURCE, None)
    assert call.communicator is not None and call.communicator.members == "0-3"


def test_a_call_that_has_returned_is_none() -> None:
    made = memory()
    made.thread[0].ring[2].ended = 1
    assert call_in(made) is None
    found = decode(bytes(made), read)
    assert found is not None and found.counts == {77: 3}


def test_a_memory_of_another_version_is_not_read() -> None:
    made = memory()
    made.version += 1
    assert decode(bytes(made), read) is None
    assert decode(bytes(memory())[:-1], read) is None


def test_requests_and_members_that_are_not_known() -> None:
    made = memory()
    made.thread[0].requests[0] = 556
    call = call_in(made)
    assert call is not None and call.requests == (Request(),)
    made.thread[0].ring[2].requests = 200
    call = call_in(made)
    assert call is not None and len(call.requests) == layout.MOST_HANDLES + 1
    made.request[7].handle = 556
    made.group[4].members = 1
    call = call_in(made)
    assert call is not None and call.requests[0].peer is None
    assert call.requests[0].communicator is not None
    assert call.requests[0].communicator.members is None


def test_damaged_memory_never_ends_the_reader() -> None:
    rng = random.Random(7)
    whole = bytes(memory())
    begin = layout.Memory.state.offset
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(200):
            at = rng.randrange(begin, ctypes.sizeof(layout.Memory) - 8)
            data[at : at + 4] = rng.randbytes(4)
        for at in (layout.Memory.thread.offset, layout.Memory.group.offset):
            data[at : at + 600] = rng.randbytes(600)
        data[layout.Memory.threads.offset :][:4] = rng.randbytes(4)
        decode(bytes(data), lambda address, size: rng.randbytes(min(size, 1 << 16)))


def test_fields_of_the_recorder_replace_others() -> None:
    recorded = call_in(memory())
    assert recorded is not None
    seen = MpiCall(function="MPI_Wait", count=1, sources=(FieldSource("count", "caller code"),))
    both = with_recorded(seen, recorded)
    assert both.requests == recorded.requests and both.waits_for == "all"
    assert both.count == 1 and both.source_of("count") == "caller code"
    assert both.source_of("requests") == "recorder"
    other = MpiCall(function="MPI_Recv", sources=(FieldSource("function", "caller code"),))
    assert with_recorded(other, recorded) is other
