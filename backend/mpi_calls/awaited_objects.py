"""The objects of the kernel on which system calls wait: pipes, sockets, terminals, files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pgdb.jobs import procfs

# Of x86-64: read, write, pread64, pwrite64, readv, writev, connect, accept, sendto, recvfrom,
# sendmsg, recvmsg, flock, fcntl, fsync, fdatasync, accept4, recvmmsg, sendmmsg
_OF_DESCRIPTOR = frozenset(
    (0, 1, 17, 18, 19, 20, 42, 43, 44, 45, 46, 47, 72, 73, 74, 75, 288, 299, 307)
)
_STANDARD = {0: "its standard input", 1: "its standard output", 2: "its standard error"}


def awaited_object(number: int, first: int, pid: int, proc: Path = procfs.PROC) -> str:
    """Return the object on which a system call of a process waits; empty if it is unknown.

    :param number: the system call's, of x86-64.
    :param first: the first argument of the system call.
    """
    if number not in _OF_DESCRIPTOR or first >= 1 << 31:
        return ""
    kind = _kind_of(proc / str(pid) / "fd" / str(first))
    if name := _STANDARD.get(first):
        return f"{name}, {kind}" if kind else name
    # The numbers of other descriptors can differ between ranks that are alike.
    return kind


def _kind_of(link: Path) -> str:
    """Return the kind of the file behind a descriptor, without a name that each rank has anew."""
    try:
        target, mode = os.readlink(link), link.stat().st_mode
    except OSError:
        return ""
    if target.startswith("pipe:"):
        return "a pipe"
    if stat.S_ISFIFO(mode):
        return "a FIFO"
    if stat.S_ISSOCK(mode):
        return "a socket"
    if target.startswith(("/dev/pts/", "/dev/tty")):
        return "a terminal"
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return "a file"
    return "a device" if target.startswith("/dev/") else ""
