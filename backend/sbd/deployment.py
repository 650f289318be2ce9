"""Delivery of the files of a host's ranks before their GDBs read them (``--sbd``).

After any failure a rank's GDB reads the files by itself, as without ``--sbd``, and the user gets
the reason once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from pgdb.backend.sbd.file_views import Placed, Views
from pgdb.backend.sbd.mapped_objects import MappedObject, mapped_objects
from pgdb.backend.sbd.rank_files import RankFiles
from pgdb.overlay.messages import FileKey, WantedFile

if TYPE_CHECKING:
    from pgdb.files.delivery import Delivery

LOG = logging.getLogger(__name__)


class _View(msgspec.Struct, frozen=True):
    """The view that GDBs of all ranks with the same objects use."""

    directory: Path
    has_program: bool
    """Whether the program is in the cache."""
    folders: str
    """Search path for libraries that the view lacks because they were made after it."""


class Deployment:
    """Delivery of the files of one aggregator's ranks to its host."""

    def __init__(
        self, delivery: Delivery, *, gdb: str, wait_s: float, notice: Callable[[str], None]
    ) -> None:
        self._delivery = delivery
        self._gdb = gdb
        self._wait_s = wait_s
        self._notice = notice
        self._views: Views | None = None
        self._made: dict[tuple[MappedObject, ...], asyncio.Task[_View | None]] = {}
        self._is_late = False

    async def localised(self, files: RankFiles, pid: int) -> RankFiles:
        """Return where the delivered files of process *pid* are on this host.

        The delivery may use a limited time; after it, *files* are returned as they are.
        """
        if files.root:
            self._report("ranks that have a root directory of their own are not served")
            return files
        try:
            objects = await asyncio.to_thread(mapped_objects, pid)
        except OSError as error:
            # The attach that follows reports the reason.
            LOG.info("process %d: its mapped objects cannot be read: %s", pid, error)
            return files
        # Processes may map the same libraries in another order, and map each at other addresses.
        others = sorted(objects[1:], key=lambda each: each.path)
        key = tuple(replace(each, range="") for each in (*objects[:1], *others))
        if key not in self._made:
            self._made[key] = asyncio.create_task(self._make(objects, pid))
        try:
            view = await asyncio.shield(self._made[key])
        except OSError as error:
            if not self._delivery.has_no_room:
                self._report(f"no view of the files ({error.strerror or error})")
            self._delivery.leave(
                FileKey(build_id=each.build_id) for each in objects if each.build_id
            )
            return files
        if view is None:
            return files
        root = str(view.directory / "root")
        is_here = view.has_program or not files.executable
        return replace(
            files,
            root=root,
            executable=f"{root}{files.name}" if is_here else files.executable,
            settings=(
                ("debug-file-directory", f"{view.directory / 'debug'}:{{}}"),
                ("auto-load scripts-directory", f"{view.directory / 'auto-load'}:{{}}"),
                ("solib-search-path", f"{{}}:{view.folders}"),
            ),
        )

    async def close(self) -> None:
        """Remove the views; the GDBs that used them have ended."""
        for task in self._made.values():
            task.cancel()
        await asyncio.gather(*self._made.values(), return_exceptions=True)
        if self._views is not None:
            await asyncio.to_thread(self._views.close)

    async def _make(self, objects: Sequence[MappedObject], pid: int) -> _View | None:
        cache = await self._delivery.cache()
        named = [each for each in objects if each.build_id]
        keys = {each.path: FileKey(build_id=each.build_id) for each in named}
        if cache is None:
            self._delivery.leave(keys.values())
            return None  # the cache has reported why
        if len(named) < len(objects):
            self._report(
                _several([each.path for each in objects if not each.build_id], "no build-id")
            )
        files = [
            (
                WantedFile(key=FileKey(build_id=each.build_id, kind=kind), path=each.path),
                (f"/proc/{pid}/map_files/{each.range}",),
            )
            for kind in ("object", "debug")
            for each in named
        ]
        coming = self._delivery.want(files)
        if not coming:
            return None
        _, late = await asyncio.wait(coming, timeout=0.0 if self._is_late else self._wait_s)
        come = [each.result() if each.done() and not each.cancelled() else None for each in coming]
        whole = dict(zip((each.path for each in named), come, strict=False))
        debug = dict(zip((each.path for each in named), come[len(named) :], strict=True))
        self._delivery.leave(keys[path] for path, file in whole.items() if file is None)
        if late and not self._is_late:
            self._is_late = True
            # Most objects have no debug file anywhere.
            count = sum(each in late for each in coming[: len(named)])
            what = "1 file has" if count == 1 else f"{count or 'debug'} files have"
            self._report(f"{what} not come within {self._wait_s:g} s")
        elif (
            missing := [path for path, file in whole.items() if file is None]
        ) and not self._delivery.has_no_room:
            self._report(_several(missing, "no source"))
        if not any(come):
            return None
        placed = [
            Placed(each.path, each.names, whole.get(each.path), each.build_id, debug.get(each.path))
            for each in objects
        ]
        auto_load = _auto_load(self._gdb)

        def make() -> tuple[Path, set[str]]:
            if self._views is None:
                self._views = Views(cache.directory)
            return self._views.make(placed, auto_load)

        directory, gone = await asyncio.to_thread(make)
        self._delivery.leave(keys[path] for path in gone)
        has_program = placed[0].file is not None and placed[0].path not in gone
        return _View(directory, has_program, _folders(objects))

    def _report(self, what: str) -> None:
        self._notice(f"--sbd: {what}; GDBs read the files by themselves")


def _several(paths: Sequence[str], what: str) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{what} for {paths[0]}{more}"


def _folders(objects: Sequence[MappedObject]) -> str:
    """Return the directories of objects as a search path for GDB."""
    paths = (path for each in objects for path in (each.path, *each.names))
    folders = dict.fromkeys(os.path.realpath(os.path.dirname(path)) for path in paths)
    return ":".join(each for each in folders if ":" not in each and each.isprintable())


def _auto_load(gdb: str) -> str:
    """Return the directory of a GDB's scripts for system libraries, such as libstdc++."""
    path = os.path.realpath(shutil.which(gdb) or gdb)
    folder = os.path.join(os.path.dirname(os.path.dirname(path)), "share/gdb/auto-load")
    return folder if os.path.isdir(folder) else ""
