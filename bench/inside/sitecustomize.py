"""Taken up by aggregators at their start, with this directory in PYTHONPATH.

Notes for how long each callback has kept the thread of the event loop busy: only the longest one
since the last look of ``bench/stalls.py``, which takes the file away.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

_FOLDER = "PGDB_BENCH_STALLS"
"""Names the folder for the notes."""


def _watch(folder: Path) -> None:
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        # CPU of this thread: what other processes take on the machine is not meant.
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


if _FOLDER in os.environ and "pgdb.backend" in sys.orig_argv:
    _watch(Path(os.environ[_FOLDER]))
