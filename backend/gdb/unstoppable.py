"""Processes that no debugger can stop now, and the reason.

GDB would wait for such a process without end, and all ranks would wait for that GDB.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os

from pgdb.jobs import procfs

PATIENCE_S = 10.0
"""Time for which a process that nothing can stop now is waited for, in seconds."""
_POLL_S = 0.05
_IN_FREEZER = "freezer"
"""A part of the names of the kernel's functions in which a frozen thread sleeps (Linux 6.18:
``do_freezer_trap``)."""


async def why_unstoppable(pid: int) -> str:
    """Return why no debugger can stop a process now; nothing if one can.

    A thread in an uninterruptible sleep stops only when that ends: a file system that does not
    answer, or a vfork(2) whose child has not executed a program yet. Threads of a frozen control
    group stop when the group is thawed.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + PATIENCE_S
    while (why := _why_now(pid)) and loop.time() < end_s:
        await asyncio.sleep(_POLL_S)  # the kernel reports the end of state D to nobody
    return why


def _why_now(pid: int) -> str:
    if group := frozen_group(pid):
        return (
            f"its control group is frozen ({group}), as that of a container that was paused or of "
            "a job that was suspended; 'reattach' attaches to it once it has been resumed"
        )
    if (thread := _unstoppable_thread(pid)) is None:
        return ""
    function = _function_of(pid, thread)
    where = f" in {function}" if function not in ("", "0") else ""
    return (
        f"its thread {thread} sleeps in the kernel{where}, where nothing can stop it "
        "(state D: a file system that does not answer, or a vfork); "
        "'reattach' attaches to it once it has gone on"
    )


def _unstoppable_thread(pid: int) -> int | None:
    threads = procfs.PROC / str(pid) / "task"
    with contextlib.suppress(OSError):
        for thread in map(int, os.listdir(threads)):
            _, is_unstoppable = procfs.work_done(thread, threads)
            if is_unstoppable:
                return thread
    return None


def _function_of(pid: int, thread: int) -> str:
    with contextlib.suppress(OSError):
        return _read(f"{procfs.PROC}/{pid}/task/{thread}/wchan")
    return ""


def frozen_group(pid: int) -> str:
    """Return the folder of the frozen control group of a process; empty if it is in none.

    The text is ``wchan: FUNCTION`` where the folder cannot be seen from here.
    """
    with contextlib.suppress(OSError, ValueError):
        for file, frozen in _state_files(_read(f"{procfs.PROC}/{pid}/cgroup")):
            with contextlib.suppress(OSError):
                if frozen in _read(file).splitlines():
                    return os.path.dirname(file)
    function = _function_of(pid, pid)
    return f"wchan: {function}" if _IN_FREEZER in function else ""


@functools.cache
def _freezers() -> dict[str, tuple[str, str]]:
    """Return root and mount point of each hierarchy that can freeze, by its controller.

    A host may have thousands of mounts, and those of control groups stay.
    """
    mounts: dict[str, tuple[str, str]] = {}
    for line in _read(f"{procfs.PROC}/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        _, _, _, root, place, *_ = before.split(" ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2":
            mounts.setdefault("", (root, place))
        elif kind == "cgroup" and "freezer" in options.split(","):
            mounts.setdefault("freezer", (root, place))
    return mounts


@functools.lru_cache(maxsize=64)
def _state_files(listed: str) -> tuple[tuple[str, str], ...]:
    """Return the files with the states of control groups that can freeze a process, each with the
    line that it has when the group is frozen.

    :param listed: text of the process's /proc/PID/cgroup.
    """
    found = []
    for line in listed.splitlines():
        _, controllers, path = line.split(":", 2)
        names = controllers.split(",")
        for name, (root, place) in _freezers().items():
            if name in names:
                folder = os.path.normpath(f"{place}/{os.path.relpath(path, root)}")
                state = ("freezer.state", "FROZEN") if name else ("cgroup.events", "frozen 1")
                found.append((f"{folder}/{state[0]}", state[1]))
    return tuple(found)


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()
