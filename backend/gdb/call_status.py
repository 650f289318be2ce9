"""The MPI calls of one rank, found with its GDB: stacks of the threads, then their arguments."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from pgdb.backend.gdb import decode
from pgdb.backend.gdb.awaited_threads import end_of_rank
from pgdb.backend.gdb.called_names import CalledNames
from pgdb.backend.gdb.child_waits import children_of, waits_for_child
from pgdb.backend.gdb.handled_signals import with_deaths
from pgdb.backend.gdb.machine_frames import machine_frames, thread_pointer
from pgdb.backend.gdb.mi import Result
from pgdb.backend.gdb.mpi_frames import (
    Objects,
    Owner,
    Place,
    find_callback,
    find_mpi_call,
    internal_name,
    is_of_runtime,
    mpi_name,
    owner_of,
)
from pgdb.backend.gdb.python_operations import operation_around
from pgdb.backend.gdb.python_stacks import PYTHON, MixedStack, PythonStacks
from pgdb.backend.gdb.python_waits import PythonWaits, Waits, evaluates, is_of_interpreter
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.rank_image import ImageOf, ProcessImage, RankImage
from pgdb.backend.gdb.selected_thread import restore
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.thread_calls import awaited_calls
from pgdb.backend.gdb.written_arguments import written_arguments
from pgdb.backend.mpi_calls import recorder
from pgdb.backend.mpi_calls.blocking import Blocking
from pgdb.backend.mpi_calls.describe import Look, Stack
from pgdb.backend.mpi_calls.frames import MachineFrame
from pgdb.backend.mpi_calls.loops import loop_of
from pgdb.backend.mpi_calls.recorded_progress import RecordedCalls, recent_calls
from pgdb.backend.mpi_calls.source_line import words_of
from pgdb.backend.python import glue, torch_calls
from pgdb.backend.python.reader import PythonFrame
from pgdb.errors import CommandError
from pgdb.mpi_calls import (
    ArrivedMessage,
    CallSite,
    CallState,
    ChildWork,
    FieldSource,
    Loop,
    MpiCall,
    MpiCallStatus,
)
from pgdb.mpi_functions import properties_of, standard_name
from pgdb.overlay.messages import ListMpiCalls
from pgdb.records import Frame, Record

_INIT_SYMBOL = "&PMPI_Init"
_LINKED = (
    "the MPI library is linked into the program, where PGDB reads no arguments; with a shared "
    "library it does"
)
_NAMELESS = "the program has no symbols, so that an MPI library in it is not recognized"


class _Looked(msgspec.Struct, frozen=True):
    """The part of a status that the memory of the process says."""

    state: CallState
    calls: tuple[MpiCall, ...] = ()
    note: str = ""
    arrived: tuple[ArrivedMessage, ...] = ()


def _look(
    source: RankImage, thread_pointer: int | None, stacks: Sequence[Stack], *, arrived: bool
) -> _Looked:
    """Find the arguments of calls in the memory of a stopped process."""
    if thread_pointer is None:
        return _Looked("outside")
    try:
        look = Look(source, thread_pointer)
    except OSError as error:
        return _Looked("outside", note=f"its memory cannot be read: {error.strerror}")
    try:
        calls = tuple(look.call(stack) for stack in stacks)
        state = look.state() if not stacks else "in_call"
        messages = look.arrived(calls) if arrived else ()
        return _Looked(state, calls, look.note, messages)
    except ImportError as error:
        # As on a host whose Python has not all packages.
        return _Looked("outside", note=f"arguments are unknown: {error}")
    finally:
        look.close()


class _Stopped(NamedTuple):
    """A stopped process."""

    image: RankImage
    stacks: Sequence[tuple[str, tuple[Place, ...]]]
    """The stack of each thread, by GDB's number of the thread; that of the first thread first."""
    numbers: Mapping[str, int]
    """The kernel's number of each thread."""
    objects: Objects


class _Found(NamedTuple):
    """A call that a thread is in, by the names on its stack."""

    number: int
    """Place of the thread in the list of stacks."""
    thread: str
    level: int
    """Level of the frame that has called MPI."""
    call: MpiCall
    frames: tuple[MachineFrame, ...]
    outer: int
    """Index of the first one outside MPI."""
    where: CallSite | None
    """The place of the user's code."""
    line: CallSite | None
    """The place of the frame that has called MPI."""


class CallStatus:
    """Finder of the MPI calls of the rank of one GDB."""

    def __init__(
        self,
        gdb: GdbSession,
        python: PythonStacks,
        called_names: CalledNames,
        image_of: ImageOf = ProcessImage,
    ) -> None:
        self._gdb = gdb
        self._python = python
        self._called_names = called_names
        self._image_of = image_of
        self._recorded = RecordedCalls()
        self._blocking = Blocking()
        self._waits = PythonWaits(python)

    async def recorded(self, pid: int, last: int = 0) -> Record:
        """Return the call that the process *pid* is in, from its recorder, or its *last* calls; it
        may run."""
        image = self._image_of(pid)
        if last:
            return await asyncio.to_thread(recent_calls, image, last)
        return await asyncio.to_thread(self._recorded.look, image, pid)

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
        image = self._image_of(pid)
        files = image.mapped()
        objects = Objects(files, image.executable)
        # In most programs the first thread makes the calls that other ranks wait for.
        ordered = sorted(threads, key=lambda each: each.process != image.pid)
        if not asked.threads:
            ordered = ordered[:1]
        asked_of = self._gdb.send_together(
            *(f"-stack-list-frames --thread {each.id}" for each in ordered)
        )
        results = await asyncio.gather(*asked_of)
        stacks = [
            (each.id, await self._called_names.with_c_library(_places(result, objects)))
            for each, result in zip(ordered, results, strict=True)
        ]
        numbers = {each.id: each.process for each in ordered}
        status = await self._status(_Stopped(image, stacks, numbers, objects), asked)
        if isinstance(image, ProcessImage):
            thread = numbers.get(status.thread, image.pid)
            status = self._blocking.looked(status, image, image.pid, thread)
        if any(recorder.is_recorder(each.path) for each in files):
            status = recorder.with_records(status, image, numbers)
        if frame := selected.payload.get("frame"):
            await restore(self._gdb, str(listed.payload.get("current-thread-id", "1")), frame)
        return status

    async def _status(self, rank: _Stopped, asked: ListMpiCalls) -> MpiCallStatus:
        image, stacks, objects = rank.image, rank.stacks, rank.objects
        found = await self._found(rank)
        thread, places = stacks[0]
        is_outside = not any(each.number == 0 for each in found)
        around = None if found else find_callback(places, has_mpi=objects.has_mpi)
        pointer = await thread_pointer(self._gdb, thread) if objects.has_mpi else None
        loop: Loop = ""
        if asked.loops and (is_outside or found[0].call.blocking is False):
            frames, _ = await machine_frames(self._gdb, thread, places, -1)
            loop = await asyncio.to_thread(loop_of, image, pointer, frames, _code_of)
        stopped = [Stack(each.frames, each.outer, each.call) for each in found]
        if around is not None:
            site = await self._site(image, places, around + 1, objects, thread)
            frames, outer = await machine_frames(self._gdb, thread, places, around)
            stopped.append(Stack(frames, outer, _by_name(places, around, site, "")))
        look = functools.partial(_look, image, pointer, arrived=asked.arrived)
        looked = await self._looked(look, stopped, found)
        last, is_deadlock, waits = 0, False, Waits()
        if is_outside:
            waits = await self._waits.look(image, stacks, rank.numbers)
            if asked.loops:
                python_loop = await self._waits.loop(image.pid, waits.threads.get(image.pid))
                loop = python_loop or loop
            last, is_deadlock = await asyncio.to_thread(
                end_of_rank, image, stacks, rank.numbers, waits.awaited
            )
        calls = (looked.calls or tuple(each.call for each in found)) if found else ()
        if found and is_outside:
            by_thread = dict(zip([each.number for each in found], calls, strict=True))
            calls = awaited_calls(by_thread, [each for _, each in stacks], last)
        if calls:
            where = calls[0].where or found[0].where
            calls = await asyncio.to_thread(_with_words, calls, where)
            return MpiCallStatus(
                state="in_call",
                where=where,
                calls=calls,
                note=looked.note if objects.has_mpi else _LINKED,
                loop=loop,
                arrived=looked.arrived,
            )
        if (status := await self._of_torch(image, places, objects)) is not None:
            return status
        if stopped:
            # A thread in a call, and a call around a function of the user's, are in MPI.
            looked = replace(looked, state="outside")
        status = await self._outside(rank, looked, last, waits)
        if is_deadlock:
            status = replace(status, activity="deadlock")
        callback_of = None if around is None else next(iter(looked.calls), None)
        return replace(status, loop=loop, callback_of=callback_of)

    async def _found(self, rank: _Stopped) -> list[_Found]:
        """Return the call of each thread that is in one."""
        found: list[_Found] = []
        for number, (thread, places) in enumerate(rank.stacks):
            at = find_mpi_call(places, has_mpi=rank.objects.has_mpi)
            if at is None or (number and is_of_runtime(places)):
                continue
            site = await self._site(rank.image, places, at + 1, rank.objects, thread)
            call = _by_name(places, at, site if found else None, thread if number else "")
            frames, outer = await machine_frames(self._gdb, thread, places, at)
            line = _site(places[at + 1 : at + 2])
            found.append(_Found(number, thread, at + 1, call, frames, outer, site, line))
        return found

    async def _looked(
        self,
        look: Callable[[Sequence[Stack]], _Looked],
        stopped: Sequence[Stack],
        found: Sequence[_Found],
    ) -> _Looked:
        """Find the arguments of calls in memory, with those that their source lines have."""
        looked = await asyncio.to_thread(look, stopped)
        written = [
            await written_arguments(self._gdb, each.thread, each.level, call, each.line)
            for call, each in zip(looked.calls, found, strict=False)
        ]
        if not any(written):
            return looked
        stopped = [
            replace(each, written=values) for each, values in zip(stopped, written, strict=True)
        ]
        return await asyncio.to_thread(look, stopped)

    async def _outside(
        self, rank: _Stopped, looked: _Looked, last: int, waits: Waits
    ) -> MpiCallStatus:
        """Return the work of a rank outside MPI; *last* is the thread that it waits for."""
        image, objects = rank.image, rank.objects
        thread, places = rank.stacks[last]
        number = rank.numbers[thread]
        places = await with_deaths(self._gdb, image, thread, number, places)
        state, note = looked.state, looked.note
        if not objects.has_mpi and not await self._is_linked_statically():
            state = "no_mpi"
            is_nameless = not objects.is_python and any(map(_is_nameless, rank.stacks[0][1]))
            note = _NAMELESS if is_nameless else ""
        activity, inside = waits.described(number, places, objects)
        children: tuple[ChildWork, ...] = ()
        if isinstance(image, ProcessImage) and waits_for_child(inside):
            children = await children_of(image.pid, self._python.reader)
        return MpiCallStatus(
            state=state,
            where=await self._site(image, places, 0, objects, thread),
            activity=activity,
            thread=thread if last else "",
            inside=inside,
            children=children,
            note=note,
        )

    async def _of_torch(
        self, image: RankImage, places: Sequence[Place], objects: Objects
    ) -> MpiCallStatus | None:
        """Return the call of torch.distributed that the first thread is in, None for none."""
        evaluator = next((n for n, each in enumerate(places) if evaluates(each)), None)
        if not objects.has_torch or evaluator is None or not isinstance(image, ProcessImage):
            return None
        mixed = await self._python.mixed(
            image.pid, places, objects, mode="none", rules=glue.Rules()
        )
        if isinstance(mixed, str) or mixed.users is None:
            return None
        frames = [each for each in mixed.python if each is not None]
        inner = [each.frame.function for each in places[:evaluator]]
        call = await asyncio.to_thread(self._call_of_torch, image.pid, frames, inner)
        if call is None:
            return None
        where = _of_frame(mixed.places[mixed.users].frame)
        return MpiCallStatus(state="in_call", where=where, calls=(call,))

    def _call_of_torch(
        self, pid: int, frames: Sequence[PythonFrame], inner: Sequence[str]
    ) -> MpiCall | None:
        try:
            interpreter = self._python.interpreter_of(pid)
        except CommandError:
            interpreter = None
        return torch_calls.call_of(frames, inner, interpreter)

    async def _site(
        self, image: RankImage, places: Sequence[Place], begin: int, objects: Objects, thread: str
    ) -> CallSite | None:
        """Return the innermost place of the user's code among the frames of a thread from *begin*
        on, in Python if that executes it."""
        outer = places[begin:]
        evaluator = next((n for n, each in enumerate(outer) if evaluates(each)), None)
        if evaluator is None and begin and objects.is_python:
            # At its end the interpreter calls MPI_Finalize; its own lines say nothing.
            outer = [
                each
                for each in outer
                if each.owner is Owner.USER and not is_of_interpreter(each, objects)
            ]
            return _site(outer) if outer else None
        if evaluator is None:
            return _site(outer)
        mixed: MixedStack | str = ""
        if isinstance(image, ProcessImage):  # the reader of Python frames reads no core files
            rules = glue.Rules()
            mixed = await self._python.mixed(
                image.pid, places, objects, mode="none", rules=rules, thread=thread
            )
        if not isinstance(mixed, str) and (users := mixed.users) is not None:
            # A library of the user's, called by Python, is nearer to the call.
            own = (
                each
                for each in mixed.places[:users]
                if each.owner is Owner.USER and not is_of_interpreter(each, objects)
            )
            near = (each for each in own if each.frame.line and each.frame.language != PYTHON)
            return _of_frame(next(near, mixed.places[users]).frame)
        # The interpreter's own lines say nothing.
        own = (each for each in outer[:evaluator] if not is_of_interpreter(each, objects))
        nearest = next(own, outer[evaluator])
        function = glue.plain_name(nearest.frame.function)
        return CallSite(function=function, library="" if function else nearest.frame.library)

    async def _is_linked_statically(self) -> bool:
        """Return whether the program itself has MPI's functions."""
        return (
            await self._gdb.ask_together(f"-data-evaluate-expression {_INIT_SYMBOL}")[0]
        ).kind == "done"


def _code_of(path: str) -> Literal["user", "c", ""]:
    owner = owner_of(path)
    if owner is Owner.USER:
        return "user"
    return "c" if owner is Owner.C_RUNTIME else ""


def _is_nameless(place: Place) -> bool:
    """Return whether a frame is one of the program, in a function without a name."""
    return place.owner is Owner.USER and place.frame.function in ("", "??")


def _with_words(calls: Sequence[MpiCall], where: CallSite | None) -> tuple[MpiCall, ...]:
    """Return the calls with their arguments as the source lines have them."""
    found = []
    for call in calls:
        site = call.where or where
        words = words_of(site.fullname, site.line, call.function) if site is not None else ()
        found.append(replace(call, words=words) if words else call)
    return tuple(found)


def _places(result: Result, objects: Objects) -> tuple[Place, ...]:
    """Return the frames of a result of -stack-list-frames; none where GDB has none."""
    if result.kind != "done":
        return ()
    frames, addresses = decode.frames_of(result.line)
    return tuple(
        Place(frame, address, objects.owner(address, frame.library))
        for frame, address in zip(frames, addresses, strict=True)
    )


def _site(places: Sequence[Place]) -> CallSite | None:
    """Return the innermost place of the user's code among frames, innermost first."""
    # A function with the name of a call is a measuring tool's, or the user's own wrapper.
    others = [each for each in places if not each.call]
    users = [each.frame for each in others if each.owner is Owner.USER]
    frames = users or [each.frame for each in places]
    with_line = decode.users_source(each for each in frames if each.line)
    found = with_line or next(iter(frames), None)
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
        part_of=operation_around(places, at),
        sources=sources,
    )
