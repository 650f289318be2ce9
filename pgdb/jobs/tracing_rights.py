"""Rights of this process to trace another one, by what /proc shows of both."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pgdb.jobs import procfs
from pgdb.jobs.procfs import PROC

# include/uapi/linux/capability.h
_CAP_SYS_PTRACE = 19


def yama_scope(proc: Path = PROC) -> int:
    """Return kernel.yama.ptrace_scope; 0 (no restriction) on kernels without Yama."""
    try:
        return int((proc / "sys/kernel/yama/ptrace_scope").read_bytes())
    except OSError:
        return 0


def why_not_traceable(pid: int, proc: Path = PROC, *, tracer: int = 0) -> str | None:
    """Return the reason why this process may not trace *pid*, and the way out; None if it may.

    A process that is traced by *tracer* counts as one that is not traced.
    The result is a forecast from /proc. A process that has allowed its tracer with PR_SET_PTRACER
    does not show that, so under Yama the kernel's own answer is better.
    """
    stat = procfs.read_stat(pid, proc)
    if stat is None or stat.has_ended:
        return f"process {pid} has ended"
    if stat.is_kernel_thread:
        return f"{pid} ({stat.comm}) is a thread of the kernel, which no debugger can trace"
    if stat.tracer_pid not in (0, os.getpid(), tracer):
        other = procfs.read_stat(stat.tracer_pid, proc)
        name = f" ({other.comm})" if other is not None else ""
        return (
            f"{pid} ({stat.comm}) is already traced by {stat.tracer_pid}{name}; "
            "end that one or detach it first"
        )
    scope = yama_scope(proc)
    if scope >= 3:
        return (
            f"kernel.yama.ptrace_scope is {scope}: nothing on this host can be traced "
            "until it is booted with another value"
        )
    me = procfs.status_fields(f"{proc}/self/status") or {}
    if int(me.get("CapEff", "0"), 16) >> _CAP_SYS_PTRACE & 1:
        return None
    theirs = procfs.status_fields(f"{proc}/{pid}/status") or {}
    my_uid = me.get("Uid", "0 0 0 0").split()[1]
    uids = theirs.get("Uid", my_uid).split()[:3]
    if set(uids) != {my_uid}:
        owner = procfs.user_name(stat.uid)
        if uids[0] == my_uid:
            return (
                f"{pid} ({stat.comm}) is yours but has the rights of user {owner} "
                "(a set-user-ID program); run pgdb with CAP_SYS_PTRACE, or debug a copy of the "
                "program without that bit"
            )
        return (
            f"{pid} ({stat.comm}) belongs to user {owner}; "
            "run pgdb as that user or with CAP_SYS_PTRACE"
        )
    if procfs.is_closed(pid, proc):
        return f"{pid} ({stat.comm}) {_why_closed(pid, me, theirs, proc)}"
    if scope == 2:
        return (
            "kernel.yama.ptrace_scope is 2: only CAP_SYS_PTRACE may trace; "
            "set sysctl kernel.yama.ptrace_scope=0 or give CAP_SYS_PTRACE"
        )
    if scope == 1 and not _descends(pid, os.getpid(), proc):
        return (
            f"kernel.yama.ptrace_scope is 1 and {pid} ({stat.comm}) was not started by pgdb; "
            "set sysctl kernel.yama.ptrace_scope=0, give CAP_SYS_PTRACE, "
            "or start the job with pgdb launch"
        )
    return None


def _whose_permission(path: str) -> str:
    """Return the letter of chmod for the permissions of a file that apply to this process."""
    status = os.stat(path)
    if status.st_uid == os.geteuid():
        return "u"
    return "g" if status.st_gid in (os.getegid(), *os.getgroups()) else "o"


def _why_closed(pid: int, me: dict[str, str], theirs: dict[str, str], proc: Path) -> str:
    """Return the reason why the kernel closes a process of ours, and the way out."""
    words = procfs.command_line(pid, proc) or [""]
    program = words[0] or "its program"
    if int(theirs.get("CapPrm", "0"), 16) & ~int(me.get("CapPrm", "0"), 16):
        return (
            f"has capabilities that pgdb lacks (getcap {program} shows those of the file); "
            "run pgdb with CAP_SYS_PTRACE, or debug a copy of the program, which has none"
        )
    path = shutil.which(program) or program
    if os.path.isfile(path) and not os.access(path, os.R_OK):
        whose = _whose_permission(path)
        return (
            f"may not be traced because {program} may not be read; "
            f"chmod {whose}+r {program}, or run pgdb with CAP_SYS_PTRACE"
        )
    return (
        "may not be traced: the kernel has marked it as not dumpable. Its program may not be "
        "read or has other rights than you, or it has called prctl(PR_SET_DUMPABLE, 0); "
        "run pgdb with CAP_SYS_PTRACE, or change that"
    )


def _descends(pid: int, ancestor: int, proc: Path) -> bool:
    by_child = procfs.parents(proc)
    while pid in by_child and pid != ancestor:
        pid = by_child[pid]
    return pid == ancestor
