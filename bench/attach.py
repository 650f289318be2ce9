"""Time from ``pgdb attach`` to the merged backtrace, beside plain GDBs over the same ranks.

    python bench/attach.py [RANKS] [ROUNDS]

Each round measures, one after the other on the same running job, ``pgdb attach --batch -ex bt``
and ``xargs -P2 gdb -nx -q -batch -p PID -ex bt``; what counts is the ratio of the two. Also
prints the memory of all GDBs and aggregators per rank (PSS) beside one plain GDB, and the CPU
that the aggregators and GDBs of an idle session use while the job runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pgdb.errors import DiscoveryError
from pgdb.frontend.starting.start import attach
from pgdb.jobs import procfs
from pgdb.jobs.ladder import find_job

PROGRAM = Path(__file__).parent.parent / "tests" / "programs" / "ring.c"
IDLE_S = 20.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def running_job(ranks: int) -> Iterator[tuple[int, list[int]]]:
    """Run the program; yield the launcher's pid and those of the ranks."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "ring"
        subprocess.run(["mpicc", "-g", "-O0", "-o", str(program), str(PROGRAM)], check=True)
        line = ["mpirun", "-n", str(ranks), str(program)]
        told = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False)
        if "Open MPI" in told.stdout:
            line.insert(1, "--oversubscribe")
        job = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )
        try:
            deadline = time.monotonic() + 60
            while True:
                with contextlib.suppress(DiscoveryError):
                    table = find_job(job.pid).table
                    if len(table.processes) == ranks:
                        break
                if time.monotonic() > deadline:
                    raise SystemExit("the job does not come up")
                time.sleep(0.2)
            # The end of MPI_Init shows nowhere outside; what is measured is a job that computes.
            time.sleep(2)
            yield job.pid, [process.pid for process in table.processes]
        finally:
            job.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(5)
            job.kill()


def time_pgdb(launcher: int) -> float:
    """Return the seconds for the whole command, start of the interpreter included."""
    begun = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "pgdb", "attach", "--batch", "-ex", "bt", str(launcher)],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    return time.monotonic() - begun


def time_plain(pids: list[int]) -> float:
    """Return the seconds for plain GDBs, two at a time."""
    begun = time.monotonic()
    subprocess.run(
        ["xargs", "-P2", "-I", "{}", "gdb", "-nx", "-q", "-batch", "-p", "{}", "-ex", "bt"],
        input="\n".join(map(str, pids)),
        text=True,
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.monotonic() - begun


def pss_bytes(pid: int) -> int:
    """Return the proportional set size of a process."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def cpu_s(pids: list[int]) -> float:
    """Return the CPU seconds that processes have used."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / TICKS_PER_S


def plain_pss_bytes(pid: int) -> int:
    """Return the memory of one plain GDB after attach and a backtrace."""
    gdb = subprocess.Popen(
        ["gdb", "-nx", "-q", "-i=mi3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert gdb.stdin is not None and gdb.stdout is not None
    gdb.stdin.write(f'-target-attach {pid}\n1-interpreter-exec console "bt"\n')
    gdb.stdin.flush()
    for line in gdb.stdout:
        if line.startswith("1^"):
            break
    size = pss_bytes(gdb.pid)
    gdb.stdin.close()
    gdb.wait()
    return size


async def measure_session(launcher: int, ranks: int) -> tuple[float, float, float]:
    """Return PSS per rank, and the CPU share of our processes and of ourselves while idle."""
    session = await attach(launcher)
    try:
        await session.backtrace()
        own = procfs.descendants(session.overlay.launcher_pid)
        memory = sum(pss_bytes(pid) for pid in own)
        await session.continue_(wait=False)
        before, before_own = cpu_s(own), cpu_s([os.getpid()])
        await asyncio.sleep(IDLE_S)
        used, used_own = cpu_s(own) - before, cpu_s([os.getpid()]) - before_own
    finally:
        await session.close()
    return memory / ranks, used / IDLE_S, used_own / IDLE_S


def main() -> None:
    """Measure and print a table."""
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 32
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    if shutil.which("xargs") is None or shutil.which("gdb") is None:
        raise SystemExit("this needs xargs and gdb in PATH")
    with running_job(ranks) as (launcher, pids):
        pairs = [(time_pgdb(launcher), time_plain(pids)) for _ in range(rounds)]
        plain = plain_pss_bytes(pids[0])
        per_rank, idle, idle_own = asyncio.run(measure_session(launcher, ranks))
    write = sys.stdout.write
    write(f"{ranks} ranks, {os.cpu_count()} cores, {rounds} rounds\n")
    ratios = [ours / theirs for ours, theirs in pairs]
    write("attach to merged backtrace / plain GDBs: ")
    write(f"{', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    write(f"  median {statistics.median(ratios):.2f}\n")
    write(f"memory per rank / one plain GDB: {per_rank / plain:.2f}\n")
    write(f"CPU of an idle session: aggregators and GDBs {idle:.2%}, front end {idle_own:.2%}\n")


if __name__ == "__main__":
    main()
