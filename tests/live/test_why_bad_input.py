"""``why`` on jobs that are not as it expects: it is right, or says that it does not know."""

from __future__ import annotations

import os
import platform
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import pgdb
from pgdb import process_maps
from pgdb.errors import PgdbError
from pgdb.frontend.analysis.why.explain import Explanation
from pgdb.frontend.analysis.why.verdict import Verdict
from pgdb.jobs import procfs
from pgdb.mpi_calls import MpiCallStatus
from pgdb.ranks import RankSet
from tests.conftest import Build
from tests.support import mpi_libraries
from tests.support.processes import aggregator_of, status, wait_until
from tests.support.programs import Mpi, find_mpi
from tests.support.ready_jobs import started

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

RANKS = 4
WATCH_S = 0.5
LONG_S = 30.0
"""Seconds of a watch that ends sooner: the aggregator dies meanwhile."""
QUERY = "PMPI_Group_translate_ranks"
"""A function that PGDB runs in its emulator, and no program here calls."""
_follows_code = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="only the code of x86-64 is followed"
)


def explained(session: pgdb.Session, kind: str) -> Explanation:
    """Return the explanation whose only verdict is of *kind*, once the ranks have come so far."""
    found: list[Explanation] = []

    def is_there() -> bool:
        found[:] = [session.why(watch_s=WATCH_S)]
        return [each.kind for each in found[0].verdicts] == [kind]

    wait_until(is_there, f"a verdict {kind}")
    assert RankSet.union(each.ranks for each in found[0].waits) == RankSet(range(RANKS))
    return found[0]


def functions(found: Explanation) -> dict[str, str]:
    """Return the functions of MPI by their ranks."""
    return {str(each.ranks): each.call.function for each in found.waits if each.call is not None}


CALLS = {"0": "MPI_Ssend", "1": "MPI_Recv", "2-3": "MPI_Barrier"}
"""The calls of the ranks of tag_ssend.c."""


# -- MPI libraries ---------------------------------------------------------------------------------


@_follows_code
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (b"\x0f\x0b", "the instruction ud2"),
        (b"\xeb\xfe", "no end after"),
        (b"\xb8\x05\0\0\0\xc3", f"{QUERY} returns 5"),
    ],
    ids=["unknown instruction", "no end", "refuses"],
)
def test_an_unknown_build_is_said_to_be_unknown(
    build: Build, mpi: Mpi, tmp_path: Path, code: bytes, reason: str
) -> None:
    program = build("tag_ssend.c")
    library, ready = tmp_path / "library", tmp_path / "ready"
    library.mkdir()
    ready.mkdir()
    mpi_libraries.changed_copy(program, QUERY, code, library)
    folders = f"{library}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    changes = {"LD_LIBRARY_PATH": folders}
    with started(mpi.line(RANKS, program), RANKS, ready, changes) as pid, pgdb.attach(pid) as job:
        found = explained(job, "unknown")
        (only,) = found.verdicts
        assert only.confidence == "cannot tell"
        assert len(found.notes) == 1, found.notes
        assert found.notes[0].startswith("[0-3] unknown MPI library: ")
        assert reason in found.notes[0] and reason in only.decides
        assert functions(found) == CALLS  # the names are left
        lines = [each.status.where.line for each in found.waits if each.status.where is not None]
        assert lines == [7, 9, 10]


@pytest.mark.parametrize("is_stripped", [False, True], ids=["symbols", "stripped"])
def test_mpi_that_is_linked_into_the_program(tmp_path: Path, is_stripped: bool) -> None:
    mpi = find_mpi("mpich-system")
    source = Path(__file__).parents[1] / "why" / "tag_ssend.c"
    program, ready = tmp_path / "static", tmp_path / "ready"
    mpi_libraries.linked_statically(mpi, source, program)
    if is_stripped:
        subprocess.run(["strip", "--strip-all", str(program)], check=True)
    ready.mkdir()
    with started(mpi.line(RANKS, program), RANKS, ready) as pid, pgdb.attach(pid) as session:
        if not is_stripped:
            found = explained(session, "unknown")
            assert functions(found) == CALLS
            assert ["linked into the program" in each for each in found.notes] == [True]
            return
        found = session.why(watch_s=WATCH_S)
        assert found.verdicts == ()
        # "No rank uses MPI" would be wrong.
        assert "no rank is known to use MPI" in found.summary
        assert any("the program has no symbols" in each for each in found.notes)


@_follows_code
@pytest.mark.parametrize("option", ["--strip-debug", "--strip-all"])
def test_programs_without_debug_information(
    build: Build, mpi: Mpi, tmp_path: Path, option: str
) -> None:
    program = build("tag_ssend.c", "-O2").copied(tmp_path / "stripped")
    subprocess.run(["strip", option, str(program.path)], check=True)
    ready = tmp_path / "ready"
    ready.mkdir()
    with started(mpi.line(RANKS, program), RANKS, ready) as pid, pgdb.attach(pid) as session:
        found = explained(session, "unmatched-receive")
    (only,) = found.verdicts
    assert (str(only.ranks), str(only.victims), only.confidence) == ("0-1", "2-3", "certain")
    assert "with tag 8" in only.text and "sends it one with tag 7" in only.text
    assert not found.notes


# -- ranks -----------------------------------------------------------------------------------------


@_follows_code
def test_ranks_of_different_programs(build: Build, mpi: Mpi, tmp_path: Path) -> None:
    one, other = build("recv_recv.c"), build("left_barrier.c", "-O2")
    line = [*mpi.line(2, one), ":", "-n", "2", str(other.path)]
    with started(line, RANKS, tmp_path) as pid, pgdb.attach(pid) as session:
        found = explained(session, "cycle")
    (only,) = found.verdicts
    assert (str(only.ranks), str(only.victims), only.confidence) == ("0-1", "2-3", "certain")
    places = {rank: each.status.where for each in found.waits for rank in each.ranks}
    files = {rank: where.file.rpartition("/")[2] for rank, where in places.items() if where}
    assert files == {rank: (one if rank < 2 else other).source.name for rank in range(RANKS)}


def test_a_rank_that_is_lost_is_not_guessed_at(build: Build, mpi: Mpi, tmp_path: Path) -> None:
    line = mpi.line(RANKS, build("tag_ssend.c"))
    with started(line, RANKS, tmp_path) as pid, pgdb.attach(pid) as session:
        explained(session, "unmatched-receive")
        pid_of_1 = pid_of(session, 1)
        os.kill(tracer_of(pid_of_1), signal.SIGKILL)
        wait_until(lambda: session.ranks("@lost").set == RankSet([1]), "rank 1 is lost")
        found = session.why(watch_s=WATCH_S)
        assert all(each.confidence == "cannot tell" for each in found.verdicts), found.verdicts
        assert [each.absence for each in found.waits if 1 in each.ranks] == ["lost"]


def pid_of(session: pgdb.Session, rank: int) -> int:
    return next(each.pid for each in session.table.processes if each.rank == rank)


def tracer_of(pid: int) -> int:
    """Return the process that traces *pid*."""
    text = Path(f"/proc/{pid}/status").read_text()
    return next(int(each.split()[1]) for each in text.splitlines() if "TracerPid" in each)


def test_an_aggregator_that_dies_while_ranks_are_watched(
    build: Build, mpi: Mpi, tmp_path: Path
) -> None:
    line = mpi.line(RANKS, build("tag_ssend.c"))
    with started(line, RANKS, tmp_path) as pid:
        with pgdb.attach(pid) as session:
            explained(session, "unmatched-receive")
            pids = [pid_of(session, rank) for rank in range(RANKS)]
            aggregator = aggregator_of(pids[0])

            def kill() -> None:
                wait_until(lambda: not any(map(is_traced_stop, pids)), "the ranks run")
                os.kill(aggregator, signal.SIGKILL)

            with ThreadPoolExecutor(1) as pool:
                killed = pool.submit(kill)
                found: tuple[Verdict, ...] = ()
                # The session says that it has lost the ranks, or knows nothing of them.
                with suppress(PgdbError):
                    found = session.why(watch_s=LONG_S).verdicts
                killed.result()
            assert all(each.confidence == "cannot tell" for each in found), found
        for each in pids:
            wait_until(lambda rank=each: status(rank, "TracerPid") == "0", f"{each} is detached")
            assert not is_traced_stop(each)


def is_traced_stop(pid: int) -> bool:
    """Return whether a debugger has stopped a process."""
    found = procfs.read_stat(pid)
    return found is not None and found.state == "t"


# -- memory ----------------------------------------------------------------------------------------


def noise(start: int, size: int) -> bytes:
    return random.Random(start).randbytes(size)


def ones(start: int, size: int) -> bytes:
    del start
    return b"\xff" * size


def cycles(start: int, size: int) -> bytes:
    """Return pointers to the beginning: each list and each tree in it leads back to itself."""
    return start.to_bytes(8, "little") * (size // 8) + b"\0" * (size % 8)


@contextmanager
def overwritten(pid: int, garbage: Callable[[int, int], bytes]) -> Iterator[None]:
    """Overwrite what the program, its heap and its MPI library have written to; restore it."""
    mapped = process_maps.read_mappings(pid)
    files = {each.path for each in mapped if "mpi" in os.path.basename(each.path)}
    chosen = {os.readlink(f"/proc/{pid}/exe"), "[heap]"} | files
    parts = [each for each in mapped if each.is_writable and each.path in chosen]
    assert parts
    memory = os.open(f"/proc/{pid}/mem", os.O_RDWR)
    saved = []
    try:
        for each in parts:
            size = each.end - each.start
            saved.append((each.start, os.pread(memory, size, each.start)))
            os.pwrite(memory, garbage(each.start, size), each.start)
        yield
    finally:
        for start, data in saved:
            assert os.pwrite(memory, data, start) == len(data)
        os.close(memory)


@pytest.mark.parametrize("garbage", [noise, ones, cycles])
def test_a_rank_whose_memory_is_overwritten(
    build: Build, mpi: Mpi, tmp_path: Path, garbage: Callable[[int, int], bytes]
) -> None:
    line = mpi.line(RANKS, build("tag_ssend.c"))
    with started(line, RANKS, tmp_path) as pid, pgdb.attach(pid) as session:
        before = explained(session, "unmatched-receive")
        with overwritten(pid_of(session, 1), garbage):
            found = session.why(look_only=True)
            assert RankSet.union(each.ranks for each in found.waits) == RankSet(range(RANKS))
            assert all(each.confidence == "cannot tell" for each in found.verdicts)
            status = session[1].mpi_calls().for_rank(1)
            # Its function is known by name; no field is made up.
            assert isinstance(status, MpiCallStatus), status
            known = next(each.call for each in before.waits if 1 in each.ranks)
            assert status.call is not None and known is not None
            assert status.call.function == "MPI_Recv"
            assert status.call.source in (None, known.source)
            assert status.call.communicator in (None, known.communicator)
        assert explained(session, "unmatched-receive").verdicts == before.verdicts
