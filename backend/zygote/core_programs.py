"""The program of a core file, as GDBs read it."""

from __future__ import annotations

import os

import msgspec

from pgdb.cores.core_file import CoreFile


class CoreProgram(msgspec.Struct, frozen=True):
    """The files from which a GDB reads the symbols of a core's program."""

    executable: str
    """The program's file; empty if there is none."""
    libraries: tuple[str, ...] = ()
    """The files of shared objects that the process had loaded."""
    core: str = ""
    """A core of the program, to learn from."""

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for cores of the same program."""
        try:
            status = os.stat(self.executable)
        except OSError:
            return (self.executable,)
        return self.executable, status.st_dev, status.st_ino, status.st_mtime_ns


def program_of(core: CoreFile, executable: str) -> CoreProgram:
    """Return the program of a core; *executable* takes the place of the one that the core names."""
    name = executable or core.program
    if not os.path.isfile(name):
        return CoreProgram("", core=core.path)
    libraries = dict.fromkeys(
        each.path
        for each in core.mapped
        if not each.offset_bytes and each.path != core.program and _is_library(each.path)
    )
    return CoreProgram(name, tuple(libraries), core.path)


def _is_library(path: str) -> bool:
    name = os.path.basename(path)
    return name.endswith(".so") or ".so." in name
