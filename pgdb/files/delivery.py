"""Delivery of executables, libraries and debug files to the hosts, down the tree of nodes.

A node asks its parent for the files of its ranks, by build-id, and for the files that its children
ask for, once for each file. The front end looks for a file on its own host. If it has none, it
makes the first node that asked the source, and the file travels up before it travels down. Each
node on the way keeps the file in its cache (:mod:`pgdb.files.file_cache`). So nothing crosses a
link twice, and the parent serves a node that asks late.

Files travel in parts. The receiver requests a few parts at a time, so the queue of a link stays
short, other messages wait little, and an interrupted transfer resumes. A node without a usable
cache passes parts on.

:mod:`pgdb.files.delivery_state` decides; this module sends, reads and writes.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import os
import zlib
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

from pgdb.files.delivery_actions import (
    ABOVE,
    OWN,
    Action,
    DoWithout,
    Get,
    LookHere,
    MakePart,
    PartHere,
    Send,
    Unavailable,
)
from pgdb.files.delivery_state import PART_BYTES, DeliveryState, Place
from pgdb.files.file_cache import DamagedError, FileCache, Partial
from pgdb.files.file_sources import look_for
from pgdb.files.file_state import FileState
from pgdb.overlay.messages import AnyMessage, Delivered, FileKey, FilePart, WantedFile

LOG = logging.getLogger(__name__)

PARTS_AHEAD = 4
"""Number of parts of one file that are requested before the first arrives."""
FILES_AT_ONCE = 4
REPORT_WINDOW_S = 0.2
_LEVEL = 1  # of zlib: a third more bytes than the default, in a fifth of the time
_NO_ROOM = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS}
)


class GoneError(Exception):
    """File that no node can supply; the text is the reason."""


class Delivery:
    """One node's part in delivering files: it carries out what its state decides."""

    def __init__(
        self,
        node: int,
        host: str,
        *,
        open_cache: Callable[[], FileCache],
        up: Callable[[AnyMessage], None] | None,
        down: Callable[[int, AnyMessage], None],
        notice: Callable[[str], None],
        on_report: Callable[[], None] = lambda: None,
    ) -> None:
        self.has_no_room = False
        """Whether a file could not be kept here; the user has been notified."""
        self._state = DeliveryState(node, host, is_root=up is None)
        self._open_cache = open_cache
        self._up = up
        self._down = down
        self._notice = notice
        self._on_report = on_report
        self._results: dict[FileKey, asyncio.Future[Path | None]] = {}
        self._sources: dict[FileKey, Path] = {}
        self._paths: dict[FileKey, Path] = {}
        """Paths of whole files on this host, from which parts are read."""
        self._partials: dict[FileKey, Partial] = {}
        self._requested: dict[Place, asyncio.Future[FilePart]] = {}
        self._digests: dict[FileKey, bytes] = {}
        self._cache: FileCache | None = None
        self._cache_opens: asyncio.Task[None] | None = None
        self._at_once = asyncio.Semaphore(FILES_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._report_timer: asyncio.TimerHandle | None = None
        self._is_closing = False
        self._loop = asyncio.get_running_loop()

    # -- what others call ----------------------------------------------------------------------

    @property
    def own(self) -> Delivered:
        """The counts of this node."""
        return self._state.own

    @property
    def reports(self) -> dict[int, Delivered]:
        """The latest counts of the nodes below."""
        return self._state.reports

    async def cache(self) -> FileCache | None:
        """Return the cache of this host, None if it cannot have one."""
        if self._cache_opens is None:
            self._cache_opens = asyncio.create_task(self._open())
        await asyncio.shield(self._cache_opens)
        return self._cache

    def want(
        self, files: Iterable[tuple[WantedFile, Sequence[str]]]
    ) -> list[asyncio.Future[Path | None]]:
        """Request files for this host; each result is the path in the cache, or None.

        Each file comes with other paths at which this host may have it.
        """
        files = tuple(files)
        self._state.want(files)
        self._carry_out()
        return [self._result(wanted.key) for wanted, _ in files]

    def leave(self, keys: Iterable[FileKey]) -> None:
        """Count files that GDBs of this host read by themselves, whether they arrive or not."""
        self._state.leave(keys)
        self._carry_out()

    def from_child(self, child: int, message: AnyMessage) -> None:
        """Process a message from a child."""
        self._state.from_child(child, message)
        self._carry_out()

    def from_above(self, message: AnyMessage) -> None:
        """Process a message from the parent."""
        self._state.from_above(message)
        self._carry_out()

    def lose_child(self, child: int) -> None:
        """Remove a lost child."""
        self._state.lose_child(child)
        self._carry_out()

    def new_parent(self) -> None:
        """Request from a new parent everything that the old one has not sent."""
        self._state.new_parent()
        self._carry_out()

    def flush_reports(self) -> None:
        """Report changed counts to the parent."""
        if self._report_timer is not None:
            self._report_timer.cancel()
            self._report_timer = None
        report = self._state.take_report()
        if report is not None:
            if self._up is not None:
                self._up(report)
            self._on_report()

    async def close(self) -> None:
        """Stop; incomplete files stay for a later session."""
        self._is_closing = True
        if self._report_timer is not None:
            self._report_timer.cancel()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for partial in self._partials.values():
            partial.close()
        for result in self._results.values():
            result.cancel()

    # -- actions -------------------------------------------------------------------------------

    def _carry_out(self) -> None:
        while actions := self._state.take_actions():
            for action in actions:
                self._perform(action)
        if self._state.has_news and self._report_timer is None and not self._is_closing:
            self._report_timer = self._loop.call_later(REPORT_WINDOW_S, self.flush_reports)

    def _perform(self, action: Action) -> None:
        match action:
            case Send(who=who, message=message):
                if who != ABOVE:
                    self._down(who, message)
                elif self._up is not None:
                    self._up(message)
            case LookHere(key=key):
                self._begin(self._look_here(key), key)
            case Get(key=key):
                self._begin(self._get(key), key)
            case DoWithout(key=key):
                self._begin(self._do_without(key), key)
            case MakePart(key=key, offset=offset):
                self._begin(self._make(key, offset), key)
            case PartHere(part=part):
                future = self._requested.pop((part.key, part.offset), None)
                if future is not None and not future.done():
                    future.set_result(part)
            case Unavailable(key=key, why=why):
                for place in [place for place in self._requested if place[0] == key]:
                    future = self._requested.pop(place)
                    if not future.done():
                        future.set_exception(GoneError(why))
                        future.exception()

    def _begin(self, work: Coroutine[Any, Any, None], key: FileKey) -> None:
        if self._is_closing:
            work.close()
            return
        task = self._loop.create_task(work)
        self._tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                # The other files continue, and GDB can read this one by itself.
                LOG.error("%s: delivering it failed", self._file(key).wanted.path, exc_info=error)
                self._finish(key, None)

        task.add_done_callback(done)

    def _file(self, key: FileKey) -> FileState:
        file = self._state.file(key)
        assert file is not None
        return file

    def _result(self, key: FileKey) -> asyncio.Future[Path | None]:
        if key not in self._results:
            self._results[key] = self._loop.create_future()
        return self._results[key]

    def _finish(self, key: FileKey, path: Path | None, how: str = "") -> None:
        if path is not None:
            self._paths[key] = path
        result = self._result(key)
        if not result.done():
            result.set_result(path)
        self._state.finish(key, has_copy=path is not None, how=how)
        self._carry_out()

    # -- the cache of this host ----------------------------------------------------------------

    async def _open(self) -> None:
        def opened() -> FileCache:
            cache = self._open_cache()
            # The limit may be lower than before, and old files go even if no new one comes.
            cache.clean()
            return cache

        try:
            self._cache = await asyncio.to_thread(opened)
        except OSError as error:
            self._have_no_room(error)

    def _have_no_room(self, error: OSError) -> None:
        """Notify the user, once, that there is no cache, or no room in it for all files."""
        if self.has_no_room:
            return
        self.has_no_room = True
        where = f"{error.filename}: " if error.filename else ""
        why = f"{where}{error.strerror or error}"
        if self._cache is None:
            self._notice(f"--sbd: no cache ({why}); GDBs read the files by themselves")
        else:
            self._notice(f"--sbd: not all can be kept ({why}); GDBs read the rest by themselves")

    # -- getting a file ------------------------------------------------------------------------

    async def _look_here(self, key: FileKey) -> None:
        cache = await self.cache()
        if key.kind == "debug":
            # The object may name its debug file; then the object's copy is read.
            whole = FileKey(build_id=key.build_id)
            if self._state.file(whole) is not None:
                await asyncio.wait((self._result(whole),))
        file = self._file(key)
        try:
            source, version = await asyncio.to_thread(look_for, file.wanted, file.own_paths, cache)
        except OSError as error:
            LOG.debug("%s is not here: %s", file.wanted.path, error)
            self._state.not_here(key, error.strerror or str(error))
        else:
            self._sources[key] = source
            self._state.found_here(key, version)
        self._carry_out()

    async def _do_without(self, key: FileKey) -> None:
        """Use the copy in the cache of an earlier session, if there is one."""
        cache = await self.cache()
        found = await asyncio.to_thread(cache.find, key) if cache is not None else None
        self._finish(key, found, "cached_files")

    async def _get(self, key: FileKey) -> None:
        async with self._at_once:
            cache, version = await self.cache(), self._file(key).version
            partial = None
            if cache is not None:
                found = await asyncio.to_thread(cache.find, key, version)
                if found is not None:
                    self._finish(key, found, "cached_files")
                    return
                try:
                    partial = await asyncio.to_thread(cache.begin, key, version)
                except OSError as error:
                    self._have_no_room(error)
            if partial is None:
                self._pass_on(key)
                return
            self._partials[key] = partial
            try:
                if self._file(key).supplier == OWN:
                    await self._copy(key, partial)
                else:
                    await self._fetch(key, partial)
            except GoneError as error:
                self._state.lose(key, str(error))
                self._carry_out()
                await self._do_without(key)
            except OSError as error:
                self._have_no_room(error)
                partial.abandon()
                self._pass_on(key)
            finally:
                partial.close()
                del self._partials[key]
                self._progress(key, 0)

    def _pass_on(self, key: FileKey) -> None:
        """Serve others from the source or from above, without a copy on this host."""
        if key in self._sources:
            self._paths[key] = self._sources[key]
        self._state.pass_on(key)
        self._finish(key, None)

    async def _copy(self, key: FileKey, partial: Partial) -> None:
        """Copy the file from its source, once.

        :raises GoneError: if the source cannot be read.
        :raises OSError: if there is no room.
        """
        source = self._sources[key]
        try:
            read_bytes = await asyncio.to_thread(self._copy_all, source, partial)
        except DamagedError as error:
            raise GoneError(f"{source} has been changed: {error.strerror}") from None
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise
            raise GoneError(f"{source}: {error.strerror}") from None
        self._digests[key] = partial.digest()
        self._state.count(read_files=1, read_bytes=read_bytes)
        assert self._cache is not None
        self._finish(key, self._cache.path(key))

    def _copy_all(self, source: Path, partial: Partial) -> int:
        partial.restart()
        with open(source, "rb", buffering=0) as file:
            while piece := file.read(1 << 20):
                if self._is_closing:
                    raise GoneError("the session ends")
                partial.append(piece)
        read_bytes = partial.size_bytes
        partial.finish()
        return read_bytes

    async def _fetch(self, key: FileKey, partial: Partial) -> None:
        """Request the parts in order, and pass them on as they arrive.

        :raises GoneError: if the supplier cannot send them, or they are refused.
        :raises OSError: if there is no room.
        """
        self._state.count(resumed_bytes=partial.resumed_bytes)
        try:
            while True:
                was_resumed = partial.resumed_bytes > 0
                digest = await self._fetch_parts(key, partial)
                try:
                    path = await asyncio.to_thread(partial.finish, digest)
                    break
                except DamagedError as error:
                    if not was_resumed:
                        raise GoneError(f"it was refused: {error.strerror}") from None
                    name = self._file(key).wanted.path
                    LOG.info("%s: the rest of an earlier transfer was no use", name)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise
            raise GoneError(str(error.strerror)) from None
        self._digests[key] = digest
        self._finish(key, path, "received_files")

    async def _fetch_parts(self, key: FileKey, partial: Partial) -> bytes:
        """Return the digest, which comes with the last part."""
        size_bytes = self._file(key).version.size_bytes
        self._progress(key, partial.size_bytes)
        # The last part is requested even if it is here already: the digest comes with it.
        digest = b""
        next_offset = min(partial.size_bytes, max(0, size_bytes - 1)) // PART_BYTES * PART_BYTES
        asked: deque[tuple[int, asyncio.Future[FilePart]]] = deque()
        while next_offset < size_bytes or asked:
            while next_offset < size_bytes and len(asked) < PARTS_AHEAD:
                asked.append((next_offset, self._request(key, next_offset)))
                next_offset += PART_BYTES
            offset, future = asked.popleft()
            part = await future
            data = await asyncio.to_thread(_expand, part.data)
            if len(data) != min(PART_BYTES, size_bytes - offset):
                raise GoneError(f"a part of it has {len(data)} bytes")
            if offset + len(data) > partial.size_bytes:
                new = data[partial.size_bytes - offset :]
                await asyncio.to_thread(partial.append, new)
            digest = part.digest
            self._progress(key, partial.size_bytes)
        return digest

    def _progress(self, key: FileKey, received_bytes: int) -> None:
        self._state.progress(key, received_bytes)
        self._carry_out()

    def _request(self, key: FileKey, offset: int) -> asyncio.Future[FilePart]:
        file = self._file(key)
        if file.is_gone:
            assert file.found is not None
            raise GoneError(file.found.why)
        future = self._requested[key, offset] = self._loop.create_future()
        self._state.request(key, offset)
        self._carry_out()
        return future

    # -- making parts --------------------------------------------------------------------------

    async def _make(self, key: FileKey, offset: int) -> None:
        try:
            part = await self._read_part(key, offset)
        except Exception as error:
            why = error.strerror if isinstance(error, OSError) else None
            self._state.part_failed(key, offset, str(why or error))
            self._carry_out()
            if not isinstance(error, OSError):
                raise
            return
        self._state.part_made(part)
        self._carry_out()

    async def _read_part(self, key: FileKey, offset: int) -> FilePart:
        size_bytes = self._file(key).version.size_bytes
        wanted = min(PART_BYTES, size_bytes - offset)
        is_last = offset + wanted == size_bytes
        path = self._paths.get(key)
        partial = self._partials.get(key)
        # The page cache has the bytes of an incomplete copy: they were written a moment ago.
        have = partial.read(offset, wanted) if path is None and partial is not None else b""

        def make() -> tuple[bytes, bytes]:
            data, digest = have, b""
            if path is not None:
                with open(path, "rb", buffering=0) as source:
                    data = os.pread(source.fileno(), wanted, offset)
                    if is_last:
                        digest = self._digests.get(key) or _digest(source.fileno())
            if len(data) != wanted:
                raise OSError(errno.EIO, "it has become shorter")
            return zlib.compress(data, _LEVEL), digest

        data, digest = await asyncio.to_thread(make)
        if path is not None and path == self._sources.get(key) and path != self._cached(key):
            self._state.count(read_bytes=wanted, read_files=int(offset == 0))
        return FilePart(key=key, offset=offset, data=data, digest=digest)

    def _cached(self, key: FileKey) -> Path | None:
        return self._cache.path(key) if self._cache is not None else None


def _expand(data: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, PART_BYTES + 1)
    except zlib.error as error:
        raise GoneError(f"a part of it is damaged: {error}") from None


def _digest(file: int) -> bytes:
    digest, at = hashlib.sha256(), 0
    while piece := os.pread(file, 1 << 20, at):
        digest.update(piece)
        at += len(piece)
    return digest.digest()
