"""The kernel's grouping of processes by session, which the tests turn off while they run.

With ``kernel.sched_autogroup_enabled`` at 1, ranks that yield in one session can keep the processes
of all other sessions from running for minutes (seen with Linux 6.18).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

SWITCH = Path("/proc/sys/kernel/sched_autogroup_enabled")


def is_on(switch: Path = SWITCH) -> bool:
    """Return whether the kernel groups processes by session."""
    try:
        return switch.read_text(encoding="ascii").strip() == "1"
    except OSError:
        return False  # a kernel without the feature


@contextlib.contextmanager
def turned_off(switch: Path = SWITCH) -> Iterator[bool]:
    """Turn the grouping off inside the context; yield whether it is off.

    Without the right to write the setting, the context changes nothing.
    """
    if not is_on(switch):
        yield True
        return
    try:
        switch.write_text("0\n", encoding="ascii")
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        switch.write_text("1\n", encoding="ascii")
