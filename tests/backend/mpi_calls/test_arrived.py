"""Messages that have come: the library is asked only of ranks that wait for a message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from pgdb.backend.mpi_calls.arrived import arrived_messages, part_that_came
from pgdb.backend.mpi_calls.errors import EmulationError
from pgdb.backend.mpi_calls.library import CommunicatorParts, Constants
from pgdb.mpi_calls import ArrivedMessage, Communicator, MpiCall, Request
from pgdb.mpi_functions import properties_of
from pgdb.ranks import RankSet


class Asked:
    """A library that counts the questions, and answers none."""

    world = 1
    communicators: ClassVar[dict[int, CommunicatorParts]] = {}

    def __init__(self) -> None:
        self.count = 0

    def communicator(self, handle: int) -> None:
        self.count += 1
        raise EmulationError("no answer")

    def data_symbol(self, name: str) -> int | None:
        return None


CONTEXTS = 0x60


class WithBroadcast:
    """A library with one message of a broadcast, from rank 1."""

    world = 1
    family = "openmpi"
    progress = frozenset[int]()
    parts: tuple[int, ...] = ()
    """The tags of the parts that a probe finds."""
    constants = Constants(any_source=-1, any_tag=-1, proc_null=-2, root=-4)

    def __init__(self, communicator: Communicator, checks: int | None) -> None:
        self.communicators = {7: CommunicatorParts(communicator, (0, 1, 2))}
        self.emulator = self
        self.memory: dict[int, bytes] = {}
        self._checks = checks
        self._next = 0x100
        self._left = 1

    def data_symbol(self, name: str) -> int | None:
        return self._checks if name == "ompi_mpi_param_check" else None

    def allocate(self, size_bytes: int) -> int:
        self._next += size_bytes
        return self._next

    def write(self, address: int, data: bytes) -> None:
        self.memory[address] = data

    def number(self, address: int, size_bytes: int) -> int:
        return int.from_bytes(self.memory.get(address, b""), "little")

    @contextmanager
    def halted_at(self, functions: frozenset[int]) -> Iterator[None]:
        yield

    def query(self, name: str, *arguments: int) -> None:
        if name == "Iprobe":
            self._probed(*arguments)
            return
        # The library refuses this tag unless its checks are off.
        assert self._checks is not None and self.memory[self._checks] == b"\0"
        _, tag, handle, flag, _, status = arguments
        if (tag, handle, self._left) == (-17, 7, 1):
            self._left = 0
            self.memory |= {flag: b"\1", status: b"\1", status + 4: b"\xef\xff\xff\xff"}

    def _probed(self, source: int, tag: int, handle: int, flag: int, status: int) -> None:
        assert (source, handle) == (-1, 7)
        assert self._checks is None or self.memory[self._checks] == b"\0"
        if self._checks is None:
            assert self.memory[CONTEXTS] == b"\x05\x00"
        if tag in self.parts:
            self.memory |= {flag: b"\1", status + 8 * (self.family == "mpich"): b"\2"}

    def peer(self, number: int, ranks: tuple[int, ...]) -> int:
        return ranks[number]

    def tag(self, number: int) -> int | None:
        return None


class OfMpich(WithBroadcast):
    """A library in which collective calls have a context of their own."""

    family = "mpich"

    @property
    def contexts(self) -> OfMpich:
        return self

    def place(self, handle: int) -> tuple[int, bytes, bytes]:
        return CONTEXTS, b"\x04\x00", b"\x05\x00"


def is_asked(*calls: MpiCall) -> bool:
    library: Any = Asked()
    assert arrived_messages(library, calls) == ()
    return library.count == 1


def call(function: str, *requests: Request) -> MpiCall:
    kind, blocking = properties_of(function)
    return MpiCall(function=function, kind=kind, blocking=blocking, requests=requests)


OPEN, COMPLETE = Request(kind="recv", complete=False), Request(kind="recv", complete=True)


@pytest.mark.parametrize(
    "function", ["MPI_Recv", "MPI_Sendrecv", "MPI_Probe", "MPI_Iprobe", "MPI_Ssend"]
)
def test_a_rank_that_waits_for_a_message_or_until_one_is_taken_is_asked(function: str) -> None:
    assert is_asked(call(function))
    assert is_asked(call("MPI_Barrier"), call(function))


@pytest.mark.parametrize("function", ["MPI_Waitall", "MPI_Test"])
def test_a_rank_that_waits_for_a_request_is_asked_while_it_is_open(function: str) -> None:
    assert is_asked(call(function, COMPLETE, OPEN))
    assert not is_asked(call(function, COMPLETE))
    # The messages that it has not taken say for which receivers the others wait.
    assert is_asked(call(function, Request(kind="send", complete=False)))
    assert not is_asked(call(function, Request(kind="send", complete=True)))


@pytest.mark.parametrize("function", ["MPI_Barrier", "MPI_Isend", "MPI_Irecv", "MPI_Recv_init"])
def test_a_rank_that_waits_for_no_message_is_not_asked(function: str) -> None:
    assert not is_asked(call(function))
    assert not is_asked()


def test_a_rank_in_a_collective_call_has_the_messages_of_others() -> None:
    world = Communicator(name="MPI_COMM_WORLD", members="0-2")
    barrier = replace(call("MPI_Barrier"), communicator=world)
    library: Any = WithBroadcast(world, 0x50)
    assert arrived_messages(library, [barrier]) == (
        ArrivedMessage(1, None, world, function="MPI_Bcast"),
    )
    other: Any = WithBroadcast(Communicator(members="0-1"), 0x50)
    assert arrived_messages(other, [barrier]) == ()
    unknown: Any = WithBroadcast(world, None)
    assert arrived_messages(unknown, [barrier]) == ()


def test_parts_of_a_call_that_gathers_are_found_among_those_of_its_function() -> None:
    world = Communicator(name="MPI_COMM_WORLD", members="0-2")
    library: Any = WithBroadcast(world, 0x50)
    assert part_that_came(library, [world], "MPI_Reduce") == RankSet()
    library.parts = (-21,)
    assert part_that_came(library, [world], "MPI_Reduce") == RankSet([2])
    assert part_that_came(library, [world], "MPI_Gather") == RankSet()
    # Nothing is known of a communicator that nobody has looked at.
    assert part_that_came(library, [Communicator(members="0-1")], "MPI_Reduce") is None


def test_parts_of_mpich_have_another_context_for_the_time_of_the_question() -> None:
    world = Communicator(name="MPI_COMM_WORLD", members="0-2")
    library: Any = OfMpich(world, None)
    library.parts = (11,)
    assert part_that_came(library, [world], "MPI_Reduce") == RankSet([2])
    assert part_that_came(library, [world], "MPI_Gather") == RankSet()
    assert part_that_came(library, [world], "MPI_Scan") is None
    assert library.memory[CONTEXTS] == b"\x04\x00"


def test_a_root_takes_the_parts_of_its_own_call_in_its_own_time() -> None:
    world = Communicator(name="MPI_COMM_WORLD", members="0-2")
    wanted: list[int] = []

    class Listing(WithBroadcast):
        def query(self, name: str, *arguments: int) -> None:
            wanted.append(arguments[1])

    library: Any = Listing(world, 0x50)
    arrived_messages(library, [replace(call("MPI_Gather"), communicator=world)])
    assert -21 in wanted and -19 not in wanted
