"""The state of one file at a node that delivers files."""

from __future__ import annotations

from pgdb.files.delivery_actions import ABOVE
from pgdb.files.file_cache import Version
from pgdb.overlay.messages import FileIs, FileKey, WantedFile


class FileState:
    """The state of one file at this node."""

    def __init__(self, wanted: WantedFile) -> None:
        self.wanted = wanted
        self.own_paths: tuple[str, ...] = ()
        """Other paths at which this host may have it."""
        self.askers: dict[int, None] = {}
        """The nodes that want it, in the order in which they asked."""
        self.supplier = ABOVE
        self.tried: set[int] = set()
        """This node and children, if they were asked to be the source."""
        self.found: FileIs | None = None
        """Size and version of the file, or the reason why there is none, once known."""
        self.is_announced = False
        """Whether the askers know *found*."""
        self.is_source = False
        """Whether this node reads it outside the cache."""
        self.is_here = False
        """Whether this host has the whole file."""
        self.received_bytes = 0
        """Size of the incomplete copy on this host."""
        self.relays = False
        """Whether parts are passed on without a copy on this host."""
        self.waiters: dict[int, dict[int, None]] = {}
        """The nodes that wait for the part at an offset."""
        self.is_done = False
        """Whether the search for a copy has ended."""
        self.has_copy = False
        """Whether it ended with a copy in the cache."""

    @property
    def key(self) -> FileKey:
        """The build-id and the kind."""
        return self.wanted.key

    @property
    def version(self) -> Version:
        """Size and time of the last change; only where there is a file."""
        assert self.found is not None
        return Version(self.found.size_bytes, self.found.mtime_ns)

    @property
    def is_gone(self) -> bool:
        """Whether no node can supply it."""
        return self.found is not None and self.found.size_bytes < 0

    @property
    def is_needed(self) -> bool:
        """Whether GDB reads the file if it does not arrive: most debug files do not exist."""
        return self.key.kind == "object"
