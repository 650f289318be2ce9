"""Keep reading a job's output when the front end dies, so that the job does not die too.

The front end starts it beside the job's launcher, with a copy of the reading ends of its output
pipes. It does nothing until its standard input ends. A front end that ends normally writes ``q``
first. Without it the front end has died, and the job's output goes to a file from then on. A line
of process ids names the processes that the front end has stopped: they are continued in either
case. It uses the standard library only: it must be small, since it lives as long as the job.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import stat
import sys


def _open(path: str) -> int:
    try:
        # After days the session's directory can be gone, and another user's directory can have its
        # name.
        if os.lstat(os.path.dirname(path)).st_uid != os.geteuid():
            raise PermissionError
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def _wait_for_end() -> bool:
    """Wait for the front end's end; return whether it was a normal one."""
    received = b""
    while data := os.read(0, 4096):
        received += data
        if received.endswith(b"q"):
            break
    *lines, rest = received.split(b"\n")
    for pid in (lines[-1] if lines else b"").split():
        with contextlib.suppress(OSError):
            os.kill(int(pid), signal.SIGCONT)
    return rest == b"q"


def main(argv: list[str]) -> None:
    """Wait for the front end's end; ``argv`` is the file's path and the descriptors to read."""
    path, *descriptors = argv[1:]
    if _wait_for_end():
        return
    target = _open(path)
    waiting = selectors.DefaultSelector()
    for descriptor in descriptors:
        os.set_blocking(int(descriptor), False)
        waiting.register(int(descriptor), selectors.EVENT_READ)
    while waiting.get_map():
        for key, _ in waiting.select():
            try:
                data = os.read(key.fd, 65536)
            except BlockingIOError:
                continue
            if data:
                # A full disk must not end the job: its output is read and discarded.
                with contextlib.suppress(OSError):
                    os.write(target, data)
            else:
                waiting.unregister(key.fd)
    # An empty file would only keep the session's directory from being removed.
    with contextlib.suppress(OSError):
        written = os.fstat(target)
        is_empty = stat.S_ISREG(written.st_mode) and written.st_size == 0
        if is_empty and os.path.samestat(written, os.lstat(path)):
            os.unlink(path)


if __name__ == "__main__":
    main(sys.argv)
