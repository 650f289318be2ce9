"""Two jobs that have connected by MPI_Comm_connect, in one session."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgdb.frontend.discovery.discover import find_job
from pgdb.ranks import RankSet
from tests.support.processes import wait_until
from tests.support.programs import Builder, Mpi, Program, find_mpi
from tests.support.terminal import DEADLINE_S, assert_untouched, ex, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

RANKS = 2
WITH = r"stopped with \[[0-1,-]+\] in "
Launcher = Callable[..., list[str]]


@pytest.fixture(params=("openmpi", "mpich"))
def mpi_of_jobs(request: pytest.FixtureRequest) -> Mpi:
    return find_mpi(request.param)


@pytest.fixture
def program(builder: Builder, mpi_of_jobs: Mpi) -> Program:
    return builder.build(mpi_of_jobs, "connects.c")


@pytest.fixture
def launcher(
    mpi_of_jobs: Mpi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Launcher]:
    """Return the line that launches two ranks, of a job that can connect to another one."""

    def line(program: Program, *words: object) -> list[str]:
        first, *rest = mpi_of_jobs.line(RANKS, program, *map(str, words))
        return [first, *options, *rest]

    options: tuple[str, ...] = ()
    if mpi_of_jobs.name != "openmpi":
        # By default MPICH 5.0.2 of PyPI uses UCX: "MPI_Open_port: no space for port_name tag".
        monkeypatch.setenv("MPIR_CVAR_CH4_NETMOD", "ofi")
        yield line
        return
    # Two mpiruns of Open MPI need a server to connect.
    path = shutil.which("ompi-server")
    if path is None:
        pytest.skip("Open MPI's ompi-server is not installed")
    file = tmp_path / "server"
    with subprocess.Popen([path, "--no-daemonize", "-r", str(file)]) as process:
        try:
            wait_until(lambda: file.exists() and file.read_text().strip(), "it serves", DEADLINE_S)
            options = ("--ompi-server", f"file:{file}")
            yield line
        finally:
            process.kill()


@contextlib.contextmanager
def running(line: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A job, which ends with the context."""
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=DEADLINE_S)


def pids_of(process: subprocess.Popen[bytes]) -> dict[int, int]:
    """Return the ranks of a launcher (rank -> pid)."""
    return {each.rank: each.pid for each in find_job(process.pid).table.processes}


def wait_connected(*processes: subprocess.Popen[bytes]) -> None:
    for each in processes:
        assert each.stdout is not None
        for _ in range(RANKS):
            assert each.stdout.readline().endswith(b"waits\n")


def ranks_that(did: str, out: str) -> RankSet:
    """Return the ranks of the lines of *out* that begin with *did*, behind the ranks."""
    found = RankSet()
    for ranks in re.findall(rf"^\[([\d,-]+)\] +{did}", out, re.M):
        found |= RankSet.parse(ranks)
    return found


def test_a_connected_job_is_a_world_of_the_session(
    program: Program, launcher: Launcher, tmp_path: Path
) -> None:
    port, place = tmp_path / "port", program.at("waiting")
    lines = [launcher(program, word, port) for word in ("accept", "connect")]
    with running(lines[0]) as one, running(lines[1]) as other:
        wait_connected(one, other)
        commands = ex(
            f"worlds add --job {one.pid}",
            f"worlds add --job {other.pid}",
            f"worlds add --job {other.pid}",
            "worlds",
            "hold @world1",
            f"tbreak {place}",
            "continue",
            "release all",
            f"barrier {place}",
            "continue",
            "delete",
            f"break {place} if $_rank == 3 --stop all",
            "continue",
            "delete",
            "set stop-mode all",
            f"tbreak {place} --ranks @world0",
            "continue",
            "proc 1.0-1 print argv[1]",
            "proc 0-1 print argv[1]",
            "detach",
        )
        finished = run_pgdb("attach", "--batch", *commands, one.pid)
        out, err = finished.out, finished.err + finished.out
        assert f"ranks [0-1] of the session are those of job {one.pid}" in err, err
        assert f"ranks [2-3] of the session are those of job {other.pid}" in err, err
        assert "[2-3]" in out and "1.0-1 (@world1)" in out, out
        assert "[2-3] held" in out
        assert "barrier 2: [0-3] are there; they stay stopped" in out, out
        assert re.search(r"^\[3\] +Breakpoint 3, main", out, re.M), out
        assert re.search(r"^\[[0-2,-]+\] +stopped with \[3\] in ", out, re.M), out
        # One rank of @world0 is enough, and the others stand at several places.
        last = out.rpartition("Temporary breakpoint 4: ")[2]
        hits, others = ranks_that("Temporary breakpoint 4, main", last), ranks_that(WITH, last)
        assert hits and hits <= RankSet.parse("0-1"), last
        assert hits | others == RankSet.parse("0-3") and not hits & others, last
        assert re.search(r'^\[2-3\] argv\[1\] = .*"connect"', out, re.M), out
        assert re.search(r'^\[0-1\] argv\[1\] = .*"accept"', out, re.M), out
        assert "[0-3] detached; they run on" in out
        for each in (one, other):
            assert_untouched(pids_of(each))


def test_a_session_that_kills_its_job_detaches_from_the_other(
    program: Program, launcher: Launcher, tmp_path: Path
) -> None:
    port = tmp_path / "port"
    line = launcher(program, "connect", port)
    # The other job has not connected: the death of the first one is none of its business.
    with running(launcher(program, "accept", port)) as other:
        wait_until(port.exists, "the port is open", DEADLINE_S)
        commands = ex(f"worlds add --job {other.pid}", "ranks", "quit")
        out = run_pgdb("launch", "--batch", *commands, *line).out
        assert "1.0-1 (@world1)" in out, out
        assert other.poll() is None
        assert_untouched(pids_of(other), progress=0)
