"""The state of one node's part in delivering files: who wants which file, and who supplies it.

It does no input or output. Each call changes the state and appends actions, which the driver
(:mod:`pgdb.files.delivery`) carries out with :meth:`DeliveryState.take_actions`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

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
from pgdb.files.file_cache import Version, is_key
from pgdb.files.file_state import FileState
from pgdb.overlay.messages import (
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
"""Size of each part of a file but the last."""
KEPT_BYTES = 16 << 20
"""Most bytes of compressed parts kept in memory: children ask for a part at about the same time."""
MOST_SOURCES = {"object": 4, "debug": 2}
"""Most nodes, this one included, that are asked in turn to be the source of a file."""

Place = tuple[FileKey, int]
"""A part of a file by its offset."""


class DeliveryState:
    """All files of one node, and its counts."""

    def __init__(self, node: int, host: str, *, is_root: bool) -> None:
        self.own = Delivered(node=node, host=host)
        self.reports: dict[int, Delivered] = {}
        """The latest counts of the nodes below."""
        self._is_root = is_root
        self._files: dict[FileKey, FileState] = {}
        self._actions: list[Action] = []
        self._requested: dict[Place, None] = {}
        self._making: dict[Place, dict[int, None]] = {}
        self._kept: OrderedDict[Place, FilePart] = OrderedDict()
        self._kept_bytes = 0
        self._left: set[FileKey] = set()
        self._to_report: set[int] = set()

    # -- what the driver reads ------------------------------------------------------------------

    def take_actions(self) -> list[Action]:
        """Return the actions since the last call."""
        actions, self._actions = self._actions, []
        return actions

    def file(self, key: FileKey) -> FileState | None:
        """Return the state of a file, None where no node has asked for it."""
        return self._files.get(key)

    @property
    def has_news(self) -> bool:
        """Whether counts have changed since the last report."""
        return bool(self._to_report)

    def take_report(self) -> Deliveries | None:
        """Return the counts that have changed since the last call."""
        nodes, self._to_report = self._to_report, set()
        known = {**self.reports, self.own.node: self.own}
        return Deliveries(nodes=tuple(known[node] for node in sorted(nodes))) if nodes else None

    # -- requests of this host ------------------------------------------------------------------

    def want(self, files: Iterable[tuple[WantedFile, Sequence[str]]]) -> None:
        """Request files for this host, each with other paths at which the host may have it."""
        new = []
        for wanted, own_paths in files:
            file = self._files.get(wanted.key)
            if file is None:
                file = self._add(wanted)
                new.append(file)
            file.own_paths = file.own_paths or tuple(own_paths)
            if OWN not in file.askers:
                file.askers[OWN] = None
                if file.is_done:
                    self._count_own(file, "cached_files")
        self._ask(new)

    def leave(self, keys: Iterable[FileKey]) -> None:
        """Count files that GDBs of this host read by themselves, whether they arrive or not."""
        for key in keys:
            if key not in self._left:
                self._left.add(key)
                file = self._files.get(key)
                is_counted = file is not None and file.is_done
                self.count(missing_files=1, wanted_files=int(not is_counted))

    # -- messages and links ---------------------------------------------------------------------

    def from_child(self, child: int, message: AnyMessage) -> None:
        """Process a message from a child."""
        match message:
            case WantFiles(files=files):
                new = []
                for wanted in files:
                    if not is_key(wanted.key):
                        self._announce(child, gone(wanted.key, "that is no build-id"))
                        continue
                    file = self._files.get(wanted.key)
                    if file is None:
                        file = self._add(wanted)
                        new.append(file)
                    file.askers[child] = None
                    if file.found is not None and file.is_announced:
                        self._announce(child, file.found)
                self._ask(new)
            case Deliveries(nodes=nodes):
                self.reports.update({each.node: each for each in nodes})
                self._to_report.update(each.node for each in nodes)
            case _:
                self._process(child, message)

    def from_above(self, message: AnyMessage) -> None:
        """Process a message from the parent."""
        if not isinstance(message, WantFiles):
            self._process(ABOVE, message)
            return
        for wanted in message.files:
            file = self._files.get(wanted.key)
            if file is None:
                self._announce(ABOVE, gone(wanted.key, "nobody here has asked for it"))
                continue
            file.askers[ABOVE] = None
            if file.found is None:
                self._find_source(file)
            elif file.is_announced:
                self._announce(ABOVE, file.found)

    def lose_child(self, child: int) -> None:
        """Remove a lost child; another node supplies its files."""
        for file in list(self._files.values()):
            file.askers.pop(child, None)
            for who in file.waiters.values():
                who.pop(child, None)
            if file.supplier != child:
                continue
            if file.found is None:
                self._find_source(file)
            elif not file.is_here:
                self._lose(file, "the host that had it is lost")

    def new_parent(self) -> None:
        """Request from a new parent everything that the old one has not sent."""
        for file in self._files.values():
            file.askers.pop(ABOVE, None)
            for who in file.waiters.values():
                who.pop(ABOVE, None)
        missing = [
            file.wanted
            for file in self._files.values()
            if file.supplier == ABOVE and not file.is_here and not file.is_gone
        ]
        if missing:
            self._send(ABOVE, WantFiles(files=tuple(missing)))
        for key, offset in self._requested:
            if self._files[key].supplier == ABOVE:
                self._send(ABOVE, WantPart(key=key, offset=offset))
        self._to_report.update((self.own.node, *self.reports))

    # -- reports of the driver ------------------------------------------------------------------

    def found_here(self, key: FileKey, version: Version) -> None:
        """Make this node the source: it has the file."""
        file = self._files[key]
        file.is_source = True
        self._settle(
            file, FileIs(key=key, size_bytes=version.size_bytes, mtime_ns=version.mtime_ns)
        )

    def not_here(self, key: FileKey, why: str) -> None:
        """Look for another source: this node does not have the file."""
        self._find_source(self._files[key], why)

    def request(self, key: FileKey, offset: int) -> None:
        """Request a part from the supplier; it arrives as an action."""
        if (key, offset) not in self._requested:
            self._requested[key, offset] = None
            self._send(self._files[key].supplier, WantPart(key=key, offset=offset))

    def progress(self, key: FileKey, received_bytes: int) -> None:
        """Serve nodes that wait for parts of an incomplete copy."""
        file = self._files[key]
        file.received_bytes = received_bytes
        self._serve_waiters(file)

    def finish(self, key: FileKey, *, has_copy: bool, how: str = "") -> None:
        """End the search for a copy; *how* is the count that it goes into."""
        file = self._files[key]
        if has_copy:
            file.is_here = True
        if file.is_done:
            return
        file.is_done, file.has_copy = True, has_copy
        if file.found is not None and not file.is_announced:
            self._announce_to_askers(file)
        self._serve_waiters(file)
        if OWN in file.askers:
            self._count_own(file, how)
        elif how == "received_files":
            self.count(received_files=1)

    def pass_on(self, key: FileKey) -> None:
        """Serve others from the source or from above, without a copy on this host."""
        file = self._files[key]
        file.relays = not file.is_source
        file.is_here = file.is_source
        self._serve_waiters(file)
        self.finish(key, has_copy=False)

    def lose(self, key: FileKey, why: str) -> None:
        """Note that no node can supply a file any longer."""
        self._lose(self._files[key], why)

    def part_made(self, part: FilePart) -> None:
        """Send a part to all nodes that wait for it."""
        self._keep_part(part)
        for who in self._making.pop((part.key, part.offset), {}):
            self._send_part(who, part)

    def part_failed(self, key: FileKey, offset: int, why: str) -> None:
        """Request a part that this node could not read, if it relays; else give up the file."""
        file = self._files[key]
        waiters = self._making.pop((key, offset), {})
        if file.relays:
            for who in waiters:
                self._relay(file, who, offset)
            return
        file.is_here = False
        self._lose(file, why)

    def count(self, **more: int) -> None:
        """Add to the counts of this node."""
        changes = {name: getattr(self.own, name) + value for name, value in more.items() if value}
        if changes:
            self.own = replace(self.own, **changes)
            self._to_report.add(self.own.node)

    # -- where a file is ------------------------------------------------------------------------

    def _add(self, wanted: WantedFile) -> FileState:
        file = self._files[wanted.key] = FileState(wanted)
        return file

    def _ask(self, new: Sequence[FileState]) -> None:
        if not new:
            return
        if not self._is_root:
            self._send(ABOVE, WantFiles(files=tuple(file.wanted for file in new)))
            return
        for file in new:
            file.supplier = OWN
            file.tried.add(OWN)
            self._actions.append(LookHere(file.key))

    def _find_source(self, file: FileState, why: str = "nobody has it") -> None:
        """Ask the first asker that was not tried yet to be the source."""
        who = next((who for who in file.askers if who != ABOVE and who not in file.tried), None)
        # A node that runs an object has it; most debug files do not exist anywhere.
        if who is None or len(file.tried) >= MOST_SOURCES[file.key.kind]:
            if self._is_root:
                self._settle(file, gone(file.key, why))
                return
            # Other nodes may have it; the parent decides.
            file.supplier = ABOVE
            if ABOVE in file.askers:
                del file.askers[ABOVE]
                self._announce(ABOVE, gone(file.key, why))
            else:
                self._send(ABOVE, WantFiles(files=(file.wanted,)))
            return
        file.tried.add(who)
        file.supplier = who
        if who == OWN:
            self._actions.append(LookHere(file.key))
        else:
            self._send(who, WantFiles(files=(file.wanted,)))

    def _settle(self, file: FileState, found: FileIs) -> None:
        file.found = found
        # A file of this host is announced once it is in the cache: an aggregator on the same host
        # uses the same cache.
        if file.supplier != OWN or file.is_gone:
            self._announce_to_askers(file)
        if file.is_gone:
            self._serve_waiters(file)
            self._actions.append(DoWithout(file.key))
        else:
            self._actions.append(Get(file.key))

    def _announce_to_askers(self, file: FileState) -> None:
        assert file.found is not None
        file.is_announced = True
        for who in file.askers:
            # A child that was asked to be the source and does not have the file waits too.
            if who != file.supplier or file.is_gone:
                self._announce(who, file.found)

    def _lose(self, file: FileState, why: str) -> None:
        if file.is_gone or file.is_here:
            return
        LOG.info("%s: %s", file.wanted.path, why)
        file.found = gone(file.key, why)
        self._announce_to_askers(file)
        file.waiters.clear()
        requested = [place for place in self._requested if place[0] == file.key]
        for place in requested:
            del self._requested[place]
        self._actions.append(Unavailable(file.key, why) if requested else DoWithout(file.key))

    def _count_own(self, file: FileState, how: str) -> None:
        if file.has_copy:
            # A file for which GDBs did not wait was counted before.
            is_new = int(file.key not in self._left)
            self.count(wanted_files=is_new, **({how: 1} if how else {}))
        elif file.is_needed and file.key not in self._left:
            self._left.add(file.key)
            self.count(wanted_files=1, missing_files=1)

    # -- parts ----------------------------------------------------------------------------------

    def _process(self, who: int, message: AnyMessage) -> None:
        match message:
            case WantPart(key=key, offset=offset):
                self._serve(who, key, offset)
            case FilesAre(files=files):
                for found in files:
                    self._supplier_says(who, found)
            case FilePart(key=key, offset=offset):
                if (key, offset) not in self._requested:
                    return
                del self._requested[key, offset]
                self.count(received_bytes=len(message.data))
                self._keep_part(message)
                self._actions.append(PartHere(message))
                file = self._files[key]
                if file.relays:
                    for waiter in file.waiters.pop(offset, {}):
                        self._send_part(waiter, message)

    def _supplier_says(self, who: int, found: FileIs) -> None:
        file = self._files.get(found.key)
        if file is None or file.supplier != who:
            return
        if file.found is None and found.size_bytes < 0 and who != ABOVE:
            self._find_source(file, found.why)
        elif file.found is None:
            self._settle(file, found)
        elif found.size_bytes < 0:
            self._lose(file, found.why)

    def _serve(self, who: int, key: FileKey, offset: int) -> None:
        file = self._files.get(key)
        if file is None:
            self._announce(who, gone(key, "it is not known"))
        elif file.found is None:
            # The asker is a new parent, and this node waits for an answer itself.
            file.waiters.setdefault(offset, {})[who] = None
        elif file.is_gone:
            self._announce(who, file.found)
        elif not 0 <= offset < file.version.size_bytes or offset % PART_BYTES:
            self._announce(who, gone(key, f"it has no part at {offset}"))
        elif (part := self._kept.get((key, offset))) is not None:
            self._send_part(who, part)
        elif file.is_here or _has_arrived(file, offset):
            if (key, offset) not in self._making:
                self._actions.append(MakePart(key, offset))
            self._making.setdefault((key, offset), {})[who] = None
        elif file.relays:
            self._relay(file, who, offset)
        else:
            file.waiters.setdefault(offset, {})[who] = None

    def _relay(self, file: FileState, who: int, offset: int) -> None:
        if file.is_gone:
            return  # *who* was notified
        file.waiters.setdefault(offset, {})[who] = None
        self.request(file.key, offset)

    def _serve_waiters(self, file: FileState) -> None:
        waiters, file.waiters = file.waiters, {}
        for offset, several in waiters.items():
            for who in several:
                self._serve(who, file.key, offset)

    def _keep_part(self, part: FilePart) -> None:
        place = (part.key, part.offset)
        if place in self._kept or len(part.data) > KEPT_BYTES:
            return
        self._kept[place] = part
        self._kept_bytes += len(part.data)
        while self._kept_bytes > KEPT_BYTES:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= len(oldest.data)

    # -- sending --------------------------------------------------------------------------------

    def _send_part(self, who: int, part: FilePart) -> None:
        self.count(sent_parts=1, sent_bytes=len(part.data))
        self._send(who, part)

    def _announce(self, who: int, found: FileIs) -> None:
        self._send(who, FilesAre(files=(found,)))

    def _send(self, who: int, message: AnyMessage) -> None:
        if who != OWN and not (who == ABOVE and self._is_root):
            self._actions.append(Send(who, message))


def gone(key: FileKey, why: str) -> FileIs:
    """Return the notice that no node can supply a file."""
    return FileIs(key=key, size_bytes=-1, why=why)


def _has_arrived(file: FileState, offset: int) -> bool:
    """Return whether an incomplete copy holds a part; the last part needs the digest of all."""
    end = offset + PART_BYTES
    return end < file.version.size_bytes and file.received_bytes >= end
