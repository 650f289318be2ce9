"""How executables, libraries and debug files come to the hosts: read once, handed down the tree.

A node asks above for what its ranks need, by build-id, and hands on what is asked for below, once
for each file however many ask. The front end looks for the file on its own host; where it has none,
it makes the first node that asked the source, and the file comes up before it goes down. Whoever
hands a file on keeps it in its cache (:mod:`pgdb.files.file_cache`), so that nothing is sent twice
over a link, and a node that comes late is served from the one above.

Files travel in parts that the receiver asks for, a few at a time: so a link's queue stays short,
whatever else travels on it waits for little, and a transfer that was interrupted goes on from where
it was. A node without a usable cache hands parts on as they are asked for.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import os
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pgdb.files.file_cache import DamagedError, FileCache, Partial, Version, is_key
from pgdb.files.file_sources import look_for
from pgdb.overlay.messages import (
    FRONT_END,
    AnyMessage,
    Delivered,
    Deliveries,
    FileIs,
    FileKey,
    FilePart,
    FilesAre,
    WantedFile,
    WantFiles,
    WantPart,
)

LOG = logging.getLogger(__name__)

PART_BYTES = 256 * 1024
PARTS_AHEAD = 4
"""Parts of one file that are asked for before the first has come."""
FILES_AT_ONCE = 4
KEPT_BYTES = 16 << 20
"""Compressed parts that are kept in memory: children ask for the same at about one time."""
REPORT_WINDOW_S = 0.2
MOST_SOURCES = {"object": 4, "debug": 2}
"""How many are asked, this node included, for a file that the one before does not have."""
_LEVEL = 1  # of zlib: a third more bytes than the default, in a fifth of the time

OWN = FRONT_END - 1
"""In place of a child's number: this node itself."""
ABOVE = FRONT_END


class GoneError(Exception):
    """A file cannot be had any longer; the text says why."""


class _File:
    """What this node knows of one file."""

    def __init__(self, wanted: WantedFile, result: asyncio.Future[Path | None]) -> None:
        self.wanted = wanted
        self.own_paths: tuple[str, ...] = ()
        """Where else it may be on this host."""
        self.askers: dict[int, None] = {}
        """Who wants it, in the order in which they asked."""
        self.supplier = ABOVE
        self.tried: set[int] = set()
        """Who of this node and its children has been asked to be the source."""
        self.is_: FileIs | None = None
        """What there is of it, once that is known."""
        self.is_told = False
        """Whether the askers have been told."""
        self.source: Path | None = None
        """Where this node reads it, if it is the source."""
        self.local: Path | None = None
        """Where the whole file is on this host, to be handed on."""
        self.partial: Partial | None = None
        self.relays = False
        """Whether parts are only passed on."""
        self.waiters: dict[int, dict[int, None]] = {}
        """Who waits for the part at an offset."""
        self.result = result

    @property
    def key(self) -> FileKey:
        return self.wanted.key

    @property
    def version(self) -> Version:
        assert self.is_ is not None
        return Version(self.is_.size_bytes, self.is_.mtime_ns)

    @property
    def is_gone(self) -> bool:
        return self.is_ is not None and self.is_.size_bytes < 0


class Delivery:
    """The part of one node in handing files down the tree."""

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
        self.own = Delivered(node=node, host=host)
        self.reports: dict[int, Delivered] = {}
        """What the nodes below have told of themselves."""
        self.has_no_room = False
        """Whether something could not be kept here, which the user has been told."""
        self._open_cache = open_cache
        self._up = up
        self._down = down
        self._notice = notice
        self._on_report = on_report
        self._files: dict[FileKey, _File] = {}
        self._pending: dict[tuple[FileKey, int], asyncio.Future[FilePart]] = {}
        self._making: dict[tuple[FileKey, int], asyncio.Task[FilePart]] = {}
        self._kept: OrderedDict[tuple[FileKey, int], FilePart] = OrderedDict()
        self._kept_bytes = 0
        self._digests: dict[FileKey, bytes] = {}
        self._left: set[FileKey] = set()
        self._cache: FileCache | None = None
        self._cache_opens: asyncio.Task[None] | None = None
        self._at_once = asyncio.Semaphore(FILES_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._to_report: set[int] = set()
        self._report_timer: asyncio.TimerHandle | None = None
        self._is_closing = False
        self._loop = asyncio.get_running_loop()

    # -- what others call ----------------------------------------------------------------------

    async def cache(self) -> FileCache | None:
        """Return the cache of this host, None where there cannot be one."""
        if self._cache_opens is None:
            self._cache_opens = asyncio.create_task(self._open())
        await asyncio.shield(self._cache_opens)
        return self._cache

    def want(
        self, files: Iterable[tuple[WantedFile, Sequence[str]]]
    ) -> list[asyncio.Future[Path | None]]:
        """Have files brought to this host; each comes as its path in the cache, or as None.

        With each come other paths under which this host itself might have it.
        """
        found, new = [], []
        for wanted, own_paths in files:
            file = self._files.get(wanted.key)
            if file is None:
                file = self._add(wanted)
                new.append(file)
            file.own_paths = file.own_paths or tuple(own_paths)
            if OWN not in file.askers:
                file.askers[OWN] = None
                if file.result.done():
                    self._count_own(file, "cached_files")
            found.append(file.result)
        self._ask(new)
        return found

    def leave(self, keys: Iterable[FileKey]) -> None:
        """Take that GDBs of this host read these files by themselves, whatever comes of them."""
        for key in keys:
            if key not in self._left:
                self._left.add(key)
                file = self._files.get(key)
                is_counted = file is not None and file.result.done()
                self._count(missing_files=1, wanted_files=int(not is_counted))

    def from_child(self, child: int, message: AnyMessage) -> None:
        """Take what a child sends."""
        match message:
            case WantFiles(files=files):
                new = []
                for wanted in files:
                    if not is_key(wanted.key):
                        self._tell(child, _gone(wanted.key, "that is no build-id"))
                        continue
                    file = self._files.get(wanted.key)
                    if file is None:
                        file = self._add(wanted)
                        new.append(file)
                    file.askers[child] = None
                    if file.is_ is not None and file.is_told:
                        self._tell(child, file.is_)
                self._ask(new)
            case Deliveries(nodes=nodes):
                self.reports.update({each.node: each for each in nodes})
                self._report(*(each.node for each in nodes))
            case _:
                self._take(child, message)

    def from_above(self, message: AnyMessage) -> None:
        """Take what the parent sends."""
        if isinstance(message, WantFiles):
            for wanted in message.files:
                file = self._files.get(wanted.key)
                if file is None:
                    self._tell(ABOVE, _gone(wanted.key, "nobody here has asked for it"))
                    continue
                file.askers[ABOVE] = None
                if file.is_ is None:
                    self._find_source(file)
                elif file.is_told:
                    self._tell(ABOVE, file.is_)
        else:
            self._take(ABOVE, message)

    def lose_child(self, child: int) -> None:
        """Take that a child has gone."""
        for file in list(self._files.values()):
            file.askers.pop(child, None)
            for who in file.waiters.values():
                who.pop(child, None)
            if file.supplier != child:
                continue
            if file.is_ is None:
                self._find_source(file)
            elif file.local is None:
                self._lose(file, "the host that had it is lost")

    def take_parent(self) -> None:
        """Take that there is a new parent: what the old one has not brought it is asked for."""
        assert self._up is not None
        for file in self._files.values():
            file.askers.pop(ABOVE, None)
            for who in file.waiters.values():
                who.pop(ABOVE, None)
        open_ = [
            file
            for file in self._files.values()
            if file.supplier == ABOVE and file.local is None and not file.is_gone
        ]
        if open_:
            self._up(WantFiles(files=tuple(file.wanted for file in open_)))
        for key, offset in self._pending:
            if self._files[key].supplier == ABOVE:
                self._up(WantPart(key=key, offset=offset))
        self._report(self.own.node, *self.reports)

    async def close(self) -> None:
        """Leave off; what has come of a file stays for a later session."""
        self._is_closing = True
        if self._report_timer is not None:
            self._report_timer.cancel()
        tasks = [*self._tasks, *self._making.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for file in self._files.values():
            if file.partial is not None:
                file.partial.close()
            file.result.cancel()

    # -- where a file is -----------------------------------------------------------------------

    def _add(self, wanted: WantedFile) -> _File:
        file = self._files[wanted.key] = _File(wanted, self._loop.create_future())
        return file

    def _ask(self, new: Sequence[_File]) -> None:
        if not new:
            return
        if self._up is not None:
            self._up(WantFiles(files=tuple(file.wanted for file in new)))
            return
        for file in new:
            file.supplier = OWN
            file.tried.add(OWN)
            self._keep(self._look_here(file), file)

    def _find_source(self, file: _File, why: str = "nobody has it") -> None:
        """Have one of those that asked be the source, the first one first."""
        who = next((who for who in file.askers if who != ABOVE and who not in file.tried), None)
        # Who runs an object has it; of debug files there are mostly none anywhere.
        if who is None or len(file.tried) >= MOST_SOURCES[file.key.kind]:
            if self._up is None:
                self._settle(file, _gone(file.key, why))
                return
            # Others may have it: who is above says how it ends.
            file.supplier = ABOVE
            if ABOVE in file.askers:
                del file.askers[ABOVE]
                self._tell(ABOVE, _gone(file.key, why))
            else:
                self._up(WantFiles(files=(file.wanted,)))
            return
        file.tried.add(who)
        file.supplier = who
        if who == OWN:
            self._keep(self._look_here(file), file)
        else:
            self._down(who, WantFiles(files=(file.wanted,)))

    async def _look_here(self, file: _File) -> None:
        cache = await self.cache()
        if file.key.kind == "debug":
            # Its name may stand in the object, which is then read in its copy.
            whole = self._files.get(FileKey(build_id=file.key.build_id))
            if whole is not None:
                await asyncio.wait((whole.result,))
        try:
            file.source, version = await asyncio.to_thread(
                look_for, file.wanted, file.own_paths, cache
            )
        except OSError as error:
            LOG.debug("%s is not here: %s", file.wanted.path, error)
            self._find_source(file, error.strerror or str(error))
            return
        self._settle(
            file, FileIs(key=file.key, size_bytes=version.size_bytes, mtime_ns=version.mtime_ns)
        )

    def _settle(self, file: _File, is_: FileIs) -> None:
        file.is_ = is_
        # What is read here is told of when the copy is there: an aggregator on the same host has
        # the same cache.
        if file.supplier != OWN or file.is_gone:
            self._tell_askers(file)
        if file.is_gone:
            self._serve_waiters(file)
            self._keep(self._do_without(file), file)
        else:
            self._keep(self._get(file), file)

    def _tell_askers(self, file: _File) -> None:
        assert file.is_ is not None
        file.is_told = True
        for who in file.askers:
            # One that was asked to be the source, and has none, waits for the word too.
            if who != file.supplier or file.is_gone:
                self._tell(who, file.is_)

    def _lose(self, file: _File, why: str) -> None:
        """Take that a file cannot be had any longer."""
        if file.is_gone or file.local is not None:
            return
        LOG.info("%s: %s", file.wanted.path, why)
        file.is_ = _gone(file.key, why)
        self._tell_askers(file)
        file.waiters.clear()
        waiting = [place for place in self._pending if place[0] == file.key]
        if not waiting:
            self._keep(self._do_without(file), file)
        for place in waiting:
            future = self._pending.pop(place)
            if not future.done():
                future.set_exception(GoneError(why))
                future.exception()

    async def _do_without(self, file: _File) -> None:
        """What nobody has may be in the cache all the same, from an earlier session."""
        cache = await self.cache()
        found = await asyncio.to_thread(cache.find, file.key) if cache is not None else None
        self._finish(file, found, "cached_files")

    # -- getting it ----------------------------------------------------------------------------

    async def _get(self, file: _File) -> None:
        async with self._at_once:
            cache = await self.cache()
            if cache is not None:
                found = await asyncio.to_thread(cache.find, file.key, file.version)
                if found is not None:
                    self._finish(file, found, "cached_files")
                    return
                try:
                    file.partial = await asyncio.to_thread(cache.begin, file.key, file.version)
                except OSError as error:
                    self._have_no_room(error)
            try:
                if file.partial is None:
                    self._pass_on(file)
                elif file.supplier == OWN:
                    await self._copy(file, file.partial)
                else:
                    await self._fetch(file, file.partial)
            except GoneError as error:
                self._lose(file, str(error))
                await self._do_without(file)
            finally:
                if file.partial is not None:
                    file.partial.close()
                    file.partial = None

    def _pass_on(self, file: _File) -> None:
        """Do without a copy on this host: others are served from the source, or from above."""
        file.relays = file.source is None
        file.local = file.source
        self._serve_waiters(file)
        self._finish(file, None, "")

    async def _copy(self, file: _File, partial: Partial) -> None:
        """Read the file where it comes from, once."""
        assert file.source is not None
        source = file.source
        try:
            read_bytes = await asyncio.to_thread(self._copy_all, source, partial)
        except DamagedError as error:
            raise GoneError(f"{source} has been changed: {error.strerror}") from None
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise GoneError(f"{source}: {error.strerror}") from None
            self._have_no_room(error)
            partial.abandon()
            self._pass_on(file)
            return
        self._digests[file.key] = partial.digest()
        self._count(read_files=1, read_bytes=read_bytes)
        assert self._cache is not None
        self._finish(file, self._cache.path(file.key), "")

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

    async def _fetch(self, file: _File, partial: Partial) -> None:
        """Ask for the parts in order, and hand them on as they come."""
        self._count(resumed_bytes=partial.resumed_bytes)
        try:
            while True:
                was_resumed = partial.resumed_bytes > 0
                digest = await self._fetch_parts(file, partial)
                try:
                    path = await asyncio.to_thread(partial.finish, digest)
                    break
                except DamagedError as error:
                    if not was_resumed:
                        raise GoneError(f"it was refused: {error.strerror}") from None
                    LOG.info("%s: what an earlier transfer left was no use", file.wanted.path)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise GoneError(str(error.strerror)) from None
            self._have_no_room(error)
            partial.abandon()
            self._pass_on(file)
            return
        self._digests[file.key] = digest
        self._finish(file, path, "received_files")

    async def _fetch_parts(self, file: _File, partial: Partial) -> bytes:
        size_bytes = file.version.size_bytes
        # Of what is there already the end is asked for again: with it comes the digest.
        digest = b""
        ask = min(partial.size_bytes, max(0, size_bytes - 1)) // PART_BYTES * PART_BYTES
        asked: deque[tuple[int, asyncio.Future[FilePart]]] = deque()
        while ask < size_bytes or asked:
            while ask < size_bytes and len(asked) < PARTS_AHEAD:
                asked.append((ask, self._request(file, ask)))
                ask += PART_BYTES
            offset, future = asked.popleft()
            part = await future
            data = await asyncio.to_thread(_expand, part.data)
            if len(data) != min(PART_BYTES, size_bytes - offset):
                raise GoneError(f"a part of it has {len(data)} bytes")
            if offset + len(data) > partial.size_bytes:
                new = data[partial.size_bytes - offset :]
                await asyncio.to_thread(partial.append, new)
            digest = part.digest
            self._serve_waiters(file)
        return digest

    def _request(self, file: _File, offset: int) -> asyncio.Future[FilePart]:
        if file.is_gone:
            assert file.is_ is not None
            raise GoneError(file.is_.why)
        place = (file.key, offset)
        future = self._pending.get(place)
        if future is None:
            future = self._pending[place] = self._loop.create_future()
            self._send(file.supplier, WantPart(key=file.key, offset=offset))
        return future

    def _finish(self, file: _File, path: Path | None, how: str) -> None:
        if path is not None:
            file.local = path
        if file.result.done():
            return
        file.result.set_result(path)
        if file.is_ is not None and not file.is_told:
            self._tell_askers(file)
        self._serve_waiters(file)
        if OWN in file.askers:
            self._count_own(file, how)
        elif how == "received_files":
            self._count(received_files=1)

    def _count_own(self, file: _File, how: str) -> None:
        if file.result.result() is not None:
            # One that GDBs could not wait for has been counted.
            is_new = int(file.key not in self._left)
            self._count(wanted_files=is_new, **({how: 1} if how else {}))
        elif _is_needed(file) and file.key not in self._left:
            self._left.add(file.key)
            self._count(wanted_files=1, missing_files=1)

    def _have_no_room(self, error: OSError) -> None:
        """Tell once that there is no cache, or no room in it for all."""
        if self.has_no_room:
            return
        self.has_no_room = True
        where = f"{error.filename}: " if error.filename else ""
        why = f"{where}{error.strerror or error}"
        if self._cache is None:
            self._notice(f"--sbd: no cache ({why}); GDBs read the files by themselves")
        else:
            self._notice(f"--sbd: not all can be kept ({why}); GDBs read the rest by themselves")

    async def _open(self) -> None:
        def opened() -> FileCache:
            cache = self._open_cache()
            # It may hold less than before, and what is too old goes though nothing new comes.
            cache.clean()
            return cache

        try:
            self._cache = await asyncio.to_thread(opened)
        except OSError as error:
            self._have_no_room(error)

    # -- handing it on -------------------------------------------------------------------------

    def _take(self, who: int, message: AnyMessage) -> None:
        match message:
            case WantPart(key=key, offset=offset):
                self._serve(who, key, offset)
            case FilesAre(files=files):
                for is_ in files:
                    file = self._files.get(is_.key)
                    if file is None or file.supplier != who:
                        continue
                    if file.is_ is None and is_.size_bytes < 0 and who != ABOVE:
                        self._find_source(file, is_.why)
                    elif file.is_ is None:
                        self._settle(file, is_)
                    elif is_.size_bytes < 0:
                        self._lose(file, is_.why)
            case FilePart(key=key, offset=offset):
                future = self._pending.pop((key, offset), None)
                if future is not None and not future.done():
                    self._count(received_bytes=len(message.data))
                    self._keep_part(message)
                    future.set_result(message)

    def _serve(self, who: int, key: FileKey, offset: int) -> None:
        file = self._files.get(key)
        if file is None:
            self._tell(who, _gone(key, "it is not known"))
        elif file.is_ is None:
            # A new parent, which has to find out first.
            file.waiters.setdefault(offset, {})[who] = None
        elif file.is_gone:
            self._tell(who, file.is_)
        elif not 0 <= offset < file.version.size_bytes or offset % PART_BYTES:
            self._tell(who, _gone(key, f"it has no part at {offset}"))
        elif (part := self._kept.get((key, offset))) is not None:
            self._send_part(who, part)
        elif file.local is not None or self._is_there(file, offset):
            self._keep(self._make_and_send(file, who, offset), file)
        elif file.relays:
            self._keep(self._relay(file, who, offset), file)
        else:
            file.waiters.setdefault(offset, {})[who] = None

    def _is_there(self, file: _File, offset: int) -> bool:
        size_bytes = file.version.size_bytes
        return (
            file.partial is not None
            # With the last part goes the digest, which is known at the end.
            and offset + PART_BYTES < size_bytes
            and file.partial.size_bytes >= offset + PART_BYTES
        )

    def _serve_waiters(self, file: _File) -> None:
        if not file.waiters:
            return
        waiters, file.waiters = file.waiters, {}
        for offset, several in waiters.items():
            for who in several:
                self._serve(who, file.key, offset)

    async def _relay(self, file: _File, who: int, offset: int) -> None:
        try:
            self._send_part(who, await asyncio.shield(self._request(file, offset)))
        except GoneError as error:
            self._lose(file, str(error))

    async def _make_and_send(self, file: _File, who: int, offset: int) -> None:
        place = (file.key, offset)
        making = self._making.get(place)
        if making is None:
            making = self._making[place] = asyncio.create_task(self._make(file, offset))
            making.add_done_callback(lambda _: self._making.pop(place, None))
        try:
            self._send_part(who, await asyncio.shield(making))
        except OSError as error:
            if file.relays:
                await self._relay(file, who, offset)
                return
            file.local = None
            self._lose(file, str(error.strerror))

    async def _make(self, file: _File, offset: int) -> FilePart:
        size_bytes = file.version.size_bytes
        wanted = min(PART_BYTES, size_bytes - offset)
        is_last = offset + wanted == size_bytes
        path = file.local
        # What was written a moment ago is in memory.
        have = file.partial.read(offset, wanted) if path is None and file.partial else b""

        def make() -> tuple[bytes, bytes]:
            data, digest = have, b""
            if path is not None:
                with open(path, "rb", buffering=0) as source:
                    data = os.pread(source.fileno(), wanted, offset)
                    if is_last:
                        digest = self._digests.get(file.key) or _digest(source.fileno())
            if len(data) != wanted:
                raise OSError(errno.EIO, "it has become shorter")
            return zlib.compress(data, _LEVEL), digest

        data, digest = await asyncio.to_thread(make)
        if path is not None and path == file.source and path != self._cached(file):
            self._count(read_bytes=wanted, read_files=int(offset == 0))
        part = FilePart(key=file.key, offset=offset, data=data, digest=digest)
        self._keep_part(part)
        return part

    def _cached(self, file: _File) -> Path | None:
        return self._cache.path(file.key) if self._cache is not None else None

    def _keep_part(self, part: FilePart) -> None:
        place = (part.key, part.offset)
        if place in self._kept or len(part.data) > KEPT_BYTES:
            return
        self._kept[place] = part
        self._kept_bytes += len(part.data)
        while self._kept_bytes > KEPT_BYTES:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= len(oldest.data)

    def _send_part(self, who: int, part: FilePart) -> None:
        self._count(sent_parts=1, sent_bytes=len(part.data))
        self._send(who, part)

    def _tell(self, who: int, is_: FileIs) -> None:
        if who != OWN:
            self._send(who, FilesAre(files=(is_,)))

    def _send(self, who: int, message: AnyMessage) -> None:
        if who == ABOVE:
            if self._up is not None:
                self._up(message)
        else:
            self._down(who, message)

    # -- small things --------------------------------------------------------------------------

    def _keep(self, work: Coroutine[Any, Any, None], file: _File) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                # One file: the others go on, and GDB can read this one by itself.
                LOG.error("%s: delivering it failed", file.wanted.path, exc_info=error)
                self._finish(file, None, "")

        task.add_done_callback(done)

    def _count(self, **more: int) -> None:
        changes = {name: getattr(self.own, name) + value for name, value in more.items() if value}
        if changes:
            self.own = replace(self.own, **changes)
            self._report(self.own.node)

    def _report(self, *nodes: int) -> None:
        self._to_report.update(nodes)
        if self._report_timer is None and not self._is_closing:
            self._report_timer = self._loop.call_later(REPORT_WINDOW_S, self.flush_reports)

    def flush_reports(self) -> None:
        """Tell above what has changed."""
        if self._report_timer is not None:
            self._report_timer.cancel()
            self._report_timer = None
        nodes, self._to_report = self._to_report, set()
        known = {**self.reports, self.own.node: self.own}
        if nodes and self._up is not None:
            self._up(Deliveries(nodes=tuple(known[node] for node in sorted(nodes))))
        if nodes:
            self._on_report()


_NO_ROOM = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS}
)


def _is_needed(file: _File) -> bool:
    """Return whether GDB reads the file if it does not come: debug files are seldom there."""
    return file.key.kind == "object"


def _gone(key: FileKey, why: str) -> FileIs:
    return FileIs(key=key, size_bytes=-1, why=why)


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
