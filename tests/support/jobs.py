"""Jobs to attach to, and orders for their ranks; the fixture ``start_job`` is made of these."""

from __future__ import annotations

import os
import subprocess
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import (
    kill_all,
    processes_with,
    ranks_with,
    status,
    switches_of,
    wait_settled,
    wait_until,
)
from tests.support.programs import Builder, Program

# These deadlines are for a machine on which all takes ten times as long as usual.
START_DEADLINE_S = 120.0
TERMINATE_TIMEOUT_S = 3.0
_READY_VARIABLE = "PGDB_TEST_READY"


def gdb_of(job: Job, rank: int) -> int:
    """Return the GDB of a rank."""
    gdb = int(status(job.ranks[rank], "TracerPid"))
    assert gdb, f"rank {rank} has no debugger"
    return gdb


def _wait_under_way(pids: Iterable[int]) -> None:
    """Wait until processes that were seen somewhere in their program have gone on from there.

    That is when they have slept some times, or computed for some hundredths of a second: a rank
    that waits in MPI may never sleep.
    """

    def done(pid: int) -> tuple[int, int]:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return switches_of(pid), int(fields[11]) + int(fields[12])

    before = {pid: done(pid) for pid in pids}

    def are_on() -> bool:
        pairs = ((done(pid), before[pid]) for pid in before)
        return all(now[0] >= then[0] + 3 or now[1] >= then[1] + 5 for now, then in pairs)

    wait_until(are_on, "the ranks have gone on", START_DEADLINE_S)


@dataclass(frozen=True)
class Job:
    """A job that runs without a debugger, all of whose ranks are in their program."""

    process: subprocess.Popen[bytes]
    ranks: dict[int, int]
    """Process id of each rank."""

    @property
    def pid(self) -> int:
        """Process id of the launcher; on a host with own process ids that of its parent."""
        return self.process.pid


class Orders:
    """Orders for ranks of storm.c, which they obey whatever holds them at that moment."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / f"orders-{uuid.uuid4().hex}"
        self._file.write_bytes(bytes(4096))
        self.arguments = ("0", str(self._file))
        """Of the program."""

    def give(self, rank: int, order: bytes) -> None:
        """Make a rank obey before its next call."""
        with self._file.open("r+b") as file:
            file.seek(rank)
            file.write(order)

    def answer(self, rank: int) -> bytes:
        """Return what there is of an order: 0 when it has been obeyed."""
        return self._file.read_bytes()[rank : rank + 1]

    def is_obeyed(self, rank: int) -> bool:
        """Return whether a rank that goes on after its order has done what it was to do."""
        return self.answer(rank) == b"\0"


@contextmanager
def run_job(
    builder: Builder,
    line: Sequence[str],
    program: Program,
    ranks: int,
    *,
    also: Sequence[Program] = (),
    in_mpi: bool = True,
    changes: Mapping[str, str] | None = None,
) -> Iterator[Job]:
    """Run a job in a session of its own until all ranks are there, and end it at the end.

    A rank is there when it has come out of MPI_Init (of C) and gone on, or, if not *in_mpi*, when
    it is the program, or one of *also*, and sleeps now and then. *changes* are made to the
    environment.
    """
    # In the builder's directory, which hosts with a /tmp of their own share.
    with tempfile.NamedTemporaryFile(prefix="ready-", dir=builder.directory) as ready:
        mark = f"{_READY_VARIABLE}={ready.name}"
        environment = {**os.environ, **(changes or {}), _READY_VARIABLE: ready.name}
        if in_mpi:
            environment["LD_PRELOAD"] = str(builder.ready_library())
        process = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
        )
        try:
            found: dict[int, int] = {}

            def is_up() -> bool:
                nonlocal found
                assert process.poll() is None, f"{line} ended, status {process.returncode}"
                found = ranks_with(mark, program, *also)
                return len(found) == ranks and (not in_mpi or os.path.getsize(ready.name) == ranks)

            wait_until(is_up, f"{ranks} ranks of {line} are up", START_DEADLINE_S)
            # A rank reports itself from inside MPI_Init, and may be held up there.
            (_wait_under_way if in_mpi else wait_settled)(found.values())
            yield Job(process=process, ranks=found)
        finally:
            _end(process, mark, program)


def _end(process: subprocess.Popen[bytes], mark: str, program: Program) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(TERMINATE_TIMEOUT_S)
    # Open MPI 4's mpirun sometimes stays for good after SIGTERM, with zombie ranks.
    process.kill()
    process.wait()
    kill_all(lambda: processes_with(mark), f"the processes of {program.path}")
