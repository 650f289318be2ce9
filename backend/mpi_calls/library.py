"""The MPI library of a process: its handles, and queries that an emulator carries out."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import msgspec

from pgdb.backend.mpi_calls.contexts import Contexts
from pgdb.backend.mpi_calls.emulator import MOST_STEPS, Emulator
from pgdb.backend.mpi_calls.errors import EmulationError, UnknownMpiError
from pgdb.backend.mpi_calls.identities import Identities
from pgdb.backend.mpi_calls.memory import Image, Images, Memory
from pgdb.backend.mpi_calls.request_samples import RequestSamples
from pgdb.mpi_calls import (
    ANY_SOURCE,
    ANY_TAG,
    ELSEWHERE,
    PROC_NULL,
    ROOT,
    Communicator,
    Group,
    Peer,
    Tag,
)
from pgdb.ranks import RankSet

Family = Literal["openmpi", "mpich", "abi"]
"""The kinds of handles: pointers; numbers of 32 bits; those of the ABI of MPI 5."""

_NAME_BYTES = 256
_MOST_MEMBERS = 4096
"""Most members of a communicator that are translated one by one."""
_STEPS_PER_MEMBER = 400


class Constants(msgspec.Struct, frozen=True):
    """Values of MPI's constants in C."""

    any_source: int
    any_tag: int
    proc_null: int
    root: int
    world: int = 0
    """Handle of ``MPI_COMM_WORLD``; 0 for the address of a symbol."""
    no_request: int = 0
    """Handle of ``MPI_REQUEST_NULL``."""
    operations: tuple[tuple[int, str], ...] = ()


_OF_MPICH = "MAX MIN SUM PROD LAND BAND LOR BOR LXOR BXOR MINLOC MAXLOC REPLACE NO_OP".split()
_OF_ABI = {
    **dict(enumerate("SUM MIN MAX PROD".split(), 0x21)),
    **dict(enumerate("BAND BOR BXOR".split(), 0x28)),
    **dict(enumerate("LAND LOR LXOR".split(), 0x30)),
    **dict(enumerate("MINLOC MAXLOC".split(), 0x38)),
    **dict(enumerate("REPLACE NO_OP".split(), 0x3C)),
}
_CONSTANTS: dict[Family, Constants] = {
    "openmpi": Constants(any_source=-1, any_tag=-1, proc_null=-2, root=-4),
    "mpich": Constants(
        any_source=-2,
        any_tag=-1,
        proc_null=-1,
        root=-3,
        world=0x44000000,
        no_request=0x2C000000,
        operations=tuple((0x58000001 + n, f"MPI_{name}") for n, name in enumerate(_OF_MPICH)),
    ),
    "abi": Constants(
        any_source=-1,
        any_tag=-2,
        proc_null=-3,
        root=-4,
        world=0x101,
        no_request=0x180,
        operations=tuple((number, f"MPI_{name}") for number, name in _OF_ABI.items()),
    ),
}
_OPERATION_SYMBOL = "ompi_mpi_op_"
_AT_PROGRESS = (
    *("opal_progress", "MPIDI_progress_test", "MPID_Progress_test"),
    # UCX refuses to look for messages while it does so, as it does in most ranks that wait.
    "ucp_worker_progress",
)


class CommunicatorParts(msgspec.Struct, frozen=True):
    """A communicator, and the world ranks of its members in their order."""

    record: Communicator
    ranks: tuple[int | None, ...] | None
    """World ranks of the group that a peer is a member of; None where they are too many."""


class MpiLibrary:
    """The MPI library in the memory of a stopped process."""

    def __init__(self, memory: Memory, images: Images, thread_pointer: int) -> None:
        """Find the library and check that its queries can be emulated.

        :raises UnknownMpiError: if there is no library, or if it is of an unknown kind.
        """
        self.memory = memory
        self.images = images
        # Tables of symbols are long; the library's name mostly says enough.
        likely = sorted(images.all(), key=lambda each: "mpi" not in os.path.basename(each.path))
        found = next((each for each in likely if "PMPI_Comm_size" in each.symbols), None)
        if found is None:
            raise UnknownMpiError("no MPI library is loaded")
        self.image: Image = found
        self.family = _family_of(found)
        self.constants = _CONSTANTS[self.family]
        self.emulator = Emulator(memory, images, thread_pointer)
        self._communicators: dict[int, CommunicatorParts] = {}
        self.identities = Identities(self)
        self.samples = RequestSamples(self)
        self.contexts = Contexts(self)
        self._names: dict[tuple[str, int], str] = {}
        self.world = self.constants.world or self.symbol("ompi_mpi_comm_world") or 0
        """Handle of ``MPI_COMM_WORLD``."""

    @cached_property
    def is_of_intel(self) -> bool:
        """Whether it is Intel's descendant of MPICH."""
        return self.image.is_of_intel

    @property
    def handle_bytes(self) -> int:
        """Size of a handle in C."""
        return 4 if self.family == "mpich" else 8

    def symbol(self, name: str) -> int | None:
        """Return the address in the process of a symbol of the library.

        The program has a copy of a variable that it names itself, and the library uses that one.
        """
        for image in self._with_data:
            if name in image.symbols:
                return image.symbols[name] + image.bias
        return None

    def type_name(self, data: bytes) -> str:
        """Return the name of the class of an object of Open MPI with *data*, empty if unknown."""
        described = int.from_bytes(data[:8], "little")
        return self.memory.text(self.memory.word(described) or 0)

    @cached_property
    def progress(self) -> frozenset[int]:
        """The addresses in the process of the functions that look for messages."""
        return frozenset(
            each.symbols[name] + each.bias
            for each in self.images.all()
            for name in _AT_PROGRESS
            if name in each.symbols
        )

    @cached_property
    def _with_data(self) -> tuple[Image, ...]:
        program = self.images.program
        return (self.image,) if program is None else (program, self.image)

    @cached_property
    def state(self) -> Literal["before_init", "initialized", "after_finalize"]:
        """State of the library.

        :raises EmulationError: if the queries for it cannot be emulated.
        """
        if not self._flag("Initialized"):
            return "before_init"
        return "after_finalize" if self._flag("Finalized") else "initialized"

    def _flag(self, name: str) -> bool:
        place = self.emulator.allocate(16)
        self.query(name, place)
        return bool(self.emulator.number(place, 4))

    def query(self, name: str, *arguments: int, most_steps: int = MOST_STEPS) -> None:
        """Carry out ``PMPI_NAME``.

        :raises EmulationError: if that fails.
        """
        function = self.image.symbols.get(f"PMPI_{name}")
        if function is None:
            raise EmulationError(f"PMPI_{name} is not there")
        at = function + self.image.bias
        code = self.emulator.call(at, *arguments, most_steps=most_steps) & 0xFFFFFFFF
        if code:
            raise EmulationError(f"PMPI_{name} returns {code}")

    @cached_property
    def size(self) -> int:
        """Number of ranks of ``MPI_COMM_WORLD``, once the library has passed all checks.

        :raises UnknownMpiError: if it does not behave as a library that we know.
        """
        try:
            size, rank = (
                self._number("Comm_size", self.world),
                self._number("Comm_rank", self.world),
            )
            if not 0 <= rank < size:
                raise UnknownMpiError(f"rank {rank} of {size}")
            own = self._translated(self._group("Comm_group", self.world), [0, rank, size - 1])
            if own != [0, rank, size - 1]:
                raise UnknownMpiError("MPI_COMM_WORLD is not its own group")
        except EmulationError as error:
            raise UnknownMpiError(str(error)) from None
        return size

    @cached_property
    def rank(self) -> int:
        """The rank in ``MPI_COMM_WORLD``.

        :raises EmulationError: if the query fails.
        """
        return self._number("Comm_rank", self.world)

    def is_stack(self, address: int) -> bool:
        """Return whether an address is in the stack of the first thread, or in the emulator's."""
        mapping = self.images.mapping(address)
        return mapping is None or mapping.path == "[stack]"

    def _number(self, name: str, handle: int) -> int:
        place = self.emulator.allocate(16)
        self.query(name, handle, place)
        return _signed(self.emulator.number(place, 4))

    def _group(self, name: str, handle: int) -> int:
        place = self.emulator.allocate(16)
        self.query(name, handle, place)
        return self.emulator.number(place, self.handle_bytes)

    @cached_property
    def _world_group(self) -> int:
        return self._group("Comm_group", self.world)

    def _translated(self, group: int, ranks: Sequence[int]) -> list[int | None]:
        """Return the world ranks of members of a group, None for those of no rank of ours."""
        count = len(ranks)
        given, found = self.emulator.allocate(4 * count), self.emulator.allocate(4 * count)
        self.emulator.write(given, struct.pack(f"<{count}i", *ranks))
        steps = MOST_STEPS + _STEPS_PER_MEMBER * count
        self.query(
            "Group_translate_ranks",
            group,
            count,
            given,
            self._world_group,
            found,
            most_steps=steps,
        )
        numbers = struct.unpack(f"<{count}i", self.emulator.read(found, 4 * count))
        return [number if number >= 0 else None for number in numbers]

    # -- handles -------------------------------------------------------------------------------

    def of_fortran(self, kind: str, handle: int) -> int:
        """Return the handle in C of a handle in Fortran.

        :raises EmulationError: if it cannot be converted.
        """
        if self.family == "mpich" and kind != "File":
            return handle & 0xFFFFFFFF
        function = self.image.symbols.get(f"PMPI_{kind}_f2c")
        if function is None:
            raise EmulationError(f"PMPI_{kind}_f2c is not there")
        return self.emulator.call(function + self.image.bias, handle & 0xFFFFFFFF)

    def communicator(self, handle: int) -> CommunicatorParts:
        """Return a communicator.

        :raises EmulationError: if the handle is none, or if the queries fail.
        """
        if handle not in self._communicators:
            self._communicators[handle] = self._communicator(handle)
        return self._communicators[handle]

    @property
    def communicators(self) -> dict[int, CommunicatorParts]:
        """The communicators that have been looked at, by their handles."""
        return dict(self._communicators)

    def _communicator(self, handle: int) -> CommunicatorParts:
        name = self.name("Comm", handle)
        if handle == self.world:
            members = str(RankSet(range(self.size)))
            record = Communicator(name=name, members=members, identity="world")
            return CommunicatorParts(record, tuple(range(self.size)) if self.size < 65536 else None)
        local = self._members("Comm_group", handle)
        is_inter = bool(self._number("Comm_test_inter", handle))
        remote = self._members("Comm_remote_group", handle) if is_inter else None
        record = Communicator(
            name=name,
            members=_text(_of_this_world(local)),
            remote=_remote(local, remote),
            identity=self.identities.identity(handle),
        )
        return CommunicatorParts(record, remote if is_inter else local)

    def _members(self, query: str, handle: int) -> tuple[int | None, ...] | None:
        return self._ranks_of(self._group(query, handle))

    def _ranks_of(self, group: int) -> tuple[int | None, ...] | None:
        size = self._number("Group_size", group)
        if not 0 <= size <= _MOST_MEMBERS:
            return None
        return tuple(self._translated(group, range(size))) if size else ()

    def window(self, handle: int) -> Group:
        """Return a window.

        :raises EmulationError: if the handle is none, or if the queries fail.
        """
        with self.emulator.recorded_reads() as reads:
            members = self._members("Win_get_group", handle)
        return Group(
            name=self.name("Win", handle),
            members=_text(members),
            identity=self.identities.of_window(reads),
        )

    def group(self, handle: int) -> Group:
        """Return a group of processes.

        :raises EmulationError: if the handle is none, or if the queries fail.
        """
        return Group(members=_text(self._ranks_of(handle)))

    def window_ranks(self, handle: int) -> tuple[int | None, ...] | None:
        """Return the world ranks of the group of a window."""
        return self._members("Win_get_group", handle)

    def file(self, handle: int) -> Group:
        """Return an open file.

        :raises EmulationError: if the handle is none, or if the queries fail.
        """
        return Group(members=_text(self._members("File_get_group", handle)))

    def name(self, kind: str, handle: int) -> str:
        """Return the name of a communicator, window or datatype, empty if it has none."""
        key = (kind, handle)
        if key not in self._names:
            place = self.emulator.allocate(_NAME_BYTES)
            length = self.emulator.allocate(16)
            self.query(f"{kind}_get_name", handle, place, length)
            self._names[key] = self.emulator.text(place)
        return self._names[key]

    def operation(self, handle: int) -> str | None:
        """Return the name of a predefined reduction, None for any other."""
        if self.family != "openmpi":
            number = handle & 0xFFFFFFFF
            return next((name for each, name in self.constants.operations if each == number), None)
        for image in self._with_data:
            for name, value in image.symbols.items():
                if value + image.bias == handle and name.startswith(_OPERATION_SYMBOL):
                    return f"MPI_{name.removeprefix(_OPERATION_SYMBOL).upper()}"
        return None

    def data_symbol(self, name: str) -> int | None:
        """Return the address of a variable of the library, None if it has no such one."""
        found = (each.symbols[name] + each.bias for each in self._with_data if name in each.symbols)
        return next(found, None)

    # -- numbers -------------------------------------------------------------------------------

    def peer(self, number: int, ranks: Sequence[int | None] | None) -> Peer | None:
        """Return the rank in ``MPI_COMM_WORLD`` of a peer in a group with these world ranks."""
        constants = self.constants
        if number < 0:
            words: dict[int, Peer] = {
                constants.any_source: ANY_SOURCE,
                constants.proc_null: PROC_NULL,
                constants.root: ROOT,
            }
            return words.get(number)
        return ranks[number] if ranks is not None and number < len(ranks) else None

    def tag(self, number: int) -> Tag | None:
        """Return a tag."""
        if number == self.constants.any_tag:
            return ANY_TAG
        return number if number >= 0 else None


def _family_of(image: Image) -> Family:
    if "ompi_mpi_comm_world" in image.symbols:
        return "openmpi"
    name = os.path.basename(image.path)
    if name.startswith("libmpi_abi"):
        return "abi"
    return "mpich"


def _signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number


def _of_this_world(ranks: tuple[int | None, ...] | None) -> tuple[int | None, ...] | None:
    """Return the members of a group that have a rank in this world."""
    return None if ranks is None else tuple(each for each in ranks if each is not None)


def _remote(local: tuple[int | None, ...] | None, remote: tuple[int | None, ...] | None) -> str:
    """Return the remote group of a communicator as its record has it."""
    if None in (local or ()) or None in (remote or ()):
        return ELSEWHERE
    return _text(remote) or ""


def _text(ranks: Sequence[int | None] | None) -> str | None:
    """Return ranks as the text of a rank set, None where one of them is not known."""
    if ranks is None or any(each is None for each in ranks):
        return None
    return str(RankSet(each for each in ranks if each is not None))
