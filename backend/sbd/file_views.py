"""A file system view for GDB: a rank's files from the cache, all others from the real file system.

A view is a directory that GDB uses as sysroot. Each cached file stands in it as a hard link under
the name that the rank has for it: so GDB, which resolves symbolic links, shows that name behind
the view's own, and cleaning the cache does not remove the file. All other entries of those
directories, and every directory beside them, are links to the real ones, so that GDB finds a
program that is executed later, a library that is loaded later, a script of an object
(``…-gdb.py``) and the modules that it imports as it does without a view.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

MOST_ENTRIES = 20_000
"""Largest number of entries of one directory that are linked."""
_LOCK = "lock"


class Placed(msgspec.Struct, frozen=True):
    """An object and its cached files."""

    path: str
    names: tuple[str, ...]
    file: Path | None
    """The cached copy; None leaves the real file in its place."""
    build_id: str = ""
    debug: Path | None = None


class Views:
    """The views of one process, below the cache; they are removed when the process ends."""

    def __init__(self, cache: Path) -> None:
        """Create the directory of the views, and remove views that killed processes have left.

        :raises OSError: if that fails.
        """
        folder = cache / "views"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700)
        _sweep(folder)
        self._folder = folder / f"{os.getpid()}-{secrets.token_hex(4)}"
        # The directory cannot be swept before it is locked: a sweep needs the lock file.
        self._folder.mkdir(0o700)
        self._lock = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._count = 0

    def make(self, objects: Sequence[Placed], auto_load: str) -> tuple[Path, set[str]]:
        """Make a view; return its directory, and the paths of objects that are not in the cache.

        The directory contains ``root``, ``debug`` and ``auto-load``. An object that has left the
        cache since (another process may keep only its own files) leads to the rank's file.
        *auto_load* is the directory of GDB's scripts for objects by their names, empty for none.

        :raises OSError: if there is no room.
        """
        self._count += 1
        view = self._folder / str(self._count)
        tree = _Tree(str(view / "root"))
        gone = {each.path for each in objects if not tree.place(each.path, each.file)}
        for each in objects:
            for name in each.names:
                tree.name(name, each.path)
        tree.fill()
        debug = view / "debug"
        for each in objects:
            if each.debug is not None:
                folder = debug / ".build-id" / each.build_id[:2]
                folder.mkdir(parents=True, exist_ok=True)
                with contextlib.suppress(FileNotFoundError):
                    os.link(each.debug, folder / f"{each.build_id[2:]}.debug")
        debug.mkdir(exist_ok=True)
        os.symlink("/usr/lib/debug/.dwz", debug / ".dwz")
        scripts = view / "auto-load"
        scripts.mkdir()
        if auto_load:
            # GDB appends the whole name of the object to each of its directories of scripts.
            place = Path(f"{scripts}{tree.root}")
            place.parent.mkdir(parents=True)
            os.symlink(auto_load, place)
        return view, gone

    def close(self) -> None:
        """Remove the views."""
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)


class _Tree:
    """The directory that GDB uses as the root of the file system."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._folders: dict[str, None] = {}
        self._make("/")

    def place(self, path: str, file: Path | None) -> bool:
        """Link a file under the rank's name for it; return False if it has left the cache."""
        self._make(os.path.dirname(path))
        try:
            if file is not None:
                os.link(file, self.root + path)
                return True
        except FileNotFoundError:
            pass
        os.symlink(path, self.root + path)
        return file is None

    def name(self, name: str, path: str) -> None:
        """Add a name that leads to the file at *path* through symbolic links."""
        at = "/"
        *folders, last = [part for part in name.split("/") if part not in ("", ".")]
        for part in folders:
            if part == "..":
                at = os.path.dirname(at)
                continue
            here = os.path.join(at, part)
            if os.path.islink(here) and here not in self._folders:
                real = os.path.realpath(here)
                self._make(real)
                self._link(self.root + real, here)
                at = real
            else:
                at = here
                self._make(at)
        self._link(self.root + path, os.path.join(at, last))

    def fill(self) -> None:
        """Link all other entries of the directories to the real ones."""
        for folder in self._folders:
            # Cached files have their names by now. Another program that a rank executes, a library
            # of any name, and files that belong to a program (.dwp) can lie beside them.
            for entry in _entries(folder):
                self._link(entry.path, entry.path)

    def _make(self, folder: str) -> None:
        missing = []
        while folder not in self._folders:
            missing.append(folder)
            folder = os.path.dirname(folder)
            if missing[-1] == "/":
                break
        for each in reversed(missing):
            os.makedirs(self.root + each, mode=0o700, exist_ok=True)
            self._folders[each] = None

    def _link(self, target: str, name: str) -> None:
        with contextlib.suppress(FileExistsError):
            os.symlink(target, self.root + name)


def _entries(folder: str) -> Iterable[os.DirEntry[str]]:
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found.append(entry)
    # If there are too many, those that GDB is likeliest to open come first.
    found.sort(key=lambda entry: ".so" not in entry.name and "-gdb." not in entry.name)
    return found[:MOST_ENTRIES]


def _sweep(folder: Path) -> None:
    """Remove the views of processes that are gone: their locks are free."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            with contextlib.suppress(OSError):
                file = os.open(os.path.join(entry.path, _LOCK), os.O_RDWR | os.O_CLOEXEC)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(entry.path, ignore_errors=True)
                finally:
                    os.close(file)
