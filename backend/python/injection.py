"""The way of the agent into a Python rank: a shared folder, and the request to run a script there.

Python 3.14 and later look for such a request where a debugger writes it (PEP 768); nothing of the
rank is executed for that. Older ones get a pending call, which GDB has to make. In both ways the
interpreter runs the script when it executes bytecode next.
"""

from __future__ import annotations

import ast
import contextlib
import fcntl
import os
import re
import secrets
import stat
import struct
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from pgdb.backend.python import runtime
from pgdb.backend.python.agent_points import NAME

NOT_INITIALIZED = (
    "its interpreter is not initialized yet, or has ended; 'tbreak Py_RunMain' and 'continue' lead "
    "to where it is initialized, or another place behind Py_Initialize if the program embeds Python"
)
_PLACES = ("/tmp", "/dev/shm", "/var/tmp")
_NAMED = re.compile(r"pgdb-python-[0-9a-f]{16}\Z")
_FILES = ("commands", "commands.new", "report", "report.new", "script.py", "script.py.new")
UNUSED_S = 10.0
"""Age from which a folder without a PGDB is deleted, in seconds: a new one has none yet."""
_MOST_REPORT = 4 << 20
_READS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags to open a folder."""
_SUPPORT_AT = {(3, 14): 89, (3, 15): 105}
"""Index of the first field for debuggers in ``_Py_DebugOffsets``, by version."""
_SUPPORT = "eval_breaker support is_enabled pending_call script_path script_path_size".split()
_PLEASE_STOP = 1 << 5
"""Bit of a thread's ``eval_breaker`` that makes it look for a request."""
_IMPORT = re.compile(r"^from (?:pgdb\.|__future__)[^\n(]*(?:\([^)]*\))?\n", re.MULTILINE)


class CannotArmError(Exception):
    """Failure to get the agent into the rank; the text says why, and names the way out."""


class TakesNoRequestsError(CannotArmError):
    """The interpreter of Python 3.14 or later takes no requests of debuggers."""


@cache
def source() -> str:
    """Return the source of the agent, as one module."""
    folder = resources.files("pgdb.backend.python")
    names = ("agent_points", "agent_hooks", "agent")
    parts = [folder.joinpath(f"{each}.py").read_text("utf-8") for each in names]
    return "from __future__ import annotations\n" + "".join(_IMPORT.sub("", each) for each in parts)


def script_for(folder: str, key: int) -> str:
    """Return the script that installs the agent, or wakes the one that is there."""
    return (
        "import sys\n"
        'agent = getattr(sys, "_pgdb_agent", None)\n'
        f"if agent is None or agent.folder != {folder!r}:\n"
        f'    scope = {{"__name__": "{NAME}"}}\n'
        f'    exec(compile({source()!r}, "{NAME}", "exec"), scope)\n'
        f'    scope["install"]({folder!r}, {key})\n'
        "else:\n"
        "    agent.wake()\n"
    )


def pending_text(folder: str) -> str:
    """Return the text of a pending call, which ends quietly when the script is gone."""
    # The program may have given other meanings to names such as "open".
    return (
        f"try: __import__('builtins').exec(__import__('io').open({f'{folder}/script.py'!r}).read(),"
        f" {{'__name__': '{NAME}'}})\n"
        "except __import__('builtins').OSError: pass\n"
    )


class SharedFolder:
    """The folder that PGDB and the agent in one rank share."""

    def __init__(self, pid: int, key: int) -> None:
        """Make the folder where the process *pid* finds it.

        :raises CannotArmError: if that is not possible.
        """
        self.name, self._folder, self._parent = "", -1, -1
        name = f"pgdb-python-{secrets.token_hex(8)}"
        try:
            owner = os.stat(f"/proc/{pid}")
        except OSError as error:
            raise CannotArmError(f"its process cannot be read: {error.strerror}") from None
        why, flags = "", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        for place in _PLACES:
            try:
                # Open for as long as the session: /proc/PID ends with the process.
                self._parent = os.open(f"/proc/{pid}/root{place}", flags)
                os.mkdir(name, 0o700, dir_fd=self._parent)
                if os.geteuid() == 0:
                    os.chown(name, owner.st_uid, owner.st_gid, dir_fd=self._parent)
                self._folder = os.open(name, _READS, dir_fd=self._parent)
                # The kernel drops the lock when this process ends, whatever ends it.
                with contextlib.suppress(OSError):
                    fcntl.flock(self._folder, fcntl.LOCK_SH)
            except OSError as error:
                why = f"{place}: {error.strerror}"
                if self._parent >= 0:
                    os.close(self._parent)
                    self._parent = -1
                continue
            self.name, self._base = f"{place}/{name}", name
            self._owner = owner.st_uid, owner.st_gid
            break
        else:
            raise CannotArmError(f"no folder can be shared with it: {why}")
        _delete_unused(self._parent, owner.st_uid, os.fstat(self._folder).st_mtime)
        self._write("script.py", script_for(self.name, key))

    def order(self, wanted: Mapping[str, Any]) -> None:
        """Write what the agent shall do.

        :raises CannotArmError: if the folder is gone.
        """
        self._write("commands", ascii(dict(wanted)))

    def _write(self, name: str, text: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{name}.new", dir_fd=self._folder)
            file = os.open(f"{name}.new", flags, 0o600, dir_fd=self._folder)
            with os.fdopen(file, "w", encoding="utf-8") as opened:
                opened.write(text)
                if os.geteuid() == 0:
                    os.fchown(opened.fileno(), *self._owner)
            os.rename(f"{name}.new", name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError as error:
            raise CannotArmError(
                f"the folder {self.name} cannot be written: {error.strerror}"
            ) from None

    def report(self) -> dict[str, Any]:
        """Return what the agent has reported last, nothing if it has not."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            file = os.open("report", flags, dir_fd=self._folder)
        except OSError:
            return {}
        with os.fdopen(file, "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                return {}
            data = opened.read(_MOST_REPORT + 1)
        try:
            found = ast.literal_eval(data.decode("ascii")) if len(data) <= _MOST_REPORT else {}
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def close(self, *, deletes: bool) -> None:
        """Close the folder; *deletes* it unless the agent is to do so."""
        if self._folder < 0:
            return
        if deletes:
            _delete(self._parent, self._base, self._folder)
        os.close(self._folder)
        os.close(self._parent)
        self._folder = self._parent = -1


def _delete(parent: int, name: str, folder: int) -> None:
    for each in _FILES:
        with contextlib.suppress(OSError):
            os.unlink(each, dir_fd=folder)
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=parent)


def _delete_unused(parent: int, user: int, now_s: float) -> None:
    """Delete the folders whose PGDB was killed before it could do so.

    An agent that finds no orders removes itself.

    :param now_s: the time by the clock of the folders.
    """
    try:
        place = os.open(".", _READS, dir_fd=parent)
    except OSError:
        return
    try:
        for name in filter(_NAMED.match, os.listdir(place)):
            with contextlib.suppress(OSError):
                _delete_if_unused(place, name, user, now_s)
    except OSError:
        return
    finally:
        os.close(place)


def _delete_if_unused(place: int, name: str, user: int, now_s: float) -> None:
    """Delete a folder, unless a process holds its lock.

    :raises OSError: if it cannot be looked at, or is in use.
    """
    folder = os.open(name, _READS, dir_fd=place)
    try:
        status = os.fstat(folder)
        if status.st_uid == user and now_s - status.st_mtime >= UNUSED_S:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _delete(place, name, folder)
    finally:
        os.close(folder)


class Interpreter(msgspec.Struct, frozen=True):
    """The interpreter's places for a request, in one thread of a stopped process."""

    pending_call: int
    script_path: int
    path_size: int
    eval_breaker: int


def interpreter_of(memory: runtime.Memory, address: int, lwp: int = 0) -> Interpreter | None:
    """Return the places for a request in the thread *lwp*, or in the main thread.

    The result is None for an interpreter before Python 3.14, or of an unknown version.

    :raises CannotArmError: if the interpreter takes no requests, or not yet.
    """
    known = runtime.offsets(memory, address)
    at = _SUPPORT_AT.get(known.version) if known is not None else None
    if known is None or at is None:
        return None
    data = memory(address + 8 * at, 8 * len(_SUPPORT))
    if len(data) < 8 * len(_SUPPORT):
        return None
    support = dict(zip(_SUPPORT, struct.unpack(f"<{len(_SUPPORT)}Q", data), strict=True))
    is_known = support["script_path_size"] and all(each < 1 << 24 for each in support.values())
    if not is_known:
        return None

    def word(place: int) -> int:
        found = memory(place, 8)
        return int.from_bytes(found, "little") if len(found) == 8 else 0

    field = known.fields
    interpreter = word(address + field["runtime.interpreters_head"])
    main = word(interpreter + field["interpreter.threads_main"]) if interpreter else 0
    if not main:
        raise CannotArmError(NOT_INITIALIZED)
    if not memory(interpreter + support["is_enabled"], 1).strip(b"\0"):
        raise TakesNoRequestsError(
            "its interpreter takes no requests of debuggers: PYTHON_DISABLE_REMOTE_DEBUG or -X "
            "disable-remote-debug is set"
        )
    thread, found = word(interpreter + field["interpreter.threads_head"]), main
    for _ in range(10_000 if lwp else 0):
        if not thread:
            break
        if word(thread + field["thread.native_thread_id"]) == lwp:
            found = thread
            break
        thread = word(thread + field["thread.next"])
    inside = found + support["support"]
    return Interpreter(
        pending_call=inside + support["pending_call"],
        script_path=inside + support["script_path"],
        path_size=support["script_path_size"],
        eval_breaker=found + support["eval_breaker"],
    )


def request(pid: int, places: Interpreter, path: str) -> None:
    """Ask the interpreter of the stopped process *pid* to run a script.

    :raises CannotArmError: if its memory cannot be written.
    """
    data = path.encode() + b"\0"
    if len(data) > places.path_size:
        raise CannotArmError(f"the path {path} is too long")
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise CannotArmError(f"its memory cannot be written: {error.strerror}") from None
    try:
        os.pwrite(memory, data, places.script_path)
        os.pwrite(memory, struct.pack("<i", 1), places.pending_call)
        breaker = int.from_bytes(os.pread(memory, 8, places.eval_breaker), "little")
        os.pwrite(memory, struct.pack("<Q", breaker | _PLEASE_STOP), places.eval_breaker)
    except OSError as error:
        raise CannotArmError(f"its memory cannot be written: {error.strerror}") from None
    finally:
        os.close(memory)


def withdraw(pid: int, places: Interpreter) -> bool:
    """Take a request back; return whether the interpreter had not begun to carry it out."""
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        is_pending = os.pread(memory, 4, places.pending_call) == struct.pack("<i", 1)
        if is_pending:
            os.pwrite(memory, struct.pack("<i", 0), places.pending_call)
        return is_pending
    except OSError:
        return False
    finally:
        os.close(memory)
