"""Rank 1 of a generated program, stopped in one call of MPI after the other."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pgdb
from pgdb.jobs.launchers import find_launcher
from pgdb.jobs.placement import mpi4py_environment
from pgdb.mpi_calls import MpiCallStatus
from tests.support.call_generator import CONTROL_BYTES, VICTIM
from tests.support.programs import Mpi

DEADLINE_S = 300.0
_CURRENT, _RELEASED = 0, 4


def stops(mpi: Mpi, program: Path, calls: int) -> Iterator[tuple[int, MpiCallStatus]]:
    """Yield the number of each call of a program, and the status of rank 1 in it.

    *program* may be a script of mpi4py. The job has ended with code 0 behind the last one.
    """
    control = program.with_suffix(".control")
    control.write_bytes(bytes(CONTROL_BYTES))
    command = [sys.executable, str(program)] if program.suffix == ".py" else [str(program)]
    line = mpi.line(4, *command, str(control))
    environment = _environment(mpi)
    if program.suffix == ".py":
        environment |= mpi4py_environment(find_launcher(mpi.launcher), program.parent)
    with (
        subprocess.Popen(line, stdin=subprocess.DEVNULL, env=environment) as job,
        open(control, "r+b") as file,
        mmap.mmap(file.fileno(), CONTROL_BYTES) as shared,
    ):
        try:
            _wait_for(shared, 1, job)
            with pgdb.attach(job.pid, ranks=str(VICTIM)) as session:
                for number in range(1, calls + 1):
                    if number > 1:
                        session.continue_(wait=False)
                        _wait_for(shared, number, job)
                        session.interrupt()
                        session.wait()
                    yield number, _in_call(session)
                    struct.pack_into("<i", shared, _RELEASED, number)
            if job.wait(timeout=DEADLINE_S):
                raise AssertionError(f"the job ended with {job.returncode}")
        finally:
            if job.poll() is None:
                job.terminate()


def _environment(mpi: Mpi) -> dict[str, str]:
    # Ranks that wait for the file must not take the processor from those that do something.
    more = {"OMPI_MCA_mpi_yield_when_idle": "1"} if mpi.name.startswith("openmpi") else {}
    return os.environ | more


def _wait_for(shared: mmap.mmap, number: int, job: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while struct.unpack_from("<i", shared, _CURRENT)[0] != number:
        if job.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"rank {VICTIM} did not reach call {number}: {job.returncode}")
        time.sleep(0.001)


def _in_call(session: pgdb.Session) -> MpiCallStatus:
    while True:
        status = session.mpi_calls().for_rank(VICTIM)
        assert isinstance(status, MpiCallStatus), status
        if status.state == "in_call":
            return status
        session.continue_(wait=False)
        session.interrupt()
        session.wait()
