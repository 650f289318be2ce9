"""Core files by the names that a user gives: files, directories, patterns, systemd's."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from pgdb.cores.core_file import (
    COMPRESSIONS,
    CompressedError,
    CoreFile,
    CoreFileError,
    read_core,
)
from pgdb.cores.expanding import expand
from pgdb.cores.policy import read_policy
from pgdb.errors import StartError, UsageError
from pgdb.jobs import procfs

_PREFIX = "pgdb-cores-"
_ET_CORE = (b"\x04\x00", b"\x00\x04")
_DEEPEST = 4
_MOST_AT_A_TIME = 4
Run = Callable[[Sequence[str]], subprocess.CompletedProcess[str]]


class FoundCores(msgspec.Struct, frozen=True):
    """The core files that were found, and those that cannot be used."""

    cores: tuple[CoreFile, ...]
    refused: tuple[tuple[str, str], ...] = ()
    """Name and fault of each file that is no core, or cannot be read."""

    @property
    def notes(self) -> tuple[str, ...]:
        """The files that cannot be used, in words."""
        return tuple(f"left out: {path} {why}" for path, why in self.refused)


class ListedCores(msgspec.Struct, frozen=True):
    """The files that names of the user's lead to, before they are read."""

    paths: tuple[str, ...]
    refused: tuple[tuple[str, str], ...] = ()
    """Name and fault of each core that cannot be had."""
    why_none: dict[str, str] = {}
    """The targets that name nothing, and the reasons."""


class Folder:
    """The place of expanded core files, which is made when the first one needs it."""

    def __init__(self) -> None:
        self._path: Path | None = None

    @property
    def path(self) -> Path:
        """The folder.

        :raises CoreFileError: if it cannot be made.
        """
        if self._path is None:
            _remove_leftovers()
            try:
                self._path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
            except OSError as error:
                raise CoreFileError(
                    f"cannot be expanded: no temporary folder can be made ({error.strerror})"
                ) from None
        return self._path

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)


def find_cores(targets: Sequence[str], folder: Folder) -> FoundCores:
    """Return the core files that *targets* name; compressed ones are expanded into *folder*.

    :raises UsageError: if a target names nothing.
    """
    listed = list_cores(targets, folder)
    for why in listed.why_none.values():
        raise UsageError(why)
    return read_all(listed.paths, folder)


def list_cores(
    targets: Sequence[str], folder: Folder, *, from_systemd: bool = False
) -> ListedCores:
    """Return the files that *targets* name, each once; those of systemd are put into *folder*."""
    if from_systemd:
        try:
            return dump_from_systemd(targets, folder)
        except StartError as error:
            return ListedCores((), why_none={" ".join(targets): str(error)})
    paths: dict[str, None] = {}
    why_none: dict[str, str] = {}
    for target in targets:
        if not (found := list(_named(target))):
            why_none[target] = _why_nothing(target)
        paths |= dict.fromkeys(found)
    return ListedCores(tuple(paths), why_none=why_none)


def read_all(paths: Sequence[str], folder: Folder) -> FoundCores:
    """Read files as cores; compressed ones are expanded into *folder*."""
    cores: list[CoreFile] = []
    refused: list[tuple[str, str]] = []

    def read(number: int) -> CoreFile | str:
        path = paths[number]
        try:
            try:
                return read_core(path)
            except CompressedError:
                written_s = os.stat(path).st_mtime
                whole = read_core(expand(path, folder.path, number))
                return msgspec.structs.replace(whole, original=path, written_s=written_s)
        except CoreFileError as error:
            return str(error)
        except OSError as error:
            return f"cannot be read: {error.strerror}"

    with ThreadPoolExecutor(_MOST_AT_A_TIME) as pool:
        for path, found in zip(paths, pool.map(read, range(len(paths))), strict=True):
            if isinstance(found, CoreFile):
                cores.append(found)
            else:
                refused.append((path, found))
    return FoundCores(tuple(cores), tuple(refused))


def take_from_systemd(
    matches: Sequence[str],
    folder: Folder,
    run: Run | None = None,
) -> FoundCores:
    """Return the core files that systemd-coredump has kept; *matches* are coredumpctl's.

    :raises StartError: if there are none, or systemd-coredump is not here.
    """
    listed = dump_from_systemd(matches, folder, run)
    found = read_all(listed.paths, folder)
    return FoundCores(found.cores, (*listed.refused, *found.refused))


def dump_from_systemd(
    matches: Sequence[str], folder: Folder, run: Run | None = None
) -> ListedCores:
    """Have coredumpctl write core files into *folder*.

    :raises StartError: if there are none, or systemd-coredump is not here.
    """
    run = run or _run
    if shutil.which("coredumpctl") is None:
        raise StartError(f"there is no coredumpctl on this host; {read_policy().describe()}")
    listed = run(["coredumpctl", "--no-pager", "--json=short", "list", *matches])
    try:
        entries = json.loads(listed.stdout or "[]")
    except ValueError:
        raise StartError(f"coredumpctl: {_last_line(listed)}") from None
    if not entries:
        what = f" for {' '.join(matches)}" if matches else ""
        raise StartError(f"systemd-coredump has no core files{what} ({_last_line(listed)})")
    paths: list[str] = []
    refused: list[tuple[str, str]] = []
    seen: set[int] = set()
    # The latest comes last; a number can have been that of several processes.
    for each in reversed(entries):
        pid = int(each.get("pid", 0))
        name = f"process {pid} ({each.get('exe', 'unknown')})"
        if pid in seen:
            continue
        seen.add(pid)
        if each.get("corefile") not in ("present", "journal", "truncated"):
            refused.append((name, f"has no core file any more ({each.get('corefile')})"))
            continue
        try:
            target = folder.path / f"systemd-{pid}"
        except CoreFileError as error:
            raise StartError(str(error)) from None
        done = run(["coredumpctl", "--no-pager", "--output", str(target), "dump", str(pid)])
        if done.returncode or not target.exists():
            refused.append((name, f"cannot be read: {_last_line(done)}"))
            continue
        paths.append(str(target))
    return ListedCores(tuple(paths), tuple(refused))


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"


def _named(target: str) -> Iterator[str]:
    """Yield the files that a target names."""
    name = os.path.abspath(os.path.expanduser(target))
    if os.path.isdir(name):
        yield from _in_folder(name)
    elif os.path.lexists(name):
        yield name
    else:
        for each in sorted(glob.glob(name, recursive=True)):
            if os.path.isdir(each):
                yield from _in_folder(each)
            else:
                yield each


def _in_folder(folder: str) -> Iterator[str]:
    """Yield the files in a folder that begin as core files do."""
    base = folder.rstrip("/").count("/")
    for place, folders, files in os.walk(folder):
        folders.sort()
        if place.count("/") - base >= _DEEPEST:
            folders.clear()
        for name in sorted(files):
            path = os.path.join(place, name)
            if _begins_as_core(path, name):
                yield path


def _begins_as_core(path: str, name: str) -> bool:
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            start = file.read(18)
    except OSError:
        # A core that cannot be read is named; other files of the folder are not wanted.
        return name.startswith("core")
    if start.startswith(b"\x7fELF"):
        return start[16:18] in _ET_CORE
    is_packed = any(start.startswith(magic) for magic in COMPRESSIONS)
    return name.startswith("core") and (is_packed or not start)


def _why_nothing(target: str) -> str:
    if os.path.isdir(os.path.expanduser(target)):
        return f"{target}: there is no core file in this directory; {read_policy().describe()}"
    if any(each in target for each in "*?["):
        return f"{target}: no file has such a name; {read_policy().describe()}"
    return f"{target}: there is no such file; {read_policy().describe()}"


def _remove_leftovers() -> None:
    """Remove the folders of processes of this user that were killed."""
    for each in glob.glob(f"{tempfile.gettempdir()}/{_PREFIX}*"):
        pid = os.path.basename(each).removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            is_ours = os.lstat(each).st_uid == os.geteuid()
            if is_ours and pid.isdecimal() and procfs.read_stat(int(pid)) is None:
                shutil.rmtree(each, ignore_errors=True)
