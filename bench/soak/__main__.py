"""Random commands, stops and faults on a real job; after each, PGDB's view is compared with /proc.

    python -m bench.soak [--seed N] [--minutes M | --steps N] [--session-steps N] [--ranks N]
                         [--hosts N] [--only FAULT ...] [--without FAULT ...]

A job of `storm` runs on this machine, under sessions that come and go. Each step is a command or a
fault: a process of PGDB's is killed, stopped for a while, or ended with all its descendants. After
every step the state that PGDB shows of each rank is compared with /proc. A stopped rank is stopped
by its GDB. A running rank is traced, and is seen running. A lost or detached rank is not traced.
Only running ranks may have breakpoints in their code. Ranks that a fault does not concern must
answer, and
`reattach` must restore lost ones. No rank ends unless the step ends it. After every session no
process of PGDB's is left, and this process has as many descriptors and as little memory as before;
aggregators are checked for that, too. The steps tried least are the likeliest.

All of PGDB's processes have a clock that can be set, and (as root) a small file system of their own
for their files, that can be full.

`--only commands` is a session without faults, which may have thousands of steps.

With --hosts the job is on several hosts, network namespaces of this machine (as root). The faults
then cut hosts off, for less or for longer than the time until they count as lost and until they
detach their ranks.

The program prints a table of the faults with their outcomes, also when Ctrl-C or SIGTERM ends it.
The status is 1 if anything was wrong. The same seed gives the same steps, but not the same moments.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.measuring import report_autogroup
from bench.soak.faults import CLOCK, DISK, PLACES, OneHost
from bench.soak.hosts import SeveralHosts, run_on_hosts
from bench.soak.processes import measured
from bench.soak.running import Soak
from tests.fakes.clock import Clock
from tests.support.hosts import forbidden
from tests.support.programs import Builder

MIB = 1 << 20


def _table(soak: Soak) -> str:
    lines = [
        "| fault or step | tries | as it is to be | restored by `reattach` | longest, s |",
        "|---|---|---|---|---|",
    ]
    for name, each in sorted(soak.outcomes.items()):
        restored = f"{each.restored} of {each.restores}" if each.restores else ""
        lines.append(f"| {name} | {each.tries} | {each.named} | {restored} | {each.worst_s:.1f} |")
    return "\n".join(lines)


def _by_quarters(figures: Sequence[int], per: int, unit: str) -> str:
    if not figures:
        return "too short to judge"
    ends = [len(figures) * quarter // 4 - 1 for quarter in range(1, 5)]
    return ", ".join(f"{figures[max(0, end)] // per}" for end in ends) + f" {unit}"


def _run_apart() -> int:
    """Run this program again, with a clock and a file system that it can change freely."""
    folder = Path(tempfile.mkdtemp(prefix="pgdb-soak-"))
    try:
        clock, disk = Clock(Builder(folder)), folder / "disk"
        disk.mkdir(mode=0o700)
        line = [sys.executable, "-m", "bench.soak", *sys.argv[1:]]
        variables = os.environ | clock.changes | {CLOCK: str(clock.file)}
        mount = f"mount -t tmpfs -o size=512m,mode=700 tmpfs {shlex.quote(str(disk))}"
        if os.geteuid() == 0 and shutil.which("unshare") and not forbidden(mount, "--mount"):
            line = ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh", *line]
            variables |= {DISK: str(disk)} | dict.fromkeys(PLACES, str(disk))
            variables["XDG_CACHE_HOME"] = str(disk / "cache")
        # This process passes Ctrl-C on to it, once.
        process = subprocess.Popen(line, env=variables, start_new_session=True)
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                process.terminate()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1_000_000_000)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--session-steps", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--aggregators", type=int, default=4)
    parser.add_argument("--mpi", default="openmpi")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--hosts", type=int, default=0)
    parser.add_argument("--links", type=int, default=-1, help=argparse.SUPPRESS)
    parser.add_argument("--verbose", action="store_true", help="print every step on standard error")
    arguments = parser.parse_args()
    # SIGTERM as well, for a soak in the background, where Ctrl-C is ignored.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if arguments.hosts and arguments.links < 0:
        return run_on_hosts(arguments)
    if not arguments.hosts and CLOCK not in os.environ:
        return _run_apart()
    report_autogroup()
    begun = time.monotonic()
    # Temporary files may find no room in the small file system.
    folder = Path(tempfile.mkdtemp(prefix="pgdb-soak-", dir="/tmp" if DISK in os.environ else None))
    try:
        soak = (SeveralHosts if arguments.hosts else OneHost)(arguments, Builder(folder))
        with contextlib.suppress(KeyboardInterrupt):  # enough of it
            soak.run()
    except ValueError as error:
        parser.error(str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    wrong = [f"{name}: {text}" for name, each in soak.outcomes.items() for text in each.wrong]
    took_min = (time.monotonic() - begun) / 60
    print(
        f"seed {arguments.seed}: {soak.steps} steps in {soak.sessions} sessions, "
        f"{took_min:.0f} minutes, {soak.jobs} jobs\n"
    )
    print(_table(soak))
    for when, (count, size) in {"first": soak.baseline or (0, 0), "last": measured()}.items():
        print(f"\nours at {when}: {count} descriptors, {size >> 20} MiB")
    sizes = _by_quarters(soak.sizes_bytes, MIB, "MiB")
    kept = _by_quarters(soak.objects, 1000, "thousand objects of Python's")
    print(f"\nours after each quarter of the sessions: {sizes}; {kept}")
    sizes = _by_quarters(soak.tool_sizes_bytes, MIB, "MiB")
    print(f"\naggregators and GDBs after each quarter of the longest session: {sizes}")
    for text in soak.late:
        print(f"\nlate: {text}")
    for text in (*wrong, *soak.grown):
        print(f"\nWRONG {text}")
    return 1 if wrong or soak.grown else 0


if __name__ == "__main__":
    sys.exit(main())
