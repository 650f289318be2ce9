"""Ends what a test has put up, when the test is over or its process is gone, however it went.

``python ender.py DIRECTORY``: its input are lines ``net INODE`` (the processes of a network
namespace) and ``env NAME=VALUE`` (those that have this in their environment). At the input's end,
which the kernel brings about if the test process is killed, all these processes get SIGKILL and
the directory is removed. Exit status 1 means that some have not gone.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE_S = 60.0
POLL_S = 0.02


@contextmanager
def ending(directory: Path) -> Iterator[Callable[[str], None]]:
    """Give a function that takes such lines; at the end what they speak of is gone."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(directory)],
        stdin=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a Ctrl-C is for the tests
    ) as process:
        assert process.stdin is not None
        pipe = process.stdin

        def report(line: str) -> None:
            pipe.write(line + "\n")
            pipe.flush()

        try:
            yield report
        finally:
            pipe.close()
            assert process.wait() == 0, "some processes of the test cannot be killed"


def members(kind: str, value: str) -> Iterator[int]:
    """Yield the processes that a line of the input speaks of; zombies have nothing to read."""
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with suppress(OSError):
                if _is_member(name, kind, value):
                    yield int(name)


def _is_member(name: str, kind: str, value: str) -> bool:
    if kind == "net":
        return os.stat(f"/proc/{name}/ns/net").st_ino == int(value)
    with open(f"/proc/{name}/environ", "rb") as environment:
        return os.fsencode(value) in environment.read().split(b"\0")


def kill(pid: int, kind: str, value: str) -> None:
    """Kill a process if it still is the one that was meant: its number may be another's by now."""
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if _is_member(str(pid), kind, value):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def end_all(targets: list[tuple[str, str]]) -> bool:
    """Kill until nothing is left; return whether that was reached."""
    deadline = time.monotonic() + PATIENCE_S
    quiet = 0
    while True:
        # Again and again: what is about to fork can have done so behind our back, and what is
        # executing a program just now shows no environment.
        found = [(pid, kind, value) for kind, value in targets for pid in members(kind, value)]
        quiet = 0 if found else quiet + 1
        if quiet == 3:
            return True
        if time.monotonic() > deadline:
            return False
        for pid, kind, value in found:
            kill(pid, kind, value)
        time.sleep(POLL_S)


def keep_namespace(value: str) -> None:
    """Keep a network namespace while this process lives.

    The kernel gives the number of one that is gone to the next one, which can be another test's.
    """
    for pid in members("net", value):
        with suppress(OSError):
            os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
            return


def main(directory: str) -> int:
    """Read until the input's end, then end everything."""
    targets = []
    for line in sys.stdin:
        kind, _, value = line.rstrip("\n").partition(" ")
        if kind == "net":
            keep_namespace(value)
        targets.append((kind, value))
    is_done = end_all(targets)
    shutil.rmtree(directory, ignore_errors=True)
    return 0 if is_done else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
