"""A trial of tracing with real processes; /proc allows only a forecast.

It runs as ``python -m pgdb.frontend.startup.ptrace_trial``, a process of its own, since it forks.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
from collections.abc import Callable

# include/uapi/linux/prctl.h and ptrace.h
_PTRACE_ATTACH, _PTRACE_DETACH = 16, 17
_PR_SET_PDEATHSIG, _PR_SET_PTRACER = 1, 0x59616D61


def main() -> None:
    """Write the result of :func:`try_tracing` to standard output, as JSON."""
    os.write(1, json.dumps(try_tracing()).encode() + b"\n")


def try_tracing() -> dict[str, int]:
    """Trace processes as an aggregator would; return the error number of each trial, 0 if it works.

    ``running``: a process without any preparation; ``launched``: a process that has allowed it,
    as our hold program does; ``memory``: reading of the first one's memory through /proc. The
    tracer is neither parent nor child of the others, as in a session.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    libc.ptrace.restype = ctypes.c_long
    libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
    word = ctypes.create_string_buffer(b"pgdb")
    running = _fork(_nothing, signal.pause)
    launched = _fork(lambda: libc.prctl(_PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0), signal.pause)
    reading, writing = os.pipe()

    def trace() -> None:
        found = {
            "running": _attach(libc, running),
            "launched": _attach(libc, launched),
            "memory": _read_memory(running, ctypes.addressof(word)),
        }
        os.write(writing, json.dumps(found).encode())

    tracer = _fork(_nothing, trace)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as answer:
            result: dict[str, int] = json.loads(answer.read())
        return result
    finally:
        for pid in (running, launched, tracer):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _nothing() -> None:
    pass


def _fork(prepare: Callable[[], object], act: Callable[[], object]) -> int:
    """Start a process that calls *act* and ends; return when its call of *prepare* is over."""
    ready, done = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            prepare()
            os.close(ready)
            os.close(done)
            act()
        finally:
            os._exit(0)
    os.close(done)
    os.read(ready, 1)  # returns when the child has closed both ends
    os.close(ready)
    return pid


def _attach(libc: ctypes.CDLL, pid: int) -> int:
    """Trace a process for a moment; return 0, or the error number."""
    if libc.ptrace(_PTRACE_ATTACH, pid, None, None) != 0:
        return ctypes.get_errno()
    os.waitpid(pid, 0x40000000)  # __WALL: it is no child of ours
    libc.ptrace(_PTRACE_DETACH, pid, None, None)
    return 0


def _read_memory(pid: int, address: int) -> int:
    """Read a process's word at *address*; return 0, or the error number."""
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        try:
            return 0 if os.pread(memory, 4, address) == b"pgdb" else errno.EIO
        finally:
            os.close(memory)
    except OSError as error:
        return error.errno or errno.EIO


if __name__ == "__main__":
    main()
