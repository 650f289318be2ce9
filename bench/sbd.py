"""Number of times that the files of a job are opened at their source, with ``--sbd`` and without.

    python bench/sbd.py [--hosts 4] [--ranks-per-host 8] [--libraries 30]

Hosts are namespaces of this machine (root is needed). The program and its libraries are in one
directory, as on a shared file system. Only the ranks, which have loaded them before, and the
debugger open them. inotify counts every open of a file in it, by any process of any host, from
`pgdb attach` to the end of the session. If a host has a file in its page cache, an open costs the
shared file system a request and no data; otherwise the file is read as well. `info sbd` shows the
read and sent bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

# The tests' jobs are not installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.measuring import report_autogroup
from tests.support.hosts import Hosts, several_hosts
from tests.support.jobs import Job, run_job
from tests.support.programs import Builder, find_mpi

FUNCTIONS = 400
"""Number of functions in each library, so that there is something to read."""
DEADLINE_S = 600.0
_IN_OPEN, _IN_Q_OVERFLOW, _IN_ISDIR = 0x20, 0x4000, 0x40000000
_EVENT = struct.Struct("iIII")


class Opens:
    """Counter of the opens of files in some directories."""

    def __init__(self, *directories: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._file = libc.inotify_init1(os.O_CLOEXEC)
        for each in directories:
            if libc.inotify_add_watch(self._file, os.fsencode(each), _IN_OPEN) < 0:
                raise OSError(ctypes.get_errno(), f"cannot watch {each}")
        self._wake, self._waker = os.pipe()
        self.count = 0
        self.names: set[bytes] = set()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Opens:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        os.write(self._waker, b"x")
        self._thread.join()
        for file in (self._file, self._wake, self._waker):
            os.close(file)

    def _read(self) -> None:
        import select

        poll = select.poll()
        poll.register(self._file, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            ready = [file for file, _ in poll.poll()]
            if self._file in ready:
                self._take(os.read(self._file, 1 << 16))
            elif ready:
                return

    def _take(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            _, mask, _, length = _EVENT.unpack_from(data, at)
            name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
            at += _EVENT.size + length
            if mask & _IN_Q_OVERFLOW:
                raise SystemExit("more opens than the kernel's queue holds")
            if name and not mask & _IN_ISDIR:
                self.count += 1
                self.names.add(name)


def build_libraries(folder: Path, count: int) -> list[str]:
    """Build libraries with debug information; return the flags that link a program to them."""
    for number in range(count):
        source = folder / f"bench{number}.c"
        source.write_text(
            "\n".join(
                f"struct s{number}_{each} {{ int a[{each + 1}]; double b; }};\n"
                f"double f{number}_{each}(struct s{number}_{each} *s, int n)\n"
                "{ double sum = 0; for (int i = 0; i < n; i++) sum += s->a[i] * s->b; return sum; }"
                for each in range(FUNCTIONS)
            ),
            encoding="utf-8",
        )
        library = folder / f"libbench{number}.so"
        subprocess.run(
            ["cc", "-g", "-O0", "-shared", "-fPIC", "-o", str(library), str(source)], check=True
        )
        source.unlink()
    names = [f"-lbench{number}" for number in range(count)]
    return ["-Wl,--no-as-needed", f"-L{folder}", f"-Wl,-rpath,{folder}", *names]


@contextlib.contextmanager
def job_on(hosts: Hosts, folder: Path, each: int, libraries: int) -> Iterator[tuple[Job, Path]]:
    """Run a job whose files are in one directory; yield that directory too."""
    builder, mpi = Builder(folder), find_mpi("openmpi")
    shared = folder / "shared"
    shared.mkdir()
    program = builder.build(mpi, "storm.c", *build_libraries(shared, libraries))
    ranks = each * len(hosts.names)
    line = hosts.command("h1", mpi.line(ranks, program, hosts=hosts.names))
    with run_job(builder, line, program, ranks) as job:
        yield job, program.path.parent


def attach(hosts: Hosts, job: Job, *options: str) -> str:
    """Attach, print the stacks and leave; return the output."""
    line = [sys.executable, "-m", "pgdb", "attach", "--batch", *options]
    line += ["--start-timeout=500", "--timeout=300", "-ex", "bt", "-ex", "info sbd", str(job.pid)]
    done = subprocess.run(
        hosts.command("h1", line),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"pgdb attach failed: {done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--ranks-per-host", type=int, default=8)
    parser.add_argument("--libraries", type=int, default=30)
    arguments = parser.parse_args()
    report_autogroup()
    with (
        tempfile.TemporaryDirectory(prefix="pgdb-bench-") as name,
        several_hosts(arguments.hosts, shared=[Path(name)]) as hosts,
        job_on(hosts, Path(name), arguments.ranks_per_host, arguments.libraries) as (job, program),
    ):
        sbd = ("--sbd", f"--sbd-cache={name}/cache-%h")
        cases = {
            "without, a GDB started for each rank": ("--no-nursery",),
            "without": (),
            "--sbd, caches empty, a GDB started for each rank": ("--no-nursery", *sbd),
            "--sbd, caches full, a GDB started for each rank": ("--no-nursery", *sbd),
            "--sbd, caches full": sbd,
            "--sbd, caches empty": ("--sbd", f"--sbd-cache={name}/another-%h"),
        }
        files = arguments.libraries + 1
        print(f"{arguments.hosts} hosts, {arguments.ranks_per_host} ranks on each; {files} files")
        print("| | opens | per file | files opened |\n|---|---|---|---|")
        printed = {}
        for case, options in cases.items():
            with Opens(Path(name) / "shared", program) as opens:
                printed[case] = attach(hosts, job, *options)
            per_file = opens.count / files
            print(f"| {case} | {opens.count} | {per_file:.3g} | {len(opens.names)} |", flush=True)
        for case, text in printed.items():
            if found := re.search(r"^read where they are:.*(?:\n.*){2}", text, re.M):
                print(f"\n{case}:\n{found[0]}")


if __name__ == "__main__":
    main()
