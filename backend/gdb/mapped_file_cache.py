"""Facts about files that ranks have mapped, found once on each host."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from pgdb.backend.sbd.rank_files import MappedFile, open_mapped

Fact = TypeVar("Fact")


class MappedFileCache(Generic[Fact]):
    """The results of a search in mapped files; the ranks of a host share them."""

    def __init__(self, search: Callable[[int], Fact], nothing: Fact) -> None:
        """Search open files with *search*, given a descriptor.

        The fact is *nothing* for a file that cannot be opened, and where the search raises OSError
        or ValueError: it is no ELF file, or a damaged one.
        """
        self._search = search
        self._nothing = nothing
        self._found: dict[tuple[tuple[str, int], str], Fact] = {}
        self._lock = threading.Lock()

    def find(self, pid: int, mapping: MappedFile) -> Fact:
        """Return the fact about a file that process *pid* has mapped."""
        key = mapping.file, mapping.path
        with self._lock:
            if key not in self._found:
                self._found[key] = self._looked_up(pid, mapping)
            return self._found[key]

    def _looked_up(self, pid: int, mapping: MappedFile) -> Fact:
        try:
            descriptor = open_mapped(pid, mapping)
        except OSError:
            return self._nothing
        try:
            return self._search(descriptor)
        except (OSError, ValueError):
            return self._nothing
        finally:
            os.close(descriptor)
