"""Keep a job's output flowing when the front end dies, so that the job does not die of it.

Started beside the job's launcher with a copy of the reading ends of its output pipes, it does
nothing until its standard input ends. A front end that is done writes one byte first; if the
end comes without it, the front end has died, and from then on the job's output goes to a file.
Standard library only: it must be small, since it lives as long as the job.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import stat
import sys


def _open(path: str) -> int:
    try:
        # The session's directory can be gone after days, and be somebody else's by that name.
        if os.lstat(os.path.dirname(path)).st_uid != os.geteuid():
            raise PermissionError
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def main(argv: list[str]) -> None:
    """Wait for the front end's end; ``argv`` is the file's path and the descriptors to read."""
    path, *descriptors = argv[1:]
    if os.read(0, 1):
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
                # A full disk must not end the job: then its output is read and lost.
                with contextlib.suppress(OSError):
                    os.write(target, data)
            else:
                waiting.unregister(key.fd)
    # Without output it would only keep the session's directory from being removed.
    with contextlib.suppress(OSError):
        written = os.fstat(target)
        is_empty = stat.S_ISREG(written.st_mode) and written.st_size == 0
        if is_empty and os.path.samestat(written, os.lstat(path)):
            os.unlink(path)


if __name__ == "__main__":
    main(sys.argv)
