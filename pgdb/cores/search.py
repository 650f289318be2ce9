"""The search for core files on a host, as messages carry it: what to look for, and what is there.

It has two steps. First each host lists the files that the user's names lead to. Hosts that share a
file system see the same files; the front end recognizes them, and divides them among these hosts.
Then each host reads its files.
"""

from __future__ import annotations

import msgspec

from pgdb.cores.core_file import CoreFile


class LeftBy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The processes of a job, whose core files are wanted."""

    folders: tuple[str, ...]
    """Working directories of the processes."""
    since_s: float
    """Unix time before which no file is theirs, by the clock of each host."""
    pids: tuple[int, ...] = ()


class CoreSearch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The order to list core files, or to read some."""

    nodes: tuple[int, ...] = ()
    """The aggregators that search: one of each host. The others answer with nothing."""
    targets: tuple[str, ...] = ()
    """Files, directories and patterns to list; matches of coredumpctl with *from_systemd*."""
    from_systemd: bool = False
    """Whether systemd-coredump is asked for the files."""
    left_by: LeftBy | None = None
    """Processes whose core files are listed, wherever their host puts them."""
    executable: str = ""
    """The program that the user names; empty for that of each core."""
    paths: dict[int, tuple[str, ...]] = {}
    """The files that each aggregator reads; empty if the files are to be listed."""


class ListedCore(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file that may be a core file. The same file on another host has the same values."""

    path: str
    size_bytes: int
    mtime_ns: int
    digest: bytes
    """Hash of the beginning, which has the registers and the process id."""


class HostCores(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Core files of one host."""

    listed: tuple[ListedCore, ...] = ()
    cores: tuple[CoreFile, ...] = ()
    """The core files that were read, without the list of files that their processes had mapped."""
    refused: tuple[tuple[str, str], ...] = ()
    """Name and fault of each file that is no core, or cannot be read."""
    why_none: dict[str, str] = {}
    """The targets that lead to no file on this host, and the reasons."""
    error: str = ""
    """The reason why the host could not search."""
    build_id: str = ""
    """Build-id of the program that the user names; empty if it has none."""
