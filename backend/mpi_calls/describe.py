"""From the arguments of a call to the record of it: handles become names and world ranks."""

from __future__ import annotations

import logging
import platform
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from pgdb.backend.mpi_calls.arguments import CallArguments, Known
from pgdb.backend.mpi_calls.arrived import arrived_messages, part_that_came
from pgdb.backend.mpi_calls.errors import EmulationError, UnknownMpiError
from pgdb.backend.mpi_calls.frames import MachineFrame
from pgdb.backend.mpi_calls.gathering import is_begin
from pgdb.backend.mpi_calls.library import MpiLibrary
from pgdb.backend.mpi_calls.memory import Images, Memory, Source
from pgdb.backend.mpi_calls.neighbours import neighbours_of
from pgdb.backend.mpi_calls.open_receives import open_receives
from pgdb.backend.mpi_calls.own_request import own_kind, own_request
from pgdb.backend.mpi_calls.requests import RequestReader
from pgdb.backend.mpi_calls.sites import CallSites
from pgdb.mpi_calls import ArrivedMessage, CallState, Communicator, FieldSource, MpiCall
from pgdb.mpi_functions import GATHERING, NEIGHBOURHOOD, PROTOTYPES, properties_of
from pgdb.ranks import RankSet

LOG = logging.getLogger(__name__)

CAN_FOLLOW = platform.machine() == "x86_64"
"""Whether this machine's code can be followed."""
_MOST_REQUESTS = 1024
_MOST_IN_TREE = 256
"""Most ranks of a job whose members of a call that gathers say for whom they wait, next to the
root."""
_FIELDS = {"count2": "receive_count", "tag2": "receive_tag"}
_NUMBERS = ("count", "count2", "displacement")


class Stack(msgspec.Struct, frozen=True):
    """The frames of one thread, innermost first, and what is known of its call by names."""

    frames: tuple[MachineFrame, ...]
    caller: int
    """Index of the first frame outside the MPI library."""
    by_name: MpiCall
    written: Mapping[str, int] = {}
    """Values of arguments as the source line has them; they count where the code says nothing."""


class Look:
    """One look at a stopped process."""

    def __init__(self, source: Source, thread_pointer: int) -> None:
        """Open the memory of the rank.

        :raises OSError: if it may not be read.
        """
        self._memory = Memory(source)
        try:
            self._images = Images(self._memory)
        except OSError:
            self._memory.close()
            raise
        self.note = ""
        """The reason why arguments are unknown."""
        self._library: MpiLibrary | None = None
        try:
            self._library = MpiLibrary(self._memory, self._images, thread_pointer)
        except UnknownMpiError as error:
            self.note = str(error)

    def close(self) -> None:
        """Close the memory."""
        self._memory.close()

    def state(self) -> CallState:
        """Return the state of a process outside MPI, as far as the library says it."""
        if self._library is None:
            return "outside"
        try:
            found = self._library.state
        except EmulationError as error:
            self.note = f"unknown MPI library: {error}"
            return "outside"
        return "outside" if found == "initialized" else found

    def call(self, stack: Stack) -> MpiCall:
        """Return the call of a thread with its arguments, as far as they can be known."""
        sites = CallSites(self._memory, self._images, stack.frames)
        caller = stack.caller
        while caller < len(stack.frames) and sites.is_tail_frame(caller):
            caller += 1
        if caller >= len(stack.frames):
            return stack.by_name
        called = sites.called(caller)
        if called is None:
            return stack.by_name
        name = called.name.function
        kind, blocking = properties_of(name)
        call = MpiCall(
            function=name,
            kind=kind,
            blocking=blocking,
            where=stack.by_name.where,
            thread=stack.by_name.thread,
            part_of=stack.by_name.part_of,
            sources=(FieldSource("function", "caller code"),),
        )
        library = self._library
        if library is None:
            return call
        callee = next((at for at in range(caller - 1, -1, -1) if not sites.is_tail_frame(at)), None)
        if callee is None:
            return call
        found = CallArguments(sites, library, stack.frames, called, callee)
        written = {name: Known(value, "source line") for name, value in stack.written.items()}
        parts = _Parts(call, written | found.values(), library, stack.frames, callee)
        return self._described(call, parts, library)

    def arrived(self, calls: Sequence[MpiCall]) -> tuple[ArrivedMessage, ...]:
        """Return the messages that no receive has taken, if one of *calls* waits for a message.

        It takes them out of the copy of the memory, so that it is the last question of a look.
        """
        if self._library is None or self.note:
            return ()
        return arrived_messages(self._library, calls)

    def _described(self, call: MpiCall, parts: _Parts, library: MpiLibrary) -> MpiCall:
        try:
            world_size = library.size
        except UnknownMpiError as error:
            # In MPI_Init and MPI_Finalize the queries refuse, too.
            if call.kind not in ("init", "finalize"):
                self.note = f"unknown MPI library: {error}"
            return call
        del world_size
        for step in (
            parts.communicator,
            parts.peers,
            parts.numbers,
            parts.names,
            parts.window_and_file,
            parts.group,
            parts.requests,
            parts.own_request,
            parts.awaited,
        ):
            try:
                step()
            except EmulationError as error:
                # The other arguments may be known all the same.
                LOG.info("%s: %s", call.function, error)
        return parts.finished()


class _Parts:
    """The fields of a call as they become known."""

    def __init__(
        self,
        call: MpiCall,
        values: dict[str, Known],
        library: MpiLibrary,
        frames: Sequence[MachineFrame],
        level: int,
    ) -> None:
        self._frames = frames
        self._level = level
        self._call = call
        self._values = values
        self._library = library
        self._sources = list(call.sources)
        self._fields: dict[str, object] = {}
        self._ranks: Sequence[int | None] | None = None

    def finished(self) -> MpiCall:
        """Return the call with all fields that are known."""
        order = {name: at for at, name in enumerate(MpiCall.__struct_fields__)}
        sources = tuple(sorted(self._sources, key=lambda each: order[each.field]))
        return replace(self._call, **self._fields, sources=sources)

    def _set(self, field: str, value: object, known: Known) -> None:
        if value is not None:
            self._fields[field] = value
            self._sources.append(FieldSource(field, known.source))

    def communicator(self) -> None:
        """Find the communicator and the group of the peers."""
        known = self._values.get("comm")
        if known is not None:
            found = self._library.communicator(known.number)
            self._ranks = found.ranks
            self._set("communicator", found.record, known)
            if self._call.function.startswith(NEIGHBOURHOOD):
                self._fields["neighbours"] = neighbours_of(self._library, known.number)

    def peers(self) -> None:
        """Find the ranks that the call names."""
        for name in ("dest", "source", "root"):
            known = self._values.get(name)
            if known is not None:
                self._set(name, self._library.peer(known.number, self._ranks), known)

    def numbers(self) -> None:
        """Find counts, displacements and tags."""
        for name in _NUMBERS:
            known = self._values.get(name)
            if known is not None and known.number >= 0:
                self._set(_FIELDS.get(name, name), known.number, known)
        for name in ("tag", "tag2"):
            known = self._values.get(name)
            if known is not None:
                self._set(_FIELDS.get(name, name), self._library.tag(known.number), known)

    def names(self) -> None:
        """Find the names of the datatype and of the reduction."""
        if (known := self._values.get("op")) is not None:
            self._set("operation", self._library.operation(known.number), known)
        if (known := self._values.get("datatype")) is not None:
            self._set("datatype", self._library.name("Type", known.number) or None, known)

    def window_and_file(self) -> None:
        """Find the window, its target, and the file."""
        if (known := self._values.get("file")) is not None:
            self._set("file_handle", self._library.file(known.number), known)
        if (known := self._values.get("win")) is not None:
            self._set("window", self._library.window(known.number), known)
            if (target := self._values.get("target")) is not None:
                ranks = self._library.window_ranks(known.number)
                self._set("dest", self._library.peer(target.number, ranks), target)

    def group(self) -> None:
        """Find the members of the group that the call names."""
        if (known := self._values.get("group")) is not None:
            self._set("group", self._library.group(known.number), known)

    def requests(self) -> None:
        """Find the requests of a call that waits, tests or starts."""
        reader = RequestReader(self._library)
        waits_for = PROTOTYPES[self._call.function].waits_for
        if (handle := self._values.get("request_handle")) is not None:
            self._set("requests", (reader.of(handle.number),), handle)
            self._fields["waits_for"] = waits_for
            return
        place = self._values.get("request") or self._values.get("requests")
        if place is None:
            return
        count = Known(1, place.source)
        if "requests" in self._values:
            found = self._values.get("number")
            if found is None:
                return
            count = found
        if not 0 <= count.number <= _MOST_REQUESTS:
            return
        requests = reader.read(place.number, count.number, is_fortran=place.is_fortran)
        self._set("requests", requests, place)
        self._fields["waits_for"] = waits_for

    def awaited(self) -> None:
        """Find the ranks whose messages a call of neighbours, or one that gathers, still needs."""
        function, group = self._call.function, self._fields.get("communicator")
        is_of_neighbours = function.startswith(NEIGHBOURHOOD)
        if not isinstance(group, Communicator) or not (is_of_neighbours or function in GATHERING):
            return
        # Inner members of a tree wait for one rank each, so that their records differ.
        is_root = self._fields.get("root") == self._library.rank
        if not is_of_neighbours and not is_root and self._library.size > _MOST_IN_TREE:
            return
        found = open_receives(self._library, self._frames, self._level, group)
        if not found.awaited:
            return
        self._fields["neighbours" if is_of_neighbours else "awaits"] = str(found.awaited)
        if is_root and (found.came or self._is_begin(function, found.awaited)):
            part = part_that_came(self._library, found.groups, function)
            if part is not None or found.came:
                self._fields["came"] = str(found.came | (part or RankSet()))

    def _is_begin(self, function: str, awaited: RankSet) -> bool:
        ranks, root = self._ranks, self._fields.get("root")
        if ranks is None or not isinstance(root, int):
            return False
        return is_begin(self._library.family, function, ranks, root, awaited)

    def own_request(self) -> None:
        """Find the peer and the tag in the request that the call itself has made."""
        kind = own_kind(self._call.function)
        fields = self._fields
        communicator = fields.get("communicator")
        peer = "source" if kind == "recv" else "dest"
        if kind is None or not isinstance(communicator, Communicator):
            return
        if peer in fields and "tag" in fields:
            return
        count = self._values.get("count")
        found = own_request(
            self._library,
            self._frames,
            self._level,
            kind,
            communicator,
            None if count is None else count.number,
        )
        if found is None:
            return
        both = {peer: found.peer, "tag": found.tag}
        if any(name in fields and fields[name] != value for name, value in both.items()):
            return
        for name, value in both.items():
            if name not in fields and value is not None:
                fields[name] = value
                self._sources.append(FieldSource(name, "request"))
