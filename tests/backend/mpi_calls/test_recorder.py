"""Calls read from the memory of the recorder, whole and damaged."""

from __future__ import annotations

import ctypes
import random

from pgdb.backend.mpi_calls.recorder import Read, decode, is_recorder, with_recorded
from pgdb.mpi_calls import (
    ANY_SOURCE,
    ANY_TAG,
    MOST_RECENT,
    FieldSource,
    MpiCall,
    RecordedCall,
    Request,
)
from pgdb.mpi_functions import NUMBERED, Role
from pgdb.mpi_recorder import layout
from tests.support.recorder_memory import BEGIN, fill, memory, place_request, reader


def call_in(made: layout.Memory) -> MpiCall | None:
    found = decode(BEGIN, reader(made))
    assert found is not None and found.state == "outside"
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
    fill(made.thread[0].ring[3], "MPI_Recv", source=-1, tag=-2, group=4)
    call = call_in(made)
    assert call is not None and (call.source, call.tag) == (ANY_SOURCE, ANY_TAG)
    assert call.communicator is not None and call.communicator.members == "0-3"


def test_a_call_that_has_returned_is_none() -> None:
    made = memory()
    made.thread[0].frame = 0
    assert call_in(made) is None
    found = decode(BEGIN, reader(made))
    assert found is not None and found.counts == {77: 3}


def test_fields_of_earlier_calls_in_the_same_place_are_no_fields_of_a_call() -> None:
    made = memory()
    entry = made.thread[0].ring[2]
    fill(entry, "MPI_Sendrecv", group=4, peer=1, source=2, tag=7, receive_tag=8, count=9)
    fill(entry, "MPI_Barrier", group=4, group_calls=12)
    call = call_in(made)
    assert call is not None and call.communicator is not None
    assert call.communicator.collectives == 12
    known = {each.field for each in call.sources}
    assert known == {"function", "communicator"}


def test_parts_of_an_entry_that_share_bytes_are_of_different_functions() -> None:
    for each in NUMBERED:
        names = {argument.name for argument in each.arguments}
        assert len(names & {"dest", "target", "root"}) <= 1, each.name
        assert not {"count", "number"} <= names, each.name
        assert not {"op", "count2"} <= names, each.name
        if Role.COLLECTIVE in each.role:
            assert not names & {"source", "tag2"}, each.name


def recent(made: layout.Memory, last: int = 9) -> list[RecordedCall]:
    found = decode(BEGIN, reader(made), last)
    assert found is not None
    return list(found.recent)


def filled(calls: int) -> layout.Memory:
    """Return the memory of a rank whose thread has made so many calls with their numbers as tags,
    each on the communicator of ranks 3 and 1."""
    made = memory()
    thread = made.thread[0]
    thread.number, thread.calls = 1, calls
    for number in range(max(0, calls - layout.MOST_CALLS), calls):
        entry = thread.ring[number % layout.MOST_CALLS]
        fill(entry, "MPI_Recv", source=1, tag=number, group=5, began=number * 10**9)
    return made


def test_the_last_calls_come_oldest_first() -> None:
    found = recent(filled(200), 3)
    assert [each.call.tag for each in found] == [197, 198, 199]
    assert [each.began_s for each in found] == [197.0, 198.0, 199.0]
    assert [each.returned for each in found] == [True, True, False]
    first = found[0].call
    assert first.source == 1 and first.communicator is not None
    assert first.communicator.members == "1,3" and first.communicator.collectives is None
    assert len(recent(filled(200), 99)) == MOST_RECENT
    assert len(recent(filled(5), 99)) == 5
    assert recent(filled(5), 0) == []


def test_an_entry_that_the_next_call_may_be_filling_is_no_call() -> None:
    made = filled(200)
    data = bytes(made)
    made.thread[0].calls = 204
    at = layout.Memory.thread.offset
    inside = reader(made)

    def read(address: int, size: int) -> bytes:
        # The thread goes on between the two readings.
        is_first = size > 8
        return data[at:][:size] if address == BEGIN + at and is_first else inside(address, size)

    found = decode(BEGIN, read, 63)
    assert found is not None
    assert [each.call.tag for each in found.recent] == list(range(204 - MOST_RECENT, 200))


def test_a_communicator_that_may_have_been_freed_since_is_unknown() -> None:
    made = filled(10)
    fill(made.thread[0].ring[6], "MPI_Comm_free", group=5)
    found = recent(made)
    known = [each.call.communicator is not None for each in found]
    assert known == [False] * 6 + [True] * 3
    assert found[0].call.source is None and found[0].call.tag == 1
    other = made.thread[1]
    other.tid, other.number, other.calls, made.threads = 78, 2, 1, 2
    fill(other.ring[0], "MPI_Win_free", group=9)
    own = [each for each in recent(made) if each.thread == 1]
    assert not any(each.call.communicator for each in own)
    # Another thread has forgotten its own calls of that time.
    fill(other.ring[0], "MPI_Barrier", group=4)
    other.calls = 100
    for number in range(layout.MOST_CALLS):
        fill(other.ring[number], "MPI_Barrier", group=4, began=8 * 10**9)
    own = [each for each in recent(made) if each.thread == 1]
    assert [each.call.communicator is not None for each in own] == [False] * 8 + [True]


def test_a_memory_of_another_version_is_not_read() -> None:
    made = memory()
    made.version += 1
    assert decode(BEGIN, reader(made)) is None
    assert decode(BEGIN, reader(bytes(memory())[:100])) is None


def test_requests_and_members_that_are_not_known() -> None:
    made = memory()
    made.thread[0].ring[2].request = 556
    call = call_in(made)
    assert call is not None and call.requests == (Request(),)
    fill(made.thread[0].ring[2], "MPI_Waitall", count=200)
    call = call_in(made)
    assert call is not None and len(call.requests) == layout.MOST_HANDLES + 1
    assert call.count is None
    fill(made.thread[0].ring[2], "MPI_Wait", request=555)
    made.group[4].members = 1
    call = call_in(made)
    assert call is not None and call.requests[0].peer is None
    assert call.requests[0].communicator is not None
    assert call.requests[0].communicator.members is None


def test_a_request_that_is_not_at_its_first_place() -> None:
    made = memory()
    made.thread[0].ring[2].request = 900
    place_request(made, 900, "MPI_Ibcast", after=3, peer=1, group=5, count=6)
    call = call_in(made)
    assert call is not None and call.requests == (Request(),)
    made.displaced = 1
    call = call_in(made)
    assert call is not None and call.requests[0].kind == "collective"
    assert (call.requests[0].count, call.requests[0].peer) == (6, None)


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
        inside = reader(bytes(data))

        def read(address: int, size: int, inside: Read = inside) -> bytes:
            return inside(address, size) or rng.randbytes(min(size, 1 << 16))

        decode(BEGIN, read, MOST_RECENT)


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


def test_a_recorded_request_is_complete_if_mpi_says_so() -> None:
    recorded = call_in(memory())
    assert recorded is not None
    seen = MpiCall(function="MPI_Wait", requests=(Request(complete=True, tag=99),))
    (both,) = with_recorded(seen, recorded).requests
    assert both.complete and both.tag == ANY_TAG


def test_a_library_that_was_removed_or_replaced_is_known() -> None:
    path = f"/cache/0123/{layout.LIBRARY}"
    assert is_recorder(path) and is_recorder(f"{path} (deleted)")
    assert not is_recorder("/usr/lib/libmpi.so.40")
