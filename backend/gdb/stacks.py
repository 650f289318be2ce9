"""The stacks of one rank, of the selected thread or of all, folded so that they can be compared."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from pgdb.backend.gdb import decode, python_tasks
from pgdb.backend.gdb.called_names import CalledNames
from pgdb.backend.gdb.death_text import DeathTexts
from pgdb.backend.gdb.deaths import find_deaths, is_last_call, outer_user, text_in_arguments, words
from pgdb.backend.gdb.fortran_arguments import whole_arguments
from pgdb.backend.gdb.frame_arguments import FrameArguments
from pgdb.backend.gdb.frame_offsets import FrameOffsets
from pgdb.backend.gdb.gpu_words import is_on_another_processor
from pgdb.backend.gdb.mi import Result
from pgdb.backend.gdb.mpi_frames import (
    Objects,
    Owner,
    Place,
    find_mpi_call,
    internal_name,
    is_of_runtime,
    mpi_name,
    named,
)
from pgdb.backend.gdb.python_stacks import NO_PYTHON, MixedStack, PythonStacks, python_only
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.rank_image import ImageOf, ProcessImage
from pgdb.backend.gdb.selected_thread import restore
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.unnamed import SIGNAL_FRAME, UNNAMED, UnnamedCode
from pgdb.backend.python import glue
from pgdb.backend.python.reader import GET
from pgdb.backend.sbd.rank_files import MappedFile
from pgdb.overlay.messages import Backtrace
from pgdb.records import Failure, Frame, Record, Stack, Threads, ThreadStack

# Keyed by the identity of shapes, which :mod:`.gdb.mi` caches for recurring lines.
_KNOWN: dict[tuple[object, ...], Stack] = {}
_MOST_KNOWN = 256
_PLAIN = Backtrace()


class _Listed(msgspec.Struct, frozen=True):
    """The frames of the selected thread, valid until GDB has a reason to compute them again."""

    limit: int
    """Number of frames requested, 0 for all."""
    changes: int
    """Change counter of the GDB session at the request."""
    result: Result
    frames: tuple[Frame, ...]
    """Frames without arguments."""
    addresses: tuple[int, ...]
    owners: tuple[Owner, ...]
    key: tuple[object, ...]
    """Inputs of the stack other than GDB's lines: the owners, and whether MPI is a library."""
    arguments: Result | None = None
    """Values of the arguments, if GDB would not read them again either."""

    def has(self, limit: int) -> bool:
        """Return whether these frames answer a request for *limit* frames."""
        return limit == self.limit or (not limit and len(self.frames) < self.limit)


class Stacks:
    """Reader of stacks from the GDB of one rank, with a cache of facts about the program."""

    def __init__(
        self,
        gdb: GdbSession,
        stop_printing: Callable[[], None] = lambda: None,
        image_of: ImageOf = ProcessImage,
    ) -> None:
        self.arguments = FrameArguments(lambda: gdb.is_alive, stop_printing, gdb.lent)
        """Settings for the arguments of frames."""
        self.gdb = self._gdb = gdb
        self.image_of = image_of
        self._death_texts = DeathTexts(gdb, image_of)
        self.python = PythonStacks(gdb)
        self.death_code: int | None = None
        """Error code or status with which the rank is about to end, as its current stop says."""
        self._pid = 0
        self._listed: _Listed | None = None
        # All three are valid until an object is loaded or unloaded; the last two are by address.
        self._objects: Objects | None = None
        self._is_early = False  # _objects are from shortly before the stop
        self._unnamed = UnnamedCode(image_of)
        self._offsets = FrameOffsets(gdb, lambda: self._unnamed)
        self.called_names = CalledNames(gdb)

    def know(self, pid: int, mappings: Sequence[MappedFile]) -> None:
        """Store the mappings of *pid* from shortly before its stop, if there are any."""
        self._unnamed.forget()
        if mappings:
            self._pid, self._objects = pid, Objects(mappings, self.image_of(pid).executable)
            self._is_early = True

    def on_notice(self, name: str, payload: Mapping[str, Any]) -> None:
        """Record a changed setting; drop all caches by address if libraries have changed."""
        self.arguments.on_notice(name, payload)
        if name in ("library-loaded", "library-unloaded"):
            self._objects = self._listed = None
            self._unnamed.forget()
            self._offsets.clear()
            self.called_names.clear()

    async def backtrace(self, pid: int, asked: Backtrace) -> Record:
        """List the frames of the selected thread, or of all threads, of the process *pid*."""
        if asked.tasks:
            return await python_tasks.stacks(self.python, pid, asked.limit)
        if asked.threads:
            return await self._threads(pid, asked)
        listed, arguments = await self._ask(pid, _limit(asked))
        if listed.result.kind != "done":
            return failure(listed.result)
        if (asked.fold or asked.only_python) and self._has_python(listed.frames):
            return await self._mixed_stack(pid, asked)
        if asked.only_python:
            return Failure(message=NO_PYTHON)
        if asked.whole or (self.arguments.lists_safely and not asked.offsets):
            return await self._stack_in_full(listed, asked)
        if not asked.offsets and arguments.kind == "done":
            return await self._stack_like_others(listed, arguments, asked)
        places = self._with_arguments(listed, arguments)
        if asked.offsets:
            await self._offsets.learn([places])
        return await self._stack(places, asked)

    async def folded(self, pid: int, limit: int) -> tuple[Frame, ...]:
        """Return the *limit* innermost frames of the selected thread, folded at an MPI call.

        If GDB has no frame, the result is empty. The levels are GDB's.
        """
        listed, arguments = await self._ask(pid, limit)
        self.python.latest, self.python.advice = None, ""
        if listed.result.kind != "done":
            return ()
        if self._has_python(listed.frames):
            mixed = await self.mixed(pid)
            if not isinstance(mixed, str):
                self.python.latest = mixed
                return await self._fold(mixed.places)
            self.python.advice = mixed if GET in mixed else ""
        return await self._fold(self._with_arguments(listed, arguments))

    async def may_have_python(self, pid: int) -> bool:
        """Return whether the rank may have Python frames."""
        listed, _ = await self._ask(pid, 0)
        return self._has_python(listed.frames)

    def _has_python(self, frames: Sequence[Frame]) -> bool:
        """Return whether the rank may have Python frames."""
        has_python = self._objects is not None and self._objects.has_python
        return has_python or any(glue.evaluates(each.function) for each in frames)

    async def mixed(self, pid: int, asked: Backtrace = _PLAIN) -> MixedStack | str:
        """Return the C and Python frames of the selected thread; why there are none, if known."""
        listed, arguments = await self._ask(pid, 0)
        if listed.result.kind != "done":
            return listed.result.message
        places = self._with_arguments(listed, arguments)
        return await self._mixed(pid, places, asked)

    async def _mixed(
        self, pid: int, places: Sequence[Place], asked: Backtrace, thread: str = ""
    ) -> MixedStack | str:
        mode = "all" if asked.whole else self.arguments.mode
        rules, objects = glue.Rules(asked.glue), self._objects_of(pid)
        return await self.python.mixed(pid, places, objects, mode=mode, rules=rules, thread=thread)

    async def _mixed_stack(self, pid: int, asked: Backtrace) -> Record:
        mixed = await self.mixed(pid, asked)
        if asked.only_python:
            stack = python_only(mixed, asked.limit)
            return python_tasks.with_note(stack, self.python) if isinstance(stack, Stack) else stack
        if not isinstance(mixed, str):
            if asked.offsets:
                await self._offsets.learn([mixed.places])
            return python_tasks.with_note(await self._stack(mixed.places, asked), self.python)
        places = self._with_arguments(*await self._ask(pid, 0))
        if asked.offsets:
            await self._offsets.learn([places])
        return replace(await self._stack(places, asked), note=mixed)

    async def innermost(self, pid: int) -> tuple[Frame, ...]:
        """Return the innermost frame of the selected thread; nothing if GDB has no frame."""
        listed, arguments = await self._ask(pid, 1)
        if listed.result.kind != "done" or arguments.kind != "done":
            return ()
        return tuple(each.frame for each in self._with_arguments(listed, arguments))

    async def innermost_offset(self, pid: int) -> str:
        """Return the offset of the next instruction in its function, such as ``+31``."""
        listed, _ = await self._ask(pid, 2)
        places = tuple(map(Place, listed.frames, listed.addresses, listed.owners))
        await self._offsets.learn([places[:1]])
        return next(iter(self._offsets.of(places)), "")

    def named(self, pid: int, frame: Frame | None, payload: Any) -> Frame | None:
        """Return the frame of a ``frame={…}`` of GDB with a name for its function."""
        if frame is None or frame.function != UNNAMED:
            return frame
        return self._with_names(pid, (frame,), decode.addresses([payload]))[0]

    # -- threads -----------------------------------------------------------------------------

    async def _threads(self, pid: int, asked: Backtrace) -> Record:
        asked_both = self._gdb.send_together("-thread-info", "-stack-info-frame")
        listed, selected = await asyncio.gather(*asked_both)
        if listed.kind != "done":
            return failure(listed)
        threads = decode.threads(listed.payload)
        answers = await asyncio.gather(
            *(self._list_thread(pid, each.id, _limit(asked)) for each in threads)
        )
        selected_thread = str(listed.payload.get("current-thread-id", ""))
        stacks: list[tuple[Sequence[Place], bool, bool, str, str]] = []
        places: Sequence[Place]
        first = self.image_of(pid).pid
        if frame := selected.payload.get("frame"):
            await restore(self._gdb, selected_thread or "1", frame)
            if is_on_another_processor(frame, listed.payload):
                places = self._with_arguments(*await self._ask(pid, _limit(asked)))
                stacks.append((places, False, True, "", ""))
                selected_thread = ""
        for thread, answer in zip(threads, answers, strict=True):
            is_cut = isinstance(answer, Failure)
            # The stack of a thread may be damaged: then only its innermost frame is shown.
            places = (
                self._places(pid, *self._standing(pid, thread.frames))
                if isinstance(answer, Failure)
                else answer
            )
            words = note = ""
            if asked.fold and not is_cut and self._has_python([each.frame for each in places]):
                mixed = await self._mixed(pid, places, asked, thread.id)
                if isinstance(mixed, str):
                    note = mixed
                else:
                    places, words = mixed.places, mixed.words
            if not asked.fold or thread.process == first or not is_of_runtime(places):
                stacks.append((places, is_cut, thread.id == selected_thread, words, note))
        if asked.offsets:
            await self._offsets.learn([each[0] for each in stacks])
        shown = []
        for places, is_cut, is_selected, words, note in stacks:
            stack = await self._stack(places, asked, is_cut=is_cut, is_selected=is_selected)
            shown.append(replace(stack, thread=words, note=note) if words or note else stack)
        hidden = str(len(threads) - len(shown)) if asked.fold else ""
        # Stacks that differ only in irrelevant parts become equal when records are normalized.
        counts = Counter(shown)
        return Threads(
            stacks=tuple(ThreadStack(stack, count) for stack, count in counts.items()),
            hidden=hidden,
        )

    # -- listing -----------------------------------------------------------------------------

    async def _ask(self, pid: int, limit: int) -> tuple[_Listed, Result]:
        """Request frames of the selected thread, 0 for all, and the values of their arguments.

        Frames from an earlier answer are reused if nothing has happened since: GDB would not
        compute them again either, nor read its copy of the stack anew. Values elsewhere in memory
        may have changed, since other processes may write there.
        """
        gdb, listed = self._gdb, self._listed
        where = f"@{_window(limit)}"
        if listed is not None and listed.changes == gdb.changes and listed.has(limit):
            if listed.arguments is not None:
                return listed, listed.arguments
            (asked,) = self.arguments.ask(gdb.ask_together, where=where)
            return listed, await self.arguments.result(asked)
        changes = gdb.changes
        frames_command = f"-stack-list-frames{_window(limit)}"
        asked_first, asked = self.arguments.ask(gdb.ask_together, frames_command, where=where)
        result = await asked_first
        shared, addresses = decode.frames_of(result.line)
        frames = self._with_names(pid, shared, addresses)
        objects = self._objects_of(pid)
        pairs = zip(addresses, frames, strict=True)
        if self._is_early and not all(map(objects.has, addresses)):
            # The code was loaded after the mappings were read, or is in no file.
            self._objects = None
            objects = self._objects_of(pid)
        owners = tuple([objects.owner(address, frame.library) for address, frame in pairs])
        # Strings cache their hashes; members of an enumeration compute theirs each time.
        names = () if frames is shared else [each.function for each in frames]
        key = (objects.has_mpi, *[each.value for each in owners], *names)
        listed = _Listed(limit, changes, result, frames, addresses, owners, key)
        self._listed = listed if result.kind == "done" else None
        arguments = await self.arguments.result(asked)
        if self._listed is listed and decode.are_on_stack(frames, arguments.line):
            self._listed = replace(listed, arguments=arguments)
        return listed, arguments

    async def _list_thread(self, pid: int, thread: str, limit: int) -> tuple[Place, ...] | Failure:
        # GDB switches to the thread and back, and then computes frames anew.
        asked, asked_too = self.arguments.ask(
            self._gdb.send_together,
            f"-stack-list-frames --thread {thread}{_window(limit)}",
            where=f"--thread {thread} @{_window(limit)}",
        )
        return self._placed(pid, await asked, await self.arguments.result(asked_too))

    def _placed(self, pid: int, listed: Result, arguments: Result) -> tuple[Place, ...] | Failure:
        if listed.kind != "done":
            return failure(listed)
        frames, addresses = decode.frames_of(listed.line)
        frames = self._with_names(pid, frames, addresses)
        values = self.arguments.shown(frames, arguments)
        frames = decode.with_arguments(frames, values, whole=self.arguments.are_whole)
        return self._places(pid, frames, addresses)

    async def _stack_in_full(self, listed: _Listed, asked: Backtrace) -> Record:
        """Return the stack with whole arguments."""
        if any(map(decode.is_of_fortran, listed.frames)):
            whole = await whole_arguments(self._gdb, listed.frames)
            frames = decode.with_arguments(listed.frames, whole, whole=True)
            places = tuple(map(Place, frames, listed.addresses, listed.owners))
            return await self._stack(places, asked)
        where = f"@{_window(_limit(asked))}"
        arguments = await self.arguments.result(
            self.arguments.ask_whole(self._gdb.ask_together, where)
        )
        if arguments.kind != "done":
            return failure(arguments)
        values = decode.arguments_of(arguments.line)
        frames = decode.with_arguments(listed.frames, values, whole=True)
        return await self._stack(tuple(map(Place, frames, listed.addresses, listed.owners)), asked)

    async def _stack_like_others(
        self, listed: _Listed, arguments: Result, asked: Backtrace
    ) -> Record:
        """Return the stack; ranks of a host with equal lines from GDB share it.

        The stack depends only on GDB's lines without their addresses, on the owners of the frames
        and on the values of arguments, unless an address has to be looked up.
        """
        shape, others = listed.result.line.shape, arguments.line.shape
        if shape is None or others is None or (shape.varying_count and not shape.frames):
            return await self._stack(self._with_arguments(listed, arguments), asked)
        settings = self.arguments.settings
        key = (shape, others, tuple(arguments.line.varying), listed.key, asked, settings)
        stack = _KNOWN.get(key)
        if stack is None:
            places = self._with_arguments(listed, arguments)
            stack = await self._stack(places, asked)
            if not self._looks_up(places, asked):
                while len(_KNOWN) >= _MOST_KNOWN:
                    del _KNOWN[next(iter(_KNOWN))]
                _KNOWN[key] = stack
        return stack

    def _with_arguments(self, listed: _Listed, arguments: Result) -> tuple[Place, ...]:
        values = self.arguments.shown(listed.frames, arguments)
        frames = decode.with_arguments(listed.frames, values, whole=self.arguments.are_whole)
        return tuple(map(Place, frames, listed.addresses, listed.owners))

    def _places(
        self, pid: int, frames: Sequence[Frame], addresses: Sequence[int]
    ) -> tuple[Place, ...]:
        owner = self._objects_of(pid).owner
        return tuple(
            [
                Place(frame, address, owner(address, frame.library))
                for frame, address in zip(frames, addresses, strict=True)
            ]
        )

    def _standing(
        self, pid: int, frames: Sequence[Mapping[str, Any]]
    ) -> tuple[tuple[Frame, ...], tuple[int, ...]]:
        addresses = decode.addresses(frames)
        return self._with_names(pid, tuple(map(decode.frame, frames)), addresses), addresses

    def _with_names(
        self, pid: int, frames: tuple[Frame, ...], addresses: Sequence[int]
    ) -> tuple[Frame, ...]:
        """Return the frames, each function without a symbol with a name for its code."""
        if all(each.function != UNNAMED for each in frames):
            return frames
        found: list[Frame] = []
        is_return = False
        self._unnamed.outdate()
        for frame, address in zip(frames, addresses, strict=True):
            if frame.function == UNNAMED and address:
                is_called = is_return or (frame.level > 0 and not found)
                name = self._unnamed.name(pid, address, is_return=is_called)
                frame = replace(frame, function=name)
            is_return = frame.function != SIGNAL_FRAME
            found.append(frame)
        return tuple(found)

    def _objects_of(self, pid: int) -> Objects:
        if self._objects is None or self._pid != pid:
            image = self.image_of(pid)
            self._pid, self._objects = pid, Objects(image.mapped(), image.executable)
            self._is_early = False
        return self._objects

    # -- one stack ---------------------------------------------------------------------------

    async def _stack(
        self,
        places: Sequence[Place],
        asked: Backtrace,
        *,
        is_cut: bool = False,
        is_selected: bool = True,
    ) -> Stack:
        places = await self._with_death(places, is_selected=is_selected)
        frames = tuple(each.frame for each in places)
        if asked.offsets:
            frames = tuple(
                replace(frame, offset=offset)
                for frame, offset in zip(frames, self._offsets.of(places), strict=True)
            )
        hidden = 0
        if asked.fold:
            call, hidden = await self._mpi_call(places)
            frames = (call, *frames[hidden + 1 :]) if call is not None else frames
        limit, more = asked.limit, is_cut
        if limit > 0:
            more = more or len(frames) > limit
            # GDB was asked for no more frames than these, so there may be more.
            more = more or (bool(_limit(asked)) and len(frames) == limit)
            frames = frames[:limit]
        elif limit < 0:
            hidden += max(0, len(frames) + limit)
            frames = frames[limit:]
        return Stack(
            frames=tuple(decode.at_level(frame, level) for level, frame in enumerate(frames)),
            hidden=str(hidden) if hidden or asked.fold else "",
            more=more,
        )

    async def _fold(self, places: Sequence[Place]) -> tuple[Frame, ...]:
        places = await self._with_death(places, is_selected=True)
        call, hidden = await self._mpi_call(places)
        frames = tuple(each.frame for each in places)
        return (call, *frames[hidden + 1 :]) if call is not None else frames

    async def _mpi_call(self, places: Sequence[Place]) -> tuple[Frame | None, int]:
        """Return the frame of the thread's MPI call, and the number of frames inside it."""
        at = find_mpi_call(places, has_mpi=self._has_mpi)
        if at is None:
            return None, 0
        frame = places[at].frame
        name = mpi_name(frame.function)
        if not name and at + 1 < len(places) and places[at + 1].address:
            name = await self.called_names.mpi_call_before(places[at + 1].address)
        call = named(frame, name or internal_name(frame.function))
        dying = next((each.frame.dying for each in reversed(places[:at]) if each.frame.dying), "")
        return (replace(call, dying=dying) if dying and not call.dying else call), at

    async def _with_death(self, places: Sequence[Place], *, is_selected: bool) -> Sequence[Place]:
        """Return the frames with the words for a rank that dies in one of them.

        The text is read from memory only for the selected thread.
        """
        for dying in find_deaths(places):
            level, row = dying.level, dying.row
            text = text_in_arguments(places, dying)
            if not text and is_selected:
                outer = outer_user(places, level)
                levels = places[level].frame.level, places[outer].frame.level
                code = self.death_code if is_last_call(places, level) else None
                text = await self._death_texts.of(row, self._pid, *levels, code)
            if said := words(row, text):
                place = places[level]
                place = place._replace(frame=replace(place.frame, dying=said))
                return (*places[:level], place, *places[level + 1 :])
        return places

    @property
    def _has_mpi(self) -> bool:
        return self._objects is not None and self._objects.has_mpi

    def _looks_up(self, places: Sequence[Place], asked: Backtrace) -> bool:
        """Return whether the stack depends on an address or on memory."""
        if find_deaths(places):
            return True
        at = find_mpi_call(places, has_mpi=self._has_mpi) if asked.fold else None
        return at is not None and not mpi_name(places[at].frame.function)


def _limit(asked: Backtrace) -> int:
    """Return the number of frames to request from GDB, 0 for all."""
    return asked.limit if asked.limit > 0 and not asked.fold else 0


def _window(limit: int) -> str:
    return f" 0 {limit - 1}" if limit else ""
