"""The files of a host's ranks, brought to the host before their GDBs ask for them (``--sbd``).

Whatever goes wrong, a rank's GDB then reads the files by itself, as it does without this, and the
user is told once why.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from pgdb.backend.sbd.file_views import Placed, Views
from pgdb.backend.sbd.mapped_objects import MappedObject, mapped_objects
from pgdb.backend.sbd.rank_files import RankFiles
from pgdb.files.delivery import Delivery
from pgdb.overlay.messages import FileKey, WantedFile

LOG = logging.getLogger(__name__)


class _View(msgspec.Struct, frozen=True):
    """What the GDBs of all ranks with the same objects are pointed to."""

    directory: Path
    has_program: bool
    """Whether the program is in the cache."""
    folders: str
    """Where libraries are looked for that the view lacks, as they have been made since."""


class Deployment:
    """Brings the files of one aggregator's ranks to its host."""

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
        """Return where the files of process *pid* are on this host once they have been brought.

        It waits for them, but not without end; then *files* are returned as they are.
        """
        if files.root:
            self._tell("ranks that have a root directory of their own are not served")
            return files
        try:
            objects = await asyncio.to_thread(mapped_objects, pid)
        except OSError as error:
            # Whoever attaches to it says what is wrong with it.
            LOG.info("process %d: what it has mapped cannot be seen: %s", pid, error)
            return files
        # The same libraries may be mapped in another order, and nowhere are they at one address.
        others = sorted(objects[1:], key=lambda each: each.path)
        key = tuple(replace(each, range="") for each in (*objects[:1], *others))
        if key not in self._made:
            self._made[key] = asyncio.create_task(self._make(objects, pid))
        try:
            view = await asyncio.shield(self._made[key])
        except OSError as error:
            if not self._delivery.has_no_room:
                self._tell(f"no view of the files ({error.strerror or error})")
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
        """Remove what GDBs were pointed to; they have ended."""
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
            return None  # it has been told
        if len(named) < len(objects):
            self._tell(
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
            # Of most objects there is no debug file anywhere.
            count = sum(each in late for each in coming[: len(named)])
            what = "1 file has" if count == 1 else f"{count or 'debug'} files have"
            self._tell(f"{what} not come within {self._wait_s:g} s")
        elif (
            missing := [path for path, file in whole.items() if file is None]
        ) and not self._delivery.has_no_room:
            self._tell(_several(missing, "no source"))
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

    def _tell(self, what: str) -> None:
        self._notice(f"--sbd: {what}; GDBs read the files by themselves")


def _several(paths: Sequence[str], what: str) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{what} for {paths[0]}{more}"


def _folders(objects: Sequence[MappedObject]) -> str:
    """Return the directories of objects as a search path of GDB's."""
    paths = (path for each in objects for path in (each.path, *each.names))
    folders = dict.fromkeys(os.path.realpath(os.path.dirname(path)) for path in paths)
    return ":".join(each for each in folders if ":" not in each and each.isprintable())


def _auto_load(gdb: str) -> str:
    """Return where a GDB has its scripts for system libraries, such as printers of libstdc++."""
    path = os.path.realpath(shutil.which(gdb) or gdb)
    folder = os.path.join(os.path.dirname(os.path.dirname(path)), "share/gdb/auto-load")
    return folder if os.path.isdir(folder) else ""
