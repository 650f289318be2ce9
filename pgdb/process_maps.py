"""The mappings of a process, parsed from /proc/PID/maps (proc_pid_maps(5))."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path

import msgspec

from pgdb.patterns import pattern

DELETED = " (deleted)"
"""Suffix of the path of a file that was deleted or replaced."""
_MAPPING = pattern(
    r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) ([-rwxsp]{4}) ([0-9a-f]{1,16}) \S+ \d+ *(.*)\Z", re.S
)


class Mapping(msgspec.Struct, frozen=True):
    """A line of /proc/PID/maps."""

    start: int
    end: int
    permissions: str
    offset: int
    path: str

    @property
    def is_writable(self) -> bool:
        """Whether it can contain variables."""
        return self.permissions.startswith("rw")

    @property
    def is_code(self) -> bool:
        """Whether the process can execute it."""
        return "x" in self.permissions


class MappingTable:
    """Mappings of a process, found by an address inside them."""

    def __init__(self, mappings: Iterable[Mapping] = ()) -> None:
        self.all = sorted(mappings, key=lambda each: each.start)
        self._starts = [each.start for each in self.all]

    def up_to(self, address: int) -> list[Mapping]:
        """Return the mappings that begin at *address* or before it."""
        return self.all[: bisect_right(self._starts, address)]

    def at(self, address: int) -> Mapping | None:
        """Return the mapping with *address*, None if there is none."""
        index = bisect_right(self._starts, address) - 1
        if index < 0 or address >= self.all[index].end:
            return None
        return self.all[index]


def read_mappings(pid: int) -> list[Mapping]:
    """Return the mappings of process *pid*.

    :raises OSError: if the process has ended, or they may not be read.
    """
    return parse_mappings(Path(f"/proc/{pid}/maps").read_bytes())


def parse_mappings(data: bytes) -> list[Mapping]:
    """Parse the text of /proc/PID/maps; skip malformed lines, such as a truncated one."""
    mappings = []
    # A name may contain any character that Python treats as the end of a line, except "\n".
    for line in os.fsdecode(data).split("\n"):
        match = _MAPPING.match(line)
        if match is not None:
            mappings.append(
                Mapping(
                    start=int(match[1], 16),
                    end=int(match[2], 16),
                    permissions=match[3],
                    offset=int(match[4], 16),
                    path=match[5],
                )
            )
    return mappings
