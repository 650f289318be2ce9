"""The MPI calls of one rank, found with its GDB: stacks of the threads, then their arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from pgdb.backend.gdb import decode
from pgdb.backend.gdb.activities import activity_of
from pgdb.backend.gdb.deaths import find_deaths
from pgdb.backend.gdb.mi import Result
from pgdb.backend.gdb.mpi_frames import (
    Objects,
    Owner,
    Place,
    find_mpi_call,
    internal_name,
    is_of_runtime,
    mpi_name,
    objects_of,
)
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.selected_thread import restore
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.mpi_calls.prototypes import properties_of, standard_name
from pgdb.backend.sbd.rank_files import mapped
from pgdb.mpi_calls import CallSite, FieldSource, MpiCall, MpiCallStatus
from pgdb.overlay.messages import ListMpiCalls
from pgdb.records import Frame, Record

_INIT_SYMBOL = "&PMPI_Init"


class CallStatus:
    """Finds the MPI calls of the rank of one GDB."""

    def __init__(self, gdb: GdbSession) -> None:
        self._gdb = gdb

    async def look(self, pid: int, asked: ListMpiCalls) -> Record:
        """Return the MPI calls of the stopped process *pid*.

        :raises GdbError: if GDB ends.
        """
        together = self._gdb.ask_together("-thread-info", "-stack-info-frame")
        listed, selected = await asyncio.gather(*together)
        if listed.kind != "done":
            return failure(listed)
        threads = decode.threads(listed.payload)
        if not threads:
            return failure(Result(kind="error", payload={"msg": "No threads."}))
        objects = objects_of(pid, tuple(mapped(pid)))
        # In most programs the first thread makes the calls that other ranks wait for.
        ordered = sorted(threads, key=lambda each: each.process != pid)
        if not asked.threads:
            ordered = ordered[:1]
        asked_of = self._gdb.send_together(
            *(f"-stack-list-frames --thread {each.id}" for each in ordered)
        )
        results = await asyncio.gather(*asked_of)
        stacks = [
            (each.id, _places(result, objects))
            for each, result in zip(ordered, results, strict=True)
        ]
        status = await self._status(stacks, objects)
        if frame := selected.payload.get("frame"):
            await restore(self._gdb, str(listed.payload.get("current-thread-id", "1")), frame)
        return status

    async def _status(
        self, stacks: Sequence[tuple[str, tuple[Place, ...]]], objects: Objects
    ) -> MpiCallStatus:
        calls: list[MpiCall] = []
        where = None
        for number, (thread, places) in enumerate(stacks):
            at = find_mpi_call(places, has_mpi=objects.has_mpi)
            if at is None or (number and is_of_runtime(places)):
                continue
            site = _site(places[at + 1 :])
            where = where if calls else site
            calls.append(_by_name(places, at, site if calls else None, thread if number else ""))
        if calls:
            return MpiCallStatus(state="in_call", where=where, calls=tuple(calls))
        if not objects.has_mpi and not await self._is_linked_statically():
            state = MpiCallStatus(state="no_mpi")
        else:
            state = MpiCallStatus(state="outside")
        places = _with_deaths(stacks[0][1])
        return MpiCallStatus(state=state.state, where=_site(places), activity=activity_of(places))

    async def _is_linked_statically(self) -> bool:
        """Return whether the program itself has MPI's functions."""
        return (
            await self._gdb.ask_together(f"-data-evaluate-expression {_INIT_SYMBOL}")[0]
        ).kind == "done"


def _places(result: Result, objects: Objects) -> tuple[Place, ...]:
    """Return the frames of a result of -stack-list-frames; none where GDB has none."""
    if result.kind != "done":
        return ()
    frames, addresses = decode.frames_of(result.line)
    return tuple(
        Place(frame, address, objects.owner(address, frame.library))
        for frame, address in zip(frames, addresses, strict=True)
    )


def _with_deaths(places: tuple[Place, ...]) -> tuple[Place, ...]:
    for dying in find_deaths(places):
        place = places[dying.level]
        place = place._replace(frame=replace(place.frame, dying=dying.row.bare or dying.row.says))
        return (*places[: dying.level], place, *places[dying.level + 1 :])
    return places


def _site(places: Sequence[Place]) -> CallSite | None:
    """Return the innermost place of the user's code among frames, innermost first."""
    users = [each.frame for each in places if each.owner is Owner.USER]
    frames = users or [each.frame for each in places]
    found = next((each for each in frames if each.line), None)
    if found is None:
        found = frames[0] if frames else None
    return None if found is None else _of_frame(found)


def _of_frame(frame: Frame) -> CallSite:
    return CallSite(
        function="" if frame.function == "??" else frame.function,
        file=frame.file,
        line=frame.line,
        fullname=frame.fullname,
        library="" if frame.line else frame.library.rpartition("/")[2],
    )


def _by_name(places: Sequence[Place], at: int, where: CallSite | None, thread: str) -> MpiCall:
    """Return the call of the frame at *at* by the names of functions alone."""
    name = ""
    for place in reversed(places[: at + 1]):
        if name := mpi_name(internal_name(place.frame.function)):
            break
    function = standard_name(name) or name.removeprefix("P") or places[at].frame.function
    kind, blocking = properties_of(function)
    sources = (FieldSource("function", "name"),) if name else ()
    return MpiCall(
        function=function,
        kind=kind,
        blocking=blocking,
        where=where,
        thread=thread,
        sources=sources,
    )
