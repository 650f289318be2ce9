"""The Python frames of one rank between its C frames, and which of all these is selected."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec.structs import replace

from pgdb.backend.gdb import python_calls
from pgdb.backend.gdb.decode import is_of_library
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.mpi_frames import Objects, Owner, Place
from pgdb.backend.gdb.process_in_gdb import auxiliary_vector
from pgdb.backend.gdb.process_memory import read_some
from pgdb.backend.gdb.python_agent import Hit
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.python import glue, runtime
from pgdb.backend.python.agent_points import NAME as AGENT
from pgdb.backend.python.interleave import (
    UNKNOWN_BETWEEN,
    CFrame,
    Mixed,
    folded,
    interleave,
    without_agent,
)
from pgdb.backend.python.reader import (
    NOT_SHOWN,
    Local,
    PythonFrame,
    PythonThread,
    Reader,
    Reading,
)
from pgdb.errors import CommandError, PgdbError
from pgdb.patterns import pattern
from pgdb.process_maps import Mapping, read_mappings
from pgdb.records import Failure, Frame, Record, Stack, Variable

if TYPE_CHECKING:
    from pgdb.backend.python.values import Interpreter

PYTHON, UNKNOWN = "python", "unknown"
_LEFT_OUT = "..."
_OBJECT = pattern(r"<[^<>]+ at (0x[0-9a-f]+)>\Z")
_SCALAR = pattern(r"[-+]?[\d.][\w.+-]*\Z|nan\Z|inf\Z|True\Z|False\Z|None\Z|(?:b?[\"'])")
_LONGEST = 60
NO_PYTHON = "The rank has no Python interpreter."
NOT_INITIALIZED = f"{NOT_SHOWN}the interpreter is not initialized"
NO_FRAMES = "The selected thread has no Python frames."
OTHER_INTERPRETER = (
    f"{NOT_SHOWN}py-spy has none of this thread; it reads one interpreter of a program with several"
)
Entries = dict[int, list[runtime.Entry]] | None
"""Entry frames by the number of their thread; None if the interpreter has no table of them."""
READER = Reader()
"""The reader of all ranks of this process."""


class MixedStack(msgspec.Struct, frozen=True):
    """The frames of one thread to show, innermost first."""

    places: tuple[Place, ...]
    """Frames; their levels are their indices."""
    levels: tuple[int, ...]
    """GDB's level of each C frame, and of the C frame that executes a Python frame; -1 if that is
    unknown."""
    python: tuple[PythonFrame | None, ...]
    """The Python frame of each place, None for a C frame."""
    words: str
    """Name of the thread."""
    note: str = ""

    @property
    def users(self) -> int | None:
        """Index of the innermost Python frame that is no library's, else of the innermost one."""
        found = [at for at, each in enumerate(self.python) if each is not None]
        own = (at for at in found if not is_of_library(self.places[at].frame))
        return next(own, found[0] if found else None)


class FrameReader(Protocol):
    """A source of the Python frames of one rank."""

    is_of_process: bool
    """Whether they are those of a living process, whose memory can be read as well."""

    async def read(self, pid: int, /) -> Reading:
        """Return the threads of the process *pid*."""


class PythonStacks:
    """Reader of the Python frames of one rank, once at each stop."""

    def __init__(self, gdb: GdbSession, read: FrameReader = READER) -> None:
        self._gdb = gdb
        self._reader = read
        self._key: tuple[int, int] | None = None
        self._reading: asyncio.Task[tuple[Reading, Entries]] | None = None
        self._runtime: tuple[tuple[int, bytes], int] = (0, b""), 0
        self.selected: int | None = None
        """Index of the selected frame among those to show; None if GDB's selection counts."""
        self.is_python_selected = False
        """Whether the selected frame is one of Python."""
        self.advice = ""
        """Words about a py-spy that is missing or too old, at the last stop."""
        self.latest: MixedStack | None = None
        """Stack of the selected thread at the last stop."""
        self._hit: Hit | None = None
        self.keeps_innermost = False
        """Whether the innermost frame is always shown: after a fault, and at a breakpoint."""

    @property
    def reader(self) -> FrameReader:
        """The source of Python frames."""
        return self._reader

    @property
    def is_of_process(self) -> bool:
        """Whether the rank is a living process, whose memory can be read."""
        return self._reader.is_of_process

    def forget_selection(self) -> None:
        """Let GDB's selection count again."""
        self.selected, self.is_python_selected = None, False

    def take_hit(self, hit: Hit | None) -> None:
        """Take what the agent in the rank reports at a stop; None at another stop."""
        self._hit = hit
        if hit is not None:
            self.keeps_innermost = False

    async def reading(self, pid: int) -> Reading:
        """Return the Python threads of the rank at this stop."""
        return (await self._read(pid))[0]

    async def thread(self, pid: int, number: str) -> PythonThread | None:
        """Return the Python frames of GDB's thread *number*, None if there are none.

        :raises GdbError: if GDB ends.
        """
        described, found = await asyncio.gather(self._describe(number), self.reading(pid))
        return None if isinstance(described, Failure) else found.thread(*described[:2])

    async def _read(self, pid: int) -> tuple[Reading, Entries]:
        key = (pid, self._gdb.runs)
        if self._key != key or self._reading is None:
            self._key = key
            self.forget_selection()
            self._reading = asyncio.get_running_loop().create_task(self._read_anew(pid))
        return await asyncio.shield(self._reading)

    async def _read_anew(self, pid: int) -> tuple[Reading, Entries]:
        if self.is_of_process and await asyncio.to_thread(self._has_no_interpreter, pid):
            # py-spy would search all memory for an interpreter, at each stop and of each rank.
            return Reading(why=NOT_INITIALIZED), None
        both = self._reader.read(pid), asyncio.to_thread(self._entries_of, pid)
        return await asyncio.gather(*both)

    def _has_no_interpreter(self, pid: int) -> bool:
        at = self.runtime_of(pid)
        try:
            minor = self._minor_of(pid, at)
        except OSError:
            return False
        return runtime.has_no_interpreter(partial(read_some, pid), at, minor)

    async def mixed(
        self,
        pid: int,
        places: Sequence[Place],
        objects: Objects,
        *,
        mode: str,
        rules: glue.Rules,
        thread: str = "",
    ) -> MixedStack | str:
        """Return the stack of a thread with its Python frames; the reason if they are unknown.

        A thread without Python frames has an empty reason.

        :param places: all C frames of the thread.
        :param mode: GDB's setting ``print frame-arguments``.
        :param thread: GDB's number of the thread, empty for the selected one.
        :raises GdbError: if GDB ends.
        """
        if self._hit is not None and self._hit.frames and not thread:
            return _of_traceback(self._hit, mode)
        is_evaluator = any(glue.evaluates(each.frame.function) for each in places)
        if not is_evaluator and not objects.has_python:
            return ""
        described, (found, entries) = await asyncio.gather(self._describe(thread), self._read(pid))
        if found.why:
            return found.why if is_evaluator or objects.is_python else ""
        if isinstance(described, Failure):
            return f"Python frames are not shown: {described.message}"
        lwp, handle, pointers = described
        stack = found.thread(lwp, handle)
        if stack is None:
            return OTHER_INTERPRETER if is_evaluator else ""
        if self._hit is not None and self._hit.frames and stack.frames[:1]:
            if stack.frames[0].filename == AGENT:
                return _of_traceback(self._hit, mode)
        is_measured = len(pointers) == len(places)
        c_frames = [
            CFrame(
                each.frame.function,
                objects.path(each.address),
                each.address,
                pointers[at] if is_measured else 0,
            )
            for at, each in enumerate(places)
        ]
        own = [(each.address, each.frame_count) for each in (entries or {}).get(lwp, ())]
        mixed = interleave(c_frames, stack.frames, own or None)
        mixed = without_agent(mixed)
        shown = folded(mixed, c_frames, rules, keeps_innermost=self.keeps_innermost)
        return _made(mixed, shown, places, stack.words, mode)

    async def _describe(self, thread: str) -> tuple[int, int, list[int]] | Failure:
        found = await python_calls.ask(
            self._gdb,
            "python_frames_in_gdb.describe",
            needed_for="Python frames need",
            thread=thread,
        )
        if isinstance(found, Failure):
            return found
        return found["lwp"], found["handle"], found["pointers"]

    def _entries_of(self, pid: int) -> Entries:
        """Return the entry frames of all threads, None if there is no table."""
        if not self.is_of_process:
            return None
        memory = partial(read_some, pid)
        known = runtime.offsets(memory, self.runtime_of(pid))
        return runtime.entries(memory, known) if known is not None else None

    def runtime_of(self, pid: int) -> int:
        """Return the address of the interpreter's state, 0 if it is not found."""
        program = pid, auxiliary_vector(pid)
        if self._runtime[0] != program or not self._runtime[1]:
            self._runtime = program, _address_in(pid, runtime.runtime_address)
        return self._runtime[1]

    def _minor_of(self, pid: int, at: int) -> int:
        """Return the minor version of the interpreter, 0 if its objects are not known.

        :raises OSError: if the files of the process cannot be listed.
        """
        from pgdb.backend.python import values

        paths = [each.path for each in read_mappings(pid)]
        return values.minor_of(partial(read_some, pid), at, paths)

    def interpreter_of(self, pid: int) -> Interpreter:
        """Return the interpreter of the process *pid*.

        :raises CommandError: if its objects are not known, or its memory cannot be read.
        """
        # Fifteen modules read values of Python; most ranks have none.
        from pgdb.backend.python.page_cache import PageCache
        from pgdb.backend.python.values import Interpreter

        at = self.runtime_of(pid)
        try:
            minor = self._minor_of(pid, at)
        except OSError as error:
            raise CommandError(f"its memory cannot be read: {error.strerror}") from None
        return Interpreter(PageCache(partial(read_some, pid)), at, minor)

    def value_of(self, pid: int, text: str) -> str:
        """Return the value of an object of which the agent in the rank has said the address.

        The text is returned as it is for another text, and for an object that cannot be read.
        """
        if (match := _OBJECT.match(text)) is None:
            return text
        try:
            shown = self.interpreter_of(pid).value_at(int(match[1], 16))
        except (PgdbError, ValueError, RecursionError):
            return text
        return on_one_line(shown)

    def tasks_table_of(self, pid: int) -> int:
        """Return the address of asyncio's table of offsets, 0 if there is none."""
        return _address_in(pid, runtime.tasks_address)

    async def select_latest(self, frame: Frame) -> None:
        """Select a frame of the stack at the last stop."""
        if self.latest is not None:
            await self.select(self.latest, frame.level)

    async def select(self, stack: MixedStack, at: int) -> None:
        """Select a frame, and in GDB the C frame that it is or that executes it."""
        self.selected, self.is_python_selected = at, stack.python[at] is not None
        if stack.levels[at] >= 0:
            await self._gdb.send(console(f"frame {stack.levels[at]}"))


def _address_in(pid: int, find: Callable[[Sequence[Mapping], Callable[[str], str]], int]) -> int:
    """Return the address that *find* finds in the files of a process, 0 for none."""
    try:
        mappings = read_mappings(pid)
        root = os.readlink(f"/proc/{pid}/root").rstrip("/")
    except OSError:
        return 0

    def opened(path: str) -> str:
        # The kernel shows paths from our own root; that of the rank can be below it.
        return f"/proc/{pid}/root{path.removeprefix(root)}"

    return find(mappings, opened)


def python_only(mixed: MixedStack | str, limit: int) -> Record:
    """Return the Python frames of a stack: *limit* innermost ones, outermost if negative."""
    if isinstance(mixed, str):
        return Failure(message=mixed or NO_FRAMES)
    frames = [each.frame for each in mixed.places if each.frame.language == PYTHON]
    shown = frames[:limit] if limit > 0 else frames[limit:] if limit < 0 else frames
    first = len(frames) - len(shown) if limit < 0 else 0
    return Stack(
        frames=tuple(replace(each, level=level) for level, each in enumerate(shown)),
        hidden=str(first) if first else "",
        more=0 < limit < len(frames),
        thread=mixed.words,
    )


def _made(
    mixed: Mixed, shown: Sequence[int], places: Sequence[Place], words: str, mode: str
) -> MixedStack:
    found: list[Place] = []
    levels: list[int] = []
    python: list[PythonFrame | None] = []
    for level, at in enumerate(shown):
        item = mixed.items[at]
        if isinstance(item, PythonFrame):
            found.append(Place(python_frame(item, level, mode), 0, Owner.USER))
            levels.append(places[mixed.homes[at]].frame.level if at in mixed.homes else -1)
            python.append(item)
            continue
        python.append(None)
        if item is None:
            mark = Frame(level, UNKNOWN_BETWEEN, language=UNKNOWN)
            found.append(Place(mark, 0, Owner.UNKNOWN))
            levels.append(-1)
        else:
            place = places[item]
            levels.append(place.frame.level)
            found.append(place._replace(frame=_c_frame(place.frame, level)))
    return MixedStack(tuple(found), tuple(levels), tuple(python), words)


def _of_traceback(hit: Hit, mode: str) -> MixedStack | str:
    """Return the stack of an uncaught exception, whose functions have returned already."""
    try:
        frames = msgspec.convert(list(hit.frames), list[PythonFrame])
    except msgspec.ValidationError:
        return "Python frames are not shown: the report of the agent cannot be read"
    places = [
        Place(python_frame(each, level, mode), 0, Owner.USER) for level, each in enumerate(frames)
    ]
    return MixedStack(tuple(places), (-1,) * len(places), tuple(frames), "")


def _c_frame(frame: Frame, level: int) -> Frame:
    """Return a C frame at its level; a generated wrapper has the name of its function."""
    name = glue.plain_name(frame.function)
    if name == frame.function:
        return replace(frame, level=level)
    return Frame(level, name)


def python_frame(each: PythonFrame, level: int, mode: str = "scalars") -> Frame:
    """Return the record of a Python frame; *mode* decides which arguments have their values."""
    path = each.filename
    return Frame(
        level=level,
        function=on_one_line(each.name),
        arguments=_arguments(each.locals or (), mode),
        file=on_one_line(path.rpartition("/")[2] or path),
        # Code from a text, such as <string>, has no file.
        fullname="" if path.startswith("<") else path,
        line=max(0, each.line),
        language=PYTHON,
    )


def on_one_line(name: str) -> str:
    """Return a name with escapes for characters that would end a line or a column.

    >>> on_one_line("f"), on_one_line("a\\nb")
    ('f', 'a\\\\nb')
    """
    if name.isprintable():
        return name
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in name)


def _arguments(variables: Sequence[Local], mode: str) -> tuple[Variable, ...]:
    # The iterator of a comprehension has the name .0.
    arguments = [each for each in variables if each.arg and not each.name.startswith(".")]
    if mode == "presence":
        return (Variable("...", ""),) if arguments else ()
    return tuple(
        Variable(each.name, _shown(each.repr, mode), is_argument=True) for each in arguments
    )


def _shown(value: str | None, mode: str) -> str:
    if mode == "none" or value is None:
        return _LEFT_OUT
    if mode == "all":
        return value
    return value if _SCALAR.match(value) and len(value) <= _LONGEST else _LEFT_OUT
