"""The kernel's and the user's settings for core files, and where cores of processes are by these.

core(5) describes ``/proc/sys/kernel/core_pattern``.
"""

from __future__ import annotations

import glob
import os
import resource
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from pgdb import core_limit
from pgdb.jobs import procfs
from pgdb.patterns import pattern

Kind = Literal["file", "systemd", "apport", "abrt", "program", "none"]
"""Receiver of core files: the kernel writes a file, a known service or another program gets them,
or nobody does."""

_SERVICES: dict[str, Kind] = {
    "systemd-coredump": "systemd",
    "apport": "apport",
    "abrt-hook-ccpp": "abrt",
}
SYSTEMD_FOLDER = "/var/lib/systemd/coredump"
APPORT_FOLDER = "/var/lib/apport/coredump"
_ABRT_FOLDERS = "/var/spool/abrt/ccpp-*"
_WHERE: dict[Kind, str] = {
    "systemd": f"systemd-coredump keeps them in {SYSTEMD_FOLDER}; 'pgdb core --systemd' opens them",
    "apport": f"apport keeps those of packaged programs in /var/crash ('apport-unpack' takes the "
    f"core out), and those of other programs in {APPORT_FOLDER} where 'ulimit -c' is not 0",
    "abrt": "abrt keeps them in /var/spool/abrt, as 'coredump' in a folder for each crash",
}
_HEEDS_LIMIT: tuple[Kind, ...] = ("file", "systemd", "apport")
"""Receivers that write nothing at a limit of 0. The kernel itself ignores the limit where a program
gets the core; systemd-coredump and apport look at it themselves."""
_NUMBER = pattern(r"\d+")


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that decide where core files of processes of this host go."""

    pattern: str
    """Contents of core_pattern."""
    uses_pid: bool = False
    """Whether the kernel appends the process id to a name without one."""
    soft_bytes: int = resource.RLIM_INFINITY
    """Limit of a core file's size that processes start with (``ulimit -c``)."""
    hard_bytes: int = resource.RLIM_INFINITY
    """Limit up to which a process can raise its own (``ulimit -Hc``)."""

    @property
    def kind(self) -> Kind:
        """The receiver of core files."""
        if not self.pattern.startswith("|"):
            return "file" if self.pattern and self.pattern != "/dev/null" else "none"
        name = os.path.basename(self.program)
        return _SERVICES.get(name, "program")

    @property
    def program(self) -> str:
        """Path of the program that gets the core files; empty if the kernel writes files."""
        return (self.pattern[1:].split() or [""])[0] if self.pattern.startswith("|") else ""

    @property
    def can_be_enabled(self) -> bool:
        """Whether a job can have core files if its limit is raised."""
        return self.kind != "none" and (self.hard_bytes != 0 or self.kind not in _HEEDS_LIMIT)

    @property
    def is_enabled(self) -> bool:
        """Whether a job has core files as it is."""
        is_off = self.soft_bytes == 0 and self.kind in _HEEDS_LIMIT
        return self.can_be_enabled and not is_off

    @property
    def are_overwritten(self) -> bool:
        """Whether processes with one working directory overwrite each other's core file."""
        own = ("%p", "%P", "%i", "%I")
        return (
            self.kind == "file"
            and not self.uses_pid
            and not any(each in self.pattern for each in own)
        )

    def describe(self) -> str:
        """Return where core files go."""
        match self.kind:
            case "none":
                return "core files are off for all of this host (core_pattern)"
            case "file":
                place = "" if self.pattern.startswith("/") else " in the process's directory"
                text = f"the kernel writes core files named {self.pattern}{place}"
                if self.are_overwritten:
                    text += "; ranks with one directory overwrite each other's"
                return text
            case "program":
                return f"core files go to {self.program} (core_pattern), which decides about them"
            case kind:
                return _WHERE[kind]

    def why_none(self) -> str:
        """Return why a job that died has no core files; empty if it should have some."""
        if self.kind == "none":
            return self.describe()
        if self.can_be_enabled and not self.is_enabled:
            return "core files are off (ulimit -c is 0); 'ulimit -c unlimited' turns them on"
        if not self.can_be_enabled:
            return (
                "core files are off: the hard limit is 0 (ulimit -Hc), which only the "
                "administrator raises"
            )
        return ""


def read_policy(proc: Path = procfs.PROC) -> Policy:
    """Return the settings of this host, with the limits that the user has."""
    soft, hard = core_limit.given()
    return Policy(
        pattern=_setting(proc, "core_pattern"),
        uses_pid=_setting(proc, "core_uses_pid") not in ("", "0"),
        soft_bytes=soft,
        hard_bytes=hard,
    )


def _setting(proc: Path, name: str) -> str:
    try:
        return Path(proc, "sys/kernel", name).read_text("utf-8", "replace").strip("\n")
    except OSError:
        return ""


class LeftCores(msgspec.Struct, frozen=True):
    """The core files that a job has left."""

    paths: tuple[str, ...]
    why_none: str = ""
    """The reason if there are none."""


def find_left_cores(
    folders: Iterable[str],
    since_s: float,
    *,
    pids: Collection[int] = (),
    policy: Policy | None = None,
) -> LeftCores:
    """Return the core files that processes of a job have left on this host.

    The files may be of other programs that died meanwhile: :func:`pgdb.cores.core_set.assemble`
    separates the jobs.

    :param folders: the working directories of the processes.
    :param since_s: the start of the job; older files are not its own.
    :param pids: the processes, if they are known.
    """
    policy = policy or read_policy()
    found: dict[tuple[int, int], str] = {}
    for place in _places(policy, {os.path.abspath(each) for each in folders}):
        for path in sorted(glob.glob(place)):
            try:
                status = os.stat(path)
            except OSError:
                continue
            if status.st_mtime >= since_s and _may_be_of(path, pids, policy):
                found.setdefault((status.st_dev, status.st_ino), path)
    if found:
        return LeftCores(tuple(found.values()))
    return LeftCores((), policy.why_none() or _why_not_found(policy))


def _places(policy: Policy, folders: Collection[str]) -> Iterator[str]:
    """Yield patterns for :mod:`glob` of the places of core files."""
    match policy.kind:
        case "systemd":
            yield f"{SYSTEMD_FOLDER}/core.*"
        case "apport":
            yield f"{APPORT_FOLDER}/core.*"
            # Earlier releases put the core where the kernel would.
            yield from (f"{glob.escape(folder)}/core*" for folder in folders)
        case "abrt":
            yield f"{_ABRT_FOLDERS}/coredump"
        case "program":
            yield from (f"{glob.escape(folder)}/core*" for folder in folders)
        case "file":
            name = _as_glob(policy.pattern) + (".*" if _appends_pid(policy) else "")
            if name.startswith("/"):
                yield name
            else:
                yield from (f"{glob.escape(folder)}/{name}" for folder in folders)
        case "none":
            return


def _appends_pid(policy: Policy) -> bool:
    return policy.uses_pid and "%p" not in policy.pattern


def _as_glob(pattern: str) -> str:
    """Return a core_pattern with each ``%`` specifier as ``*``."""
    parts = []
    at = 0
    while at < len(pattern):
        if pattern[at] == "%":
            following = pattern[at + 1 : at + 2]
            parts.append("%" if following == "%" else "*" if following else "")
            at += 2
        else:
            parts.append(glob.escape(pattern[at]))
            at += 1
    return "".join(parts)


def _may_be_of(path: str, pids: Collection[int], policy: Policy) -> bool:
    """Return whether a file's name allows that it is the core of one of some processes."""
    if not pids or policy.kind in ("abrt", "program"):
        return True
    if policy.kind == "file" and not _appends_pid(policy) and "%p" not in policy.pattern:
        return True
    return any(int(each) in pids for each in _NUMBER.findall(os.path.basename(path)))


def _why_not_found(policy: Policy) -> str:
    """Return what may have become of core files that should be there."""
    folder = os.path.dirname(policy.pattern) if policy.pattern.startswith("/") else ""
    if policy.kind == "file" and folder and "%" not in folder:
        if not os.path.isdir(folder):
            return f"no core files: {folder} of core_pattern does not exist"
        if not os.access(folder, os.W_OK | os.X_OK):
            return f"no core files: {folder} of core_pattern is not writable for this user"
    return (
        "no core files were found on this host: the processes may have died on other hosts, in "
        f"other directories, or of nothing that makes a core; {policy.describe()}"
    )
