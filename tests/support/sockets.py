"""Names and sockets of processes."""

from __future__ import annotations

import os
import re
from pathlib import Path

LISTENING = "0A"  # include/net/tcp_states.h


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()


def sockets_of(pid: int) -> set[str]:
    """Return the inodes of a process's sockets."""
    found = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found |= set(re.findall(r"socket:\[(\d+)\]", os.readlink(each)))
        except FileNotFoundError:
            continue
    return found
