"""A process that lives on without its first thread."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pgdb.jobs import procfs
from tests.support.processes import wait_until

_PROGRAM = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
ctypes.CDLL(None).syscall(60, 0)
"""


@contextmanager
def headless() -> Iterator[subprocess.Popen[bytes]]:
    """Run a process whose first thread has ended; only x86-64 has the number of its system call."""
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM])
    try:
        wait_until(
            lambda: (stat := procfs.read_stat(process.pid)) is not None and stat.has_ended,
            "the end of the first thread",
        )
        yield process
    finally:
        process.kill()
        process.wait()
