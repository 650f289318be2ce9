"""Time from command to prompt, by launcher, on one host and on four.

    python bench/launchers.py [RANKS] [ROUNDS] [LAUNCHER ...]

For every launcher of this machine: seconds until the first answer of ``pgdb attach`` to a job that
computes, and of ``pgdb launch``, beside the launcher's time for as many ranks of a program that
initialises MPI and ends. Each round measures all three in turn. A Markdown table shows medians of
the seconds and of their ratios; the jobs' output goes to standard error.

The four hosts are namespaces on this machine and share its cores. The wheels of Open MPI 5, MPICH
and Intel MPI are those that PGDB_TEST_OPENMPI5, PGDB_TEST_MPICH and PGDB_TEST_INTEL name (the
directories of their mpirun), as in the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

# The tests' hosts and jobs are not installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.measuring import report_autogroup
from tests.support.hosts import several_hosts
from tests.support.jobs import run_job
from tests.support.programs import Builder, Mpi, Program, find_mpi
from tests.support.slurm import private_slurm

LAUNCHERS = ("openmpi", "openmpi5", "mpich", "mpich-system", "intel", "slurm")
HOSTS = 4
DEADLINE_S = 300.0
QUESTION = "print 6 * 7"


@dataclass(frozen=True)
class Place:
    """One place to run the launchers in."""

    hosts: tuple[str, ...] = ()
    """Hosts of the ranks; empty for this host."""
    command: Callable[[Sequence[object]], list[str]] = lambda argv: [str(word) for word in argv]
    """Function that returns a function that runs a command on the launcher's host."""


@dataclass(frozen=True)
class Round:
    """Seconds of each of the three."""

    start_s: float
    attach_s: float
    launch_s: float


def time_start(line: Sequence[str]) -> float:
    """Return the seconds from the start of a launcher to its end."""
    begun = time.monotonic()
    subprocess.run(
        line,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=DEADLINE_S,
        check=True,
        start_new_session=True,
    )
    return time.monotonic() - begun


def time_answer(command: Sequence[str], ranks: int) -> float:
    """Return the seconds from the start of PGDB to its first answer, which all ranks must give."""
    begun = time.monotonic()
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        taken_s = None
        for line in process.stdout:
            line_read = json.loads(line)
            if line_read["type"] == "error":
                raise RuntimeError(line_read["message"])
            if line_read["type"] == "answer":
                taken_s = time.monotonic() - begun
                answered = [each["ranks"] for each in line_read["classes"]]
                if answered != [f"0-{ranks - 1}"]:
                    raise RuntimeError(f"not all ranks answered: {line!r}")
        process.wait(DEADLINE_S)
    if taken_s is None:
        raise RuntimeError("pgdb gave no answer")
    return taken_s


def measure(builder: Builder, mpi: Mpi, place: Place, ranks: int, rounds: int) -> list[Round]:
    """Measure a launcher in one place."""
    ring, nothing = builder.build(mpi, "ring"), builder.build(mpi, "exitcode")
    pgdb = (sys.executable, "-m", "pgdb")
    options = ("--batch", "--json", "--start-timeout", str(DEADLINE_S), "-ex", QUESTION)

    def line(program: Program) -> list[str]:
        return mpi.line(ranks, program, hosts=place.hosts)

    found = []
    for _ in range(rounds):
        start_s = time_start(place.command(line(nothing)))
        launching = place.command([*pgdb, "launch", *options, *line(ring)])
        launch_s = time_answer(launching, ranks)
        with run_job(builder, place.command(line(ring)), ring, ranks) as job:
            attach_s = time_answer(place.command([*pgdb, "attach", *options, job.pid]), ranks)
        found.append(Round(start_s=start_s, attach_s=attach_s, launch_s=launch_s))
    return found


@contextmanager
def places(name: str, hosts: int, shared: Path) -> Iterator[Place]:
    """Make the place for a launcher while the context lasts; skip an impossible one."""
    if name == "slurm":
        with private_slurm(hosts) as slurm:
            before = dict(os.environ)
            os.environ.update(slurm.environment)
            try:
                # Slurm refuses so many ranks of one node if the node has fewer cores.
                yield Place(hosts=slurm.nodes if hosts > 1 else ())
            finally:
                os.environ.clear()
                os.environ.update(before)
    elif hosts == 1:
        yield Place()
    else:
        with several_hosts(hosts, shared=[shared]) as made:
            yield Place(made.names, lambda argv: made.command(made.names[0], argv))


def row(name: str, hosts: int, rounds: Sequence[Round]) -> str:
    """Return a line of the table."""

    def cells(values: Sequence[float]) -> str:
        ratios = [each / one.start_s for each, one in zip(values, rounds, strict=True)]
        return f"{statistics.median(values):.1f} | {statistics.median(ratios):.1f}"

    start_s = statistics.median(each.start_s for each in rounds)
    attach = cells([each.attach_s for each in rounds])
    launch = cells([each.launch_s for each in rounds])
    return f"| {name} | {hosts} | {start_s:.1f} | {attach} | {launch} |"


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description="Time from command to prompt, by launcher.")
    parser.add_argument("ranks", nargs="?", type=int, default=32)
    parser.add_argument("rounds", nargs="?", type=int, default=3)
    parser.add_argument("launchers", nargs="*", metavar="LAUNCHER", help=", ".join(LAUNCHERS))
    given = parser.parse_args()
    if given.ranks < 2 or given.ranks % HOSTS or given.rounds < 1:
        parser.error(f"RANKS must be a multiple of {HOSTS}, ROUNDS at least 1")
    report_autogroup()
    for family in ("OMPI", "PRTE"):
        os.environ[f"{family}_ALLOW_RUN_AS_ROOT"] = "1"
        os.environ[f"{family}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    # The jobs' launchers write to our standard output of this moment.
    out = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    out.write(
        f"{given.ranks} ranks, {os.cpu_count()} cores, medians of {given.rounds}, seconds\n\n"
    )
    out.write("| launcher | hosts | alone | attach | / alone | launch | / alone |\n")
    out.write("|---|---|---|---|---|---|---|\n")
    skipped = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pgdb-bench-")))
        builder = Builder(directory)
        for name in given.launchers or LAUNCHERS:
            for hosts in (1, HOSTS):
                try:
                    mpi = find_mpi(name)
                    if name == "slurm":
                        mpi = replace(mpi, options=(*mpi.options, "--overcommit"))
                    with places(name, hosts, directory) as place:
                        rounds = measure(builder, mpi, place, given.ranks, given.rounds)
                except pytest.skip.Exception as reason:
                    skipped.append(f"- {name} on {hosts}: {reason}")
                except (AssertionError, RuntimeError, subprocess.SubprocessError) as error:
                    skipped.append(f"- {name} on {hosts} failed: {error}")
                else:
                    out.write(row(name, hosts, rounds) + "\n")
    out.write("".join(f"{each}\n" for each in ["", *skipped]) if skipped else "")


if __name__ == "__main__":
    main()
