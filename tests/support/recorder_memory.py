"""The memory of the recorder of MPI calls, made from fields."""

from __future__ import annotations

import struct

from pgdb.backend.mpi_calls.recorder import Read
from pgdb.mpi_functions import NUMBERED
from pgdb.mpi_recorder import layout

MEMBERS_AT = 0x5000


BEGIN = 0x100000


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
    place_request(made, 555, "MPI_Recv_init", group=5, source=1, tag=-2, count=3)
    thread = made.thread[0]
    thread.tid, thread.calls, thread.frame = 77, 3, 0x7FFF0000
    fill(thread.ring[2], "MPI_Wait", request=555)
    return made


def place_request(
    made: layout.Memory, handle: int, function: str, *, after: int = 0, **fields: int
) -> None:
    """Put a request *after* so many other places into the table."""
    place = (layout.request_place(handle) + after) % layout.MOST_REQUESTS
    fill(made.request[place], function, request=handle, **fields)


def fill(entry: layout.Call, function: str, **fields: int) -> None:
    """Fill in an entry with *fields*, as the recorder does: the others keep what they were."""
    entry.function = NUMBERS[function]
    for field, value in fields.items():
        setattr(entry, field, value)


def reader(made: layout.Memory | bytes) -> Read:
    """Return a reader of the memory at BEGIN, and of a list of members."""
    data, members = bytes(made), struct.pack("2i", 3, 1)

    def read(address: int, size_bytes: int) -> bytes:
        if address >= BEGIN:
            return data[address - BEGIN :][:size_bytes]
        return members[address - MEMBERS_AT :][:size_bytes] if address >= MEMBERS_AT else b""

    return read
