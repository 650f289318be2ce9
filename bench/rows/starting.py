"""Row ``start``: aggregators on this host, launch to ready, beside the same mpirun and mpi4py.

Ready means that the aggregator has its place in the tree and the front end can send it requests.
The front end of each sample is a fresh interpreter, so its imports count. The reference is the
whole life of an interpreter that initialises MPI under the same line.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from measuring import Row

from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.startup.local_site import LocalSite
from pgdb.frontend.startup.places import Place
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.session_start import new_session
from pgdb.jobs.launchers import find_launcher
from pgdb.jobs.placement import mpi4py_environment, overlay_line, scrubbed_environment

RANKS = 1
TARGET = 1.3
SAMPLES = 5


def measure(ranks: int, rounds: int, wanted: Sequence[str] = ("start",)) -> list[Row]:
    """Return the row; *ranks* is the number of aggregators."""
    del wanted
    ratios = []
    for _ in range(rounds):
        pairs = [(fresh(time_overlay, ranks), fresh(time_mpi4py, ranks)) for _ in range(SAMPLES)]
        ratios.append(sum(ours for ours, _ in pairs) / sum(theirs for _, theirs in pairs))
    return [
        Row(
            name="aggregator start, launch to ready" + (f", {ranks} of them" * (ranks > 1)),
            reference='python -c "from mpi4py import MPI" under the same mpirun',
            values=tuple(ratios),
            target=TARGET,
        )
    ]


def fresh(function: object, ranks: int) -> float:
    """Return the result of a function in an interpreter of its own."""
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawned) as pool:
        return pool.submit(function, ranks).result()  # type: ignore[arg-type,no-any-return]


def time_overlay(count: int) -> float:
    """Return the seconds from the launch of *count* aggregators until they are ready."""
    return asyncio.run(_time_overlay(count))


async def _time_overlay(count: int) -> float:
    place = Place(launcher=find_launcher("mpirun"))
    directory = SessionDirectory()
    options = SessionOptions(aggregators=count, wire_up="mpi")
    session, overlay = new_session("attach", options, directory)
    try:
        begun = time.perf_counter()
        await overlay.start(LocalSite(directory.path), place)
        return time.perf_counter() - begun
    finally:
        await session.close()


def time_mpi4py(count: int) -> float:
    """Return the seconds of the same line with a program that initialises MPI and ends."""
    launcher = find_launcher("mpirun")
    with tempfile.TemporaryDirectory(prefix="pgdb-bench-") as folder:
        program = (sys.executable, "-c", "from mpi4py import MPI")
        environment = scrubbed_environment(os.environ)
        environment.update(mpi4py_environment(launcher, Path(folder)))
        begun = time.perf_counter()
        subprocess.run(
            overlay_line(launcher, count, program),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            check=True,
        )
        return time.perf_counter() - begun
