"""The Python frames of a process that GDB holds, as py-spy reads them from its memory.

py-spy reads the memory of a process with process_vm_readv(2), so that it works beside a tracer if
it does not stop the process itself (``--nonblocking``). It needs no symbols.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from pgdb.backend.python.agent_points import MOST_DECORATORS, lines_to_def
from pgdb.backend.python.agent_points import NAME as AGENT
from pgdb.patterns import pattern
from pgdb.regular_files import open_regular

DEADLINE_S = 10.0
"""Time that py-spy has for one process; it takes some hundredths of a second."""
MOST_AT_ONCE = max(2, os.cpu_count() or 1)
_MOST_OUTPUT = 64 << 20
GET = "pip install 'pgdb-mpi[python]' on this host brings it"
"""The way to get py-spy, and pystack for core files."""
NOT_SHOWN = "Python frames are not shown: "
MISSING = f"{NOT_SHOWN}there is no py-spy; {GET}"
_TOO_OLD = f"{NOT_SHOWN}py-spy is too old, 0.4 or newer is needed; {GET}"
_NO_INTERPRETER = pattern(r"(?i)find a python interpreter|find python|interpreter address")
_NAME = "PGDB_PYSPY"


class Local(msgspec.Struct, frozen=True):
    """A local variable."""

    name: str
    addr: int = 0
    """Address of the object."""
    arg: bool = False
    repr: str | None = None
    """Value of a simple object, else ``<T at 0x…>``."""


class PythonFrame(msgspec.Struct, frozen=True):
    """A frame of the interpreter."""

    name: str
    """Qualified name of the function; the plain name before Python 3.11."""
    filename: str
    line: int
    locals: tuple[Local, ...] | None = None
    is_entry: bool = False
    is_shim_entry: bool = False

    @property
    def ends_run(self) -> bool:
        """Whether a C function of the interpreter's has called it, and not another frame."""
        return self.is_entry or self.is_shim_entry


class PythonThread(msgspec.Struct, frozen=True):
    """A thread with Python frames."""

    thread_id: int
    """Address of the thread's descriptor, as pthread_self(3) returns it."""
    frames: tuple[PythonFrame, ...]
    """Frames, innermost first."""
    thread_name: str | None = None
    os_thread_id: int | None = None
    """Number of the thread for the kernel; unknown before Python 3.11."""
    owns_gil: bool = False

    @property
    def words(self) -> str:
        """Name of the thread, and whether it holds the interpreter's lock."""
        name = general_name(self.thread_name or "")
        return ", ".join(filter(None, (name, "holds the GIL" if self.owns_gil else "")))


class Reading(msgspec.Struct, frozen=True):
    """The threads of one process; or the reason why they are unknown."""

    threads: tuple[PythonThread, ...] = ()
    why: str = ""

    def thread(self, lwp: int, handle: int) -> PythonThread | None:
        """Return the thread with these numbers, None if it has no Python frames."""
        for each in self.threads:
            if lwp and each.os_thread_id == lwp:
                return each
            if each.os_thread_id is None and handle and each.thread_id == handle:
                return each
        return None


_NUMBERED = pattern(r"(Thread)-\d+(?= \()|((?:ThreadPoolExecutor|Dummy|Thread)\w*)-\d+(?:_\d+)?")


def general_name(name: str) -> str:
    """Return the name of a thread without the number that Python has given it.

    >>> general_name("Thread-3 (work)"), general_name("receiver-2"), general_name("Dummy-7")
    ('Thread (work)', 'receiver-2', 'Dummy')
    """
    return _NUMBERED.sub(lambda match: match[1] or match[2], name)


@cache
def program() -> str:
    """Return the path of py-spy, empty if there is none.

    The one beside the running Python comes first: ``pgdb-mpi[python]`` has installed it there.
    """
    if named := os.environ.get(_NAME):
        return named
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    return beside if os.access(beside, os.X_OK) else shutil.which("py-spy") or ""


class Reader:
    """Runner of py-spy, for a few processes at a time."""

    is_of_process = True

    def __init__(self, *, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._turns: asyncio.Semaphore | None = None

    async def read(self, pid: int) -> Reading:
        """Return the threads of the process *pid*, with their local variables."""
        path = program()
        if not path:
            return Reading(why=MISSING)
        # A semaphore belongs to the loop that runs at its first use.
        self._turns = self._turns or asyncio.Semaphore(MOST_AT_ONCE)
        async with self._turns:
            return await self._run(path, pid)

    async def _run(self, path: str, pid: int) -> Reading:
        words = (path, "dump", "--nonblocking", "--json", "--locals", "--pid", str(pid))
        try:
            status, output, errors = await answer_of(words, self._deadline_s)
        except TimeoutError:
            return Reading(why=f"{NOT_SHOWN}py-spy has not answered in {self._deadline_s:g} s")
        except OSError as error:
            return Reading(why=f"{NOT_SHOWN}{path}: {error.strerror}; {GET}")
        if status:
            return Reading(why=_why_failed(errors.decode("utf-8", "replace")))
        return await asyncio.to_thread(_behind_decorators, decoded(output, _directory(pid)), pid)


async def answer_of(words: Sequence[str], deadline_s: float) -> tuple[int, bytes, bytes]:
    """Run a program; return its status, its output and its errors.

    :raises TimeoutError: if it has not ended within *deadline_s*; it is killed then.
    :raises OSError: if it cannot be started.
    """
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *words, stdin=null, stdout=pipe, stderr=pipe, limit=_MOST_OUTPUT
    )
    try:
        async with asyncio.timeout(deadline_s):
            output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return process.returncode or 0, output, errors


def _why_failed(text: str) -> str:
    if _NO_INTERPRETER.search(text):
        return f"{NOT_SHOWN}the interpreter is not initialized, or py-spy does not know it"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "unexpected argument" in text or "wasn't expected" in text:
        return _TOO_OLD
    reason = "; ".join(lines[:4]).removeprefix("Error: ")
    return f"{NOT_SHOWN}py-spy: {reason[:300] or 'it has failed'}"


def _directory(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


_DECODER = msgspec.json.Decoder(list[dict[str, Any]])


def decoded(output: bytes, directory: str = "") -> Reading:
    """Return what py-spy has written; *directory* is where relative file names begin."""
    try:
        found = _DECODER.decode(output)
        if any("is_entry" not in each for one in found for each in one["frames"]):
            return Reading(why=_TOO_OLD)
        threads = tuple(_thread(each, directory) for each in found)
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError, TypeError):
        return Reading(why=f"{NOT_SHOWN}the output of py-spy cannot be read")
    return Reading(threads=threads)


def _thread(each: Mapping[str, Any], directory: str) -> PythonThread:
    frames: Sequence[Mapping[str, Any]] = each["frames"]
    converted = [
        {**frame, "filename": _whole(str(frame["filename"]), directory)} for frame in frames
    ]
    return msgspec.convert({**each, "frames": converted}, PythonThread)


def _behind_decorators(reading: Reading, pid: int) -> Reading:
    """Return a reading in which functions that have just begun are at their ``def``.

    The interpreter has them at their first decorator, which reads as if that were executed.
    """
    threads = []
    for thread in reading.threads:
        frames = list(thread.frames)
        at = next((at for at, each in enumerate(frames) if each.filename != AGENT), -1)
        if at >= 0 and (more := _lines_to_def(pid, frames[at])):
            frames[at] = replace(frames[at], line=frames[at].line + more)
            thread = replace(thread, frames=tuple(frames))
        threads.append(thread)
    return replace(reading, threads=tuple(threads))


def _lines_to_def(pid: int, frame: PythonFrame) -> int:
    path = frame.filename
    if not path.startswith("/") or frame.line < 1:
        return 0
    try:
        with open_regular(f"/proc/{pid}/root{path}") as file:
            lines = list(islice(file, frame.line - 1, frame.line - 1 + MOST_DECORATORS))
    except OSError:
        return 0
    return lines_to_def(lines, frame.name.rpartition(".")[2])


def _whole(name: str, directory: str) -> str:
    # Python before 3.9 names a script as the command line does.
    if name.startswith(("/", "<")) or not directory:
        return name
    return os.path.normpath(os.path.join(directory, name))
