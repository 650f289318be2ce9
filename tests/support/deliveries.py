"""Jobs whose files are brought to the hosts, and what ``info sbd`` says of that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pgdb import elf
from tests.support.hosts import Hosts
from tests.support.jobs import Job, run_job
from tests.support.programs import Builder, Program, find_mpi
from tests.support.terminal import PGDB, Finished, ex, run_pgdb

DEADLINE_S = 240.0
WITH_SBD = ("--sbd", "--sbd-wait=200")
"""Options of a session that delivers files, with time enough on a busy machine."""
_LINE = re.compile(
    r"^  (\S+) \(\d+\): (\d+) cached, (\d+) received, (\d+) read here, (\d+) left to the GDBs$",
    re.M,
)
_READ = re.compile(r"^read where they are: (\d+) files", re.M)
_RESUMED = re.compile(r"\((\S+) (\S+) of them in an earlier session\)")
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclass(frozen=True)
class Counts:
    """Parsed answer of ``info sbd`` for one host."""

    cached: int
    received: int
    read: int
    left: int


def counts(finished: Finished) -> dict[str, Counts]:
    found = {host: Counts(*map(int, rest)) for host, *rest in _LINE.findall(finished.out)}
    assert found, f"{finished.out}\n{finished.err}"
    return found


def files_read(finished: Finished) -> int:
    found = _READ.search(finished.out)
    assert found is not None, finished.out
    return int(found[1])


def resumed_bytes(finished: Finished) -> float:
    """Return how much was there from an earlier session; three digits of it are right."""
    found = _RESUMED.search(finished.out)
    assert found is not None, finished.out
    return float(found[1]) * _UNITS[found[2]]


def look(job: Job, cache: Path | str, *more: object, on: tuple[str, ...] = PGDB) -> Finished:
    """Attach, look around and leave."""
    finished = run_pgdb(
        *("attach", "--batch", *WITH_SBD, f"--sbd-cache={cache}", *more),
        *ex("bt", "print 40 + 2", "info sharedlibrary", "info sbd"),
        job.pid,
        command=on,
        deadline_s=DEADLINE_S,
    )
    assert finished.status == 0, f"{finished.out}\n{finished.err}"
    # Nothing of where GDB has found the files is to be seen.
    assert "views/" not in finished.out
    assert re.search(r"\bmain \(.*\) at \S*storm\.c:\d+", finished.out), finished.out
    return finished


@contextmanager
def on_one_host(builder: Builder, ranks: int = 2, *flags: str) -> Iterator[tuple[Job, Program]]:
    """Run storm.c, built with *flags*."""
    mpi = find_mpi("openmpi")
    program = builder.build(mpi, "storm.c", *flags)
    with run_job(builder, mpi.line(ranks, program), program, ranks) as job:
        yield job, program


@contextmanager
def on_four_hosts(builder: Builder, hosts: Hosts, program: Program) -> Iterator[Job]:
    """Run a program with two ranks on each host, started on the first one."""
    mpi = find_mpi("openmpi")
    line = hosts.command("h1", mpi.line(8, program, hosts=hosts.names))
    with run_job(builder, line, program, 8) as job:
        yield job


def build_id(path: Path) -> str:
    """Return the build-id of an object."""
    with path.open("rb") as file:
        return elf.build_id_of_file(elf.reader(file.fileno()))


def cached(cache: Path, path: Path) -> Path:
    """Return where a cache has an object, whether it has it or not."""
    found = build_id(path)
    return cache / ".build-id" / found[:2] / found[2:]
