"""Row ``attach``: pgdb attach to the merged backtrace, beside plain GDBs two at a time.

Whole commands are timed, with the start of the interpreter, on a job whose ranks rest in one place.
The caches of symbols are in a directory of the measurement's own: emptied before each "cold"
attach, kept for the "warm" one that follows. Plain GDBs come last in each round.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

from jobs import Job, placed_job
from measuring import Row

from pgdb.ranks import RankSet

RANKS = (32, 128)
# Largest ratio of PGDB's time to the plain GDBs', by ranks and symbol cache.
TARGETS = {("cold", 32): 0.25, ("warm", 32): 0.20, ("cold", 128): 0.15, ("warm", 128): 0.15}
REFERENCE = "xargs -P2 gdb -nx -q -batch -p PID -ex bt"


def measure(ranks: int, rounds: int, wanted: Sequence[str] = ("attach",)) -> list[Row]:
    """Return a row for each state of the symbol cache."""
    del wanted
    found: dict[str, list[float]] = {"cold": [], "warm": []}
    with placed_job(ranks) as job:
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(prefix="pgdb-bench-") as cache:
                environment = {**os.environ, "XDG_CACHE_HOME": cache}
                times = [time_pgdb(job, environment) for _ in found]
            plain = time_plain(job.ranks)
            for ratios, ours in zip(found.values(), times, strict=True):
                ratios.append(ours / plain)
    return [
        Row(
            name=f"attach and bt, {ranks} ranks, cache {cache}",
            reference=REFERENCE,
            values=tuple(ratios),
            target=TARGETS.get((cache, ranks), TARGETS[cache, 128]),
            note="" if (cache, ranks) in TARGETS else f"no target is set for {ranks} ranks",
        )
        for cache, ratios in found.items()
    ]


def time_pgdb(job: Job, environment: Mapping[str, str]) -> float:
    """Return the seconds of the whole command; all ranks must be in its answer."""
    line = [sys.executable, "-m", "pgdb", "attach", "--batch", "-ex", "bt", str(job.pid)]
    begun = time.monotonic()
    done = subprocess.run(
        line,
        check=True,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    took_s = time.monotonic() - begun
    # A rank between two rests has a stack of its own.
    _, _, stacks = done.stdout.rpartition(") bt\n")
    shown = RankSet.union(map(RankSet.parse, re.findall(r"^\[([0-9,-]+)\]", stacks, re.M)))
    if shown != RankSet(range(len(job.ranks))):
        raise RuntimeError(f"not the backtraces of all ranks:\n{done.stdout}")
    return took_s


def time_plain(pids: Sequence[int]) -> float:
    """Return the seconds of plain GDBs, two at a time."""
    begun = time.monotonic()
    subprocess.run(
        ["xargs", "-P2", "-I", "{}", "gdb", "-nx", "-q", "-batch", "-p", "{}", "-ex", "bt"],
        input="\n".join(map(str, pids)),
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.monotonic() - begun
