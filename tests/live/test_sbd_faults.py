"""Transfers that are interrupted, caches that are full or old, and ways that are slower."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgdb.bootstrap_env import AGGREGATOR_NAME
from tests.support.deliveries import (
    DEADLINE_S,
    WITH_SBD,
    cached,
    counts,
    files_read,
    look,
    on_four_hosts,
    on_one_host,
    resumed_bytes,
)
from tests.support.hosts import Hosts, forbidden
from tests.support.jobs import Job, run_job
from tests.support.processes import status, wait_until
from tests.support.programs import Builder, Program, find_mpi
from tests.support.terminal import (
    PGDB,
    Terminal,
    assert_nothing_left,
    assert_untouched,
    environment,
)

pytestmark = [pytest.mark.mpi]

BALLAST_BYTES = 64 << 20


@pytest.fixture(scope="module")
def ballast(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Flags that make a program so large that its transfer takes time."""
    folder = tmp_path_factory.mktemp("ballast")
    (folder / "data").write_bytes(os.urandom(BALLAST_BYTES))
    source = folder / "ballast.s"
    source.write_text(
        f'.section .rodata\n.incbin "{folder}/data"\n.section .note.GNU-stack,"",@progbits\n',
        encoding="ascii",
    )
    return str(source)


@pytest.fixture(scope="module")
def large(builder: Builder, ballast: str) -> Program:
    return builder.build(find_mpi("openmpi"), "storm.c", ballast)


def partial(cache: Path, program: Program) -> int:
    """Return how much of a program has come to a cache that has not all of it."""
    whole = cached(cache, program.path)
    return _sizes(whole.parent, f"{whole.name}.*.part")


def partials(cache: Path) -> int:
    """Return how much has come to a cache of what it has not whole."""
    return _sizes(cache, ".build-id/*/*.part")


def _sizes(folder: Path, pattern: str) -> int:
    return sum(each.stat().st_size for each in folder.glob(pattern))


def wait_under_way(cache: Path, program: Program) -> None:
    """Wait until a transfer to a cache has begun; it must not have ended by then."""
    # Closer than others look: all of it takes about a second.
    end = time.monotonic() + DEADLINE_S
    while not partial(cache, program):
        assert time.monotonic() < end, "no transfer has begun"
        assert not cached(cache, program.path).exists(), "it has ended already"


def aggregator_on(hosts: Hosts, host: str) -> int:
    """Return the process of the only aggregator of a host."""
    (found,) = [pid for pid in hosts.processes(host) if status(pid, "Name") == AGGREGATOR_NAME]
    return found


@pytest.mark.hosts
def test_all_that_has_a_file_is_killed_in_the_middle_of_its_transfer(
    builder: Builder, four_hosts: Hosts, tmp_path: Path, large: Program
) -> None:
    on_h1 = tuple(four_hosts.command("h1", PGDB))
    with on_four_hosts(builder, four_hosts, large) as job:
        mark = uuid.uuid4().hex
        front_end = four_hosts.popen(
            "h1",
            [*PGDB, "attach", *WITH_SBD, f"--sbd-cache={tmp_path / '%h'}", "--grace=2", job.pid],
            env=environment(mark),
        )
        wait_under_way(tmp_path / "h3", large)
        # For the grace time the aggregator of this host would go on handing it out.
        os.kill(aggregator_on(four_hosts, "h1"), signal.SIGKILL)
        front_end.kill()
        front_end.wait()
        assert_nothing_left(mark)
        assert_untouched(job.ranks)
        assert 0 < partial(tmp_path / "h3", large) < large.path.stat().st_size
        there = sum(partials(tmp_path / host) for host in ("h2", "h3", "h4"))

        finished = look(job, tmp_path / "%h", on=on_h1)
        assert resumed_bytes(finished) == pytest.approx(there, rel=0.01)
        for host in four_hosts.names:
            copy = cached(tmp_path / host, large.path)
            assert copy.read_bytes() == large.path.read_bytes()
            assert not partials(tmp_path / host)
        assert all(each.left == 0 for each in counts(finished).values())
        assert_untouched(job.ranks)


@contextmanager
def in_a_chain(
    builder: Builder, hosts: Hosts, cache: Path, program: Program
) -> Iterator[tuple[Job, Terminal]]:
    """Begin to attach: each host has its files from the one before."""
    line = [*PGDB, "attach", *WITH_SBD, f"--sbd-cache={cache / '%h'}", "--fan-out=1"]
    with (
        on_four_hosts(builder, hosts, program) as job,
        Terminal(*hosts.command("h1", [*line, job.pid])) as terminal,
    ):
        yield job, terminal


@pytest.mark.hosts
def test_an_aggregator_is_killed_in_the_middle_of_a_transfer(
    builder: Builder, four_hosts: Hosts, tmp_path: Path, large: Program
) -> None:
    """The aggregators behind it in the chain get the files another way, and keep their ranks."""
    with in_a_chain(builder, four_hosts, tmp_path, large) as (job, terminal):
        wait_under_way(tmp_path / "h2", large)
        os.kill(aggregator_on(four_hosts, "h2"), signal.SIGKILL)
        terminal.expect_ranks("stopped in", "0-1,4-7")
        assert re.search(r"\[2-3\] lost: with aggregator 1 on h2: .*reattach", terminal.text)
        there = partials(tmp_path / "h2")
        assert there
        terminal.line("reattach")
        terminal.expect_ranks("stopped in", "2-3")
        terminal.ask("p 40 + 2", r"\[0-7\] 40 \+ 2 = 42")
        terminal.ask("info sbd", r"4 aggregators needed .* 0 left to the GDBs")
        assert not partials(tmp_path / "h2")
        for host in four_hosts.names:
            copy = cached(tmp_path / host, large.path)
            assert copy.read_bytes() == large.path.read_bytes()
        terminal.line("quit")
        terminal.wait()
        assert_untouched(job.ranks)


@pytest.mark.hosts
def test_a_host_is_cut_off_for_a_moment_in_the_middle_of_a_transfer(
    builder: Builder, four_hosts: Hosts, tmp_path: Path, large: Program
) -> None:
    with in_a_chain(builder, four_hosts, tmp_path, large) as (job, terminal):
        wait_under_way(tmp_path / "h3", large)
        four_hosts.cut("h3")
        # Only the part that h3 has already arrives.
        seen = [-1]
        wait_until(lambda: seen.append(partials(tmp_path / "h3")) or seen[-1] == seen[-2], "still")
        four_hosts.heal("h3")
        terminal.expect_ranks("stopped in", "0-7")
        terminal.ask("info sbd", r"4 aggregators needed .* 0 left to the GDBs")
        terminal.line("quit")
        terminal.wait()
        for host in four_hosts.names:
            copy = cached(tmp_path / host, large.path)
            assert copy.read_bytes() == large.path.read_bytes()
        assert_untouched(job.ranks)


def test_what_is_too_slow_is_left_to_gdb_and_there_the_next_time(
    builder: Builder, tmp_path: Path, large: Program
) -> None:
    mpi = find_mpi("openmpi")
    with run_job(builder, mpi.line(2, large), large, 2) as job:
        first = look(job, tmp_path / "cache", "--sbd-wait=0.001")
        assert re.search(r"--sbd: \d+ files have not come within 0.001 s", first.out), first.out
        (late,) = counts(first).values()
        assert late.left > 0
        (here,) = counts(look(job, tmp_path / "cache")).values()
        assert here.left == 0
        assert files_read(look(job, tmp_path / "cache")) == 0
        assert_untouched(job.ranks)


# -- the cache -----------------------------------------------------------------------------------


def objects(cache: Path) -> set[Path]:
    return {each for each in cache.glob(".build-id/*/*") if each.suffix != ".part"}


def test_the_cache_is_kept_below_its_size(builder: Builder, tmp_path: Path, ballast: str) -> None:
    """The program of another job, which was used last, goes; what is used stays."""
    cache = tmp_path / "cache"
    mib = BALLAST_BYTES >> 20
    with on_one_host(builder, 2, ballast, "-DFIRST") as (job, first):
        look(job, cache)
        libraries = objects(cache) - {cached(cache, first.path)}
        assert cached(cache, first.path).exists() and libraries
    size = 2 * mib - 1 + (sum(each.stat().st_size for each in libraries) >> 20)
    with on_one_host(builder, 2, ballast, "-DSECOND") as (job, second):
        finished = look(job, cache, f"--sbd-cache-size={size}")
        (here,) = counts(finished).values()
        assert here.left == 0
        assert not cached(cache, first.path).exists()
        assert objects(cache) == libraries | {cached(cache, second.path)}
        # A cache that is too small is the slower way; one message says so.
        finished = look(job, cache, "--sbd-cache-size=1")
        reported = [line for line in finished.out.splitlines() if "--sbd: " in line]
        assert len(reported) == 1 and "the 1 MiB of --sbd-cache-size" in reported[0], finished.out
        # Front end and aggregator have this cache, and each keeps what it uses itself.
        assert sum(each.stat().st_size for each in objects(cache)) <= 2 << 20


def test_what_is_too_old_goes_from_the_cache(builder: Builder, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with on_one_host(builder, 2, "-DFIRST") as (job, first):
        look(job, cache)
    used = objects(cache)
    old = cached(cache, first.path)
    status = old.stat()
    three_days_ns = 3 * 24 * 3600 * 10**9
    os.utime(old, ns=(status.st_atime_ns - three_days_ns, status.st_mtime_ns))
    with on_one_host(builder, 2, "-DSECOND") as (job, second):
        look(job, cache, "--sbd-cache-age=4")
        assert old.exists()
        # Nothing new comes now.
        finished = look(job, cache, "--sbd-cache-age=2.5")
        assert files_read(finished) == 0
        assert objects(cache) == (used - {old}) | {cached(cache, second.path)}


# -- slower ways ---------------------------------------------------------------------------------


def test_where_there_can_be_no_view(builder: Builder, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(0o700)
    (cache / "views").touch()
    with on_one_host(builder) as (job, _):
        finished = look(job, cache)
        reported = [
            line for line in finished.out.splitlines() if "--sbd: no view of the files" in line
        ]
        assert len(reported) == 1 and "GDBs read the files by themselves" in reported[0], (
            finished.out
        )
        (here,) = counts(finished).values()
        assert here.left > 1
        assert_untouched(job.ranks)


def test_a_program_that_nobody_has_any_longer(builder: Builder, tmp_path: Path) -> None:
    setpriv = shutil.which("setpriv") or pytest.skip("this machine has no setpriv")
    if os.geteuid() != 0:
        pytest.skip("root alone has capabilities to give away")
    # Without them nobody reads what was deleted, by its mapping.
    less = [setpriv, "--bounding-set=-sys_admin,-checkpoint_restore"]
    less += ["--inh-caps=-sys_admin,-checkpoint_restore"]
    with on_one_host(Builder(tmp_path)) as (job, program):
        data = program.path.read_bytes()
        program.path.unlink()
        program.path.write_bytes(Path("/bin/true").read_bytes())
        finished = look(job, tmp_path / "cache", on=(*less, *PGDB))
        assert f"--sbd: no source for {program.path}; GDBs read" in finished.out, finished.out
        (here,) = counts(finished).values()
        assert here.left == 1
        program.path.unlink()
        program.path.write_bytes(data)
        assert_untouched(job.ranks)


def test_ranks_with_a_root_of_their_own_are_reported(builder: Builder, tmp_path: Path) -> None:
    unshare = shutil.which("unshare") or pytest.skip("this machine has no unshare")
    if forbidden("true", "--mount"):
        pytest.skip("this machine does not allow unshare --mount")
    mpi = find_mpi("openmpi")
    program = builder.build(mpi, "storm.c")
    line = mpi.line(2, unshare, "--mount", program.path)
    with run_job(builder, line, program, 2) as job:
        finished = look(job, tmp_path / "cache")
        reported = [
            line for line in finished.out.splitlines() if "a root directory of their own" in line
        ]
        assert len(reported) == 1, finished.out
        assert_untouched(job.ranks)
