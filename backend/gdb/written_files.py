"""Files that the GDB of a rank writes: their names, and whether they are there."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence

from pgdb import written_files
from pgdb.overlay.operations import ReadFile
from pgdb.patterns import pattern
from pgdb.records import Block, Failure, FileWritten, Record
from pgdb.regular_files import open_regular
from pgdb.written_files import HOST, PROCESS, RANK, file_of, read_by

_NOT_OPENED = pattern(r"Failed to open .*: No such file or directory")
_NOT_CLOSED = pattern(r"^warning: cannot close \".*\": (?P<why>.*)$", re.M)
"""GDB's words for a file that it has made and could not fill."""
_SAVED = pattern(r"^Saved core ?file [^\n]*\n?", re.M)


class FileNames:
    """The names of the files that the GDB of one rank writes."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._host = socket.gethostname()

    def filled(self, command: str, pid: int) -> str:
        """Return a command with this rank's name of the file that it writes, or restores."""
        found = file_of(command)
        place = read_by(command) if found is None else (found.begin, found.end)
        if place is None:
            return command
        begin, end = place
        return f"{command[:begin]}{self._own(command[begin:end], pid)}{command[end:]}"

    def with_own_file(self, command: str, failed: Failure, gdb_pid: int) -> Failure:
        """Return the error of a ``restore`` with the way to the file that this rank has written."""
        if (place := read_by(command)) is None or _NOT_OPENED.match(failed.message) is None:
            return failed
        name = command[slice(*place)]
        if not os.path.exists(f"{_absolute(_unquoted(name), gdb_pid)}.{self._rank}"):
            return failed
        way_out = f"each rank has a file of its own: restore {name}.{RANK} …"
        return Failure(message=f"{failed.message.rstrip('.')}; {way_out}", output=failed.output)

    def filled_lines(self, lines: Sequence[str], pid: int) -> tuple[str, ...]:
        """Return the lines of a script with this rank's names of the files that they write."""
        return tuple(self.filled(line, pid) for line in lines)

    def watch(self, command: str, pid: int, gdb_pid: int) -> Watch | None:
        """Return what sees whether GDB writes the file of a command; None if it writes none.

        A directory of this rank's own is made beside one that is there, since GDB makes none.
        """
        found = file_of(command)
        if found is None or found.begin == found.end:
            return None
        name = _unquoted(command[found.begin : found.end])
        path = _absolute(self._own(name, pid), gdb_pid)
        if found.kind == "directory" and name.endswith(f".{RANK}"):
            if os.path.isdir(_absolute(self._own(name.removesuffix(f".{RANK}"), pid), gdb_pid)):
                os.makedirs(path, exist_ok=True)
        pattern_of_all = written_files.filled(_absolute(name, gdb_pid), {HOST: self._host})
        return Watch(path, pattern_of_all, self._host, pid)

    def read(self, operation: ReadFile, pid: int, gdb_pid: int) -> Record:
        """Return a part of a file as bytes, with the size of the whole."""
        path = _absolute(self._own(operation.path, pid), gdb_pid)
        try:
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(operation.start)
                data = file.read(operation.most_bytes)
        except (OSError, ValueError) as error:
            return Failure(message=f"{path}: {getattr(error, 'strerror', None) or error}")
        return Block(dtype="|u1", shape=(size,), data=data, start=operation.start)

    def _own(self, name: str, pid: int) -> str:
        values = {RANK: str(self._rank), HOST: self._host, PROCESS: str(pid)}
        return written_files.filled(name, values)


class Watch:
    """One file, before and after the command that writes it."""

    def __init__(self, path: str, shown: str, host: str, pid: int) -> None:
        self._path, self._shown, self._host, self._pid = path, shown, host, pid
        self._before = self._state()

    def written(self, text: str) -> FileWritten | Failure | None:
        """Return the record of the file if GDB has written it since; *text* is GDB's output."""
        if (failed := _NOT_CLOSED.search(text)) is not None:
            return Failure(message=f"{self._shown} is not written: {failed['why']}")
        if self._state() == self._before:
            return None
        rest = _SAVED.sub("", text).strip("\n")
        process = str(self._pid) if PROCESS in self._shown else ""
        return FileWritten(path=self._shown, host=self._host, process=process, text=rest)

    def _state(self) -> tuple[int, ...] | None:
        try:
            found = os.stat(self._path)
        except (OSError, ValueError):
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _absolute(name: str, gdb_pid: int) -> str:
    """Return the whole path of a file, by the working directory of the GDB."""
    name = os.path.expanduser(name)
    try:
        here = os.readlink(f"/proc/{gdb_pid}/cwd")
    except OSError:
        here = os.getcwd()
    return os.path.normpath(os.path.join(here, name))


def _unquoted(name: str) -> str:
    is_quoted = len(name) > 1 and name[0] in "\"'" and name[-1] == name[0]
    return name[1:-1] if is_quoted else name
