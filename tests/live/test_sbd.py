"""The ranks' files brought to the hosts: by the tree, from caches, and what happens where not."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

import pgdb
from pgdb.files.file_cache import FileCache, Version
from pgdb.overlay.messages import FileKey
from pgdb.records import Stop, Text
from tests.support.deliveries import (
    DEADLINE_S,
    WITH_SBD,
    Counts,
    build_id,
    counts,
    files_read,
    look,
    on_four_hosts,
    on_one_host,
    resumed_bytes,
)
from tests.support.hosts import Hosts
from tests.support.jobs import run_job
from tests.support.processes import wait_progress
from tests.support.programs import Builder, Program, find_mpi
from tests.support.terminal import PGDB, assert_untouched, ex, run_pgdb

pytestmark = [pytest.mark.mpi]


def test_one_host_reads_once_and_then_has_it(builder: Builder, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with on_one_host(builder) as (job, program):
        plain = run_pgdb("attach", "--batch", *ex("info sharedlibrary"), job.pid)
        first = look(job, cache)
        (here,) = counts(first).values()
        assert files_read(first) > 1
        assert (here.received, here.left) == (0, 0), "front end and aggregator have one cache"
        # The same libraries by the same names as without.
        assert set(re.findall(r" (/\S+)$", plain.out, re.M)) <= set(
            re.findall(r" (/\S+)$", first.out, re.M)
        )
        second = look(job, cache)
        assert files_read(second) == 0
        (here,) = counts(second).values()
        assert here.cached > 1 and here.left == 0
        assert not list((cache / "views").iterdir())
        assert_untouched(job.ranks)
        assert program.path.exists()


def test_launch_stops_in_main_with_files_from_the_cache(builder: Builder, tmp_path: Path) -> None:
    mpi = find_mpi("openmpi")
    program = builder.build(mpi, "ring.c")
    for expected in (True, False):
        finished = run_pgdb(
            *("launch", "--batch", *WITH_SBD, f"--sbd-cache={tmp_path / 'cache'}"),
            *ex("bt", "info sbd", "kill"),
            *mpi.line(2, program),
            deadline_s=DEADLINE_S,
        )
        assert finished.status == 0, f"{finished.out}\n{finished.err}"
        assert re.search(r"^\[0-1\] stopped in main \(.*\) at \S*ring\.c:\d+", finished.out, re.M)
        assert bool(files_read(finished)) is expected
        (here,) = counts(finished).values()
        assert here.cached > 1 and here.left == 0


def test_a_cache_that_cannot_be_made_is_reported_once(builder: Builder, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with on_one_host(builder) as (job, _):
        finished = look(job, tmp_path / "file" / "cache")
        (here,) = counts(finished).values()
        assert here.left > 1 and here.cached == 0
    reported = [line for line in finished.out.splitlines() if "--sbd: no cache" in line]
    assert len(reported) == 1 and "GDBs read the files by themselves" in reported[0]


def test_a_program_without_a_build_id_is_left_to_gdb(builder: Builder, tmp_path: Path) -> None:
    with on_one_host(builder, 2, "-Wl,--build-id=none") as (job, program):
        finished = look(job, tmp_path / "cache")
    assert f"--sbd: no build-id for {program.path}" in finished.out
    (here,) = counts(finished).values()
    assert here.cached > 1


def test_what_is_executed_or_made_later_is_found(builder: Builder, tmp_path: Path) -> None:
    """The GDBs look for files in a view of the cache, which was made when the ranks were found."""
    mpi, folder = find_mpi("openmpi"), tmp_path / "later"
    folder.mkdir()
    opener, bash = builder.build(mpi, "opener.c", "-DIN_MPI"), Path("/bin/bash").resolve()
    go, on, library = folder / "go", folder / "on", folder / "visit.so"
    made = builder.build_library("visit.c", "-g")
    os.mkfifo(folder / "rest")
    # Sleeping without a child, which would be taken for the program.
    rest = 'exec 3<> "$4"; while [ ! -e "$1" ]; do read -t 0.01 -u 3; done'
    line = mpi.line(2, bash, "-c", f'{rest}; exec "$0" "$2" "$3"', opener.path)
    line += [str(each) for each in (go, on, library, folder / "rest")]
    shell = Program(path=bash, source=bash)
    with run_job(builder, line, shell, 2, also=(opener,), in_mpi=False) as job:
        with pgdb.attach(job.pid, sbd=True, sbd_cache=str(tmp_path / "cache")) as session:
            # No empty name among them: that would be the working directory.
            shown = session.execute("show solib-search-path").check().for_rank(0)
            assert isinstance(shown, Text) and " is /" in shown.text and "::" not in shown.text
            # A program that none of them ran, and a library that was nowhere.
            session.execute("set breakpoint pending on").check()
            session.break_at("go_on").check()
            go.touch()
            (at,) = session.continue_(timeout_s=DEADLINE_S).check().classes
            assert isinstance(at.record, Stop) and at.ranks == session.set
            assert at.record.frame.function == "go_on" and at.record.frame.line
            session.delete().check()
            session.break_at("visit").check()
            shutil.copy(made, library)
            on.touch()
            (at,) = session.continue_(timeout_s=DEADLINE_S).check().classes
            assert isinstance(at.record, Stop) and at.ranks == session.set
            assert at.record.frame.function == "visit" and at.record.frame.line
            session.delete().check()
            session.execute("set variable is_free = 1").check()
        for pid in job.ranks.values():
            wait_progress(pid)


# -- several hosts -------------------------------------------------------------------------------


@pytest.mark.hosts
def test_four_hosts(builder: Builder, four_hosts: Hosts, tmp_path: Path) -> None:
    on_h1 = tuple(four_hosts.command("h1", PGDB))
    cache = tmp_path / "%h"
    program = builder.build(find_mpi("openmpi"), "storm.c")
    with on_four_hosts(builder, four_hosts, program) as job:
        first = look(job, cache, "--fan-out=2", on=on_h1)
        found = counts(first)
        assert set(found) == set(four_hosts.names)
        assert found["h1"].received == 0
        needed = found["h1"].cached
        assert files_read(first) >= needed
        for host in ("h2", "h3", "h4"):
            assert found[host] == Counts(cached=0, received=needed, read=0, left=0)

        # All is there; what was spoilt is refused and fetched again.
        caches = {host: FileCache(tmp_path / host) for host in four_hosts.names}
        key = FileKey(build_id=build_id(program.path))
        spoilt = caches["h2"].path(key)
        times = spoilt.stat()
        other = next(each for each in spoilt.parent.parent.glob("??/*") if each != spoilt)
        data = other.read_bytes()[: times.st_size].ljust(times.st_size, b"\0")
        spoilt.write_bytes(data)
        os.utime(spoilt, ns=(times.st_atime_ns, times.st_mtime_ns))
        second = look(job, cache, "--fan-out=2", on=on_h1)
        assert files_read(second) == 0
        found = counts(second)
        assert found["h2"] == Counts(cached=needed - 1, received=1, read=0, left=0)
        assert found["h4"] == Counts(cached=needed, received=0, read=0, left=0)
        assert spoilt.read_bytes() == program.path.read_bytes()

        # The next transfer continues an interrupted one.
        spoilt.unlink()
        partial = caches["h2"].begin(key, Version.of(program.path.stat()))
        partial.append(program.path.read_bytes()[:1000])
        partial.close()
        third = look(job, cache, "--fan-out=2", on=on_h1)
        assert counts(third)["h2"] == found["h2"]
        assert resumed_bytes(third) == 1000
        assert_untouched(job.ranks)


@pytest.mark.hosts
def test_a_full_disk_on_one_host_is_the_slower_way(
    builder: Builder, four_hosts: Hosts, tmp_path: Path
) -> None:
    on_h1 = tuple(four_hosts.command("h1", PGDB))
    full = tmp_path / "h2"
    full.mkdir(0o700)
    four_hosts.run("h2", ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", full])
    try:
        program = builder.build(find_mpi("openmpi"), "storm.c")
        with on_four_hosts(builder, four_hosts, program) as job:
            # A chain: h3 and h4 get theirs through h2.
            finished = look(job, tmp_path / "%h", "--fan-out=1", on=on_h1)
    finally:
        four_hosts.run("h2", ["umount", "--lazy", full])
    reported = [line for line in finished.out.splitlines() if "--sbd: " in line]
    assert (
        len([line for line in reported if "not all can be kept" in line and "(on h2)" in line]) == 1
    ), reported
    found = counts(finished)
    assert found["h2"].left > 0
    for host in ("h3", "h4"):
        assert (found[host].received, found[host].left) == (found["h1"].cached, 0)


@pytest.mark.hosts
def test_a_program_that_was_replaced_comes_from_a_host_that_runs_it(
    builder: Builder, four_hosts: Hosts, tmp_path: Path
) -> None:
    on_h1 = tuple(four_hosts.command("h1", PGDB))
    program = builder.build(find_mpi("openmpi"), "storm.c").copied(tmp_path / "storm")
    with on_four_hosts(builder, four_hosts, program) as job:
        program.path.unlink()
        program.path.write_bytes(Path("/bin/true").read_bytes())
        finished = look(job, tmp_path / "%h", on=on_h1)
        found = counts(finished)
        # Reading a file that has gone takes a capability; without it GDB reads it through /proc.
        assert sum(each.read for each in found.values()) == 1
        assert not any(each.left for each in found.values())
