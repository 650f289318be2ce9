"""Loaded by aggregators at their start, with this directory in PYTHONPATH.

For ``bench/stalls.py`` a note holds the longest time for which a callback kept the thread of the
event loop busy, since ``bench/stalls.py`` removed the last note. For ``bench/path.py`` a file holds
the visits of our files.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

_STALLS = "PGDB_BENCH_STALLS"
_PATH = "PGDB_BENCH_PATH"
"""Each names the folder for the notes."""


def _watch(folder: Path) -> None:
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        # CPU time of this thread, so that other processes of the machine do not matter.
        begun_s = time.thread_time()
        run(handle)
        took_s = time.thread_time() - begun_s
        note = folder / str(os.getpid())
        if took_s > 0.001 and took_s > _noted_s(note):
            note.write_text(f"{took_s}", encoding="ascii")

    asyncio.Handle._run = timed  # type: ignore[method-assign]


def _noted_s(note: Path) -> float:
    try:
        return float(note.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0.0


if "pgdb.backend" in sys.orig_argv:
    if _STALLS in os.environ:
        _watch(Path(os.environ[_STALLS]))
    if _PATH in os.environ:
        from visits import write_visits

        write_visits(Path(os.environ[_PATH]))
