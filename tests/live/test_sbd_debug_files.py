"""Debug files that the first host alone has come to the GDBs of all."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pgdb.files.file_sources import DEBUG_DIRECTORY
from pgdb.ranks import RankSet
from tests.support.deliveries import DEADLINE_S, WITH_SBD, build_id, cached, on_four_hosts
from tests.support.hosts import Hosts
from tests.support.jobs import Job
from tests.support.programs import Builder, Program, find_mpi
from tests.support.terminal import PGDB, assert_untouched, ex, run_json

pytestmark = [pytest.mark.mpi, pytest.mark.hosts]


@pytest.fixture
def stripped(tmp_path: Path) -> tuple[Program, Path]:
    """A program without debug information, and the file that has it, which lies elsewhere."""
    for tool in ("objcopy", "strip"):
        if shutil.which(tool) is None:
            pytest.skip(f"this machine has no {tool}")
    program = Builder(tmp_path).build(find_mpi("openmpi"), "storm.c")
    folder = tmp_path / "apart"
    folder.mkdir()
    debug = folder / "storm.debug"
    for line in (
        ["objcopy", "--only-keep-debug", program.path, debug],
        ["strip", "--strip-debug", program.path],
        ["objcopy", f"--add-gnu-debuglink={debug}", program.path],
    ):
        subprocess.run(list(map(str, line)), check=True, timeout=60)
    return program, debug


@contextmanager
def only_on(hosts: Hosts, host: str, place: Path, fill: Callable[[Path], object]) -> Iterator[None]:
    """Have one host see in a directory only what *fill* puts there, and the others nothing."""
    made = not place.exists()
    if made:
        place.mkdir()
    with ExitStack() as stack:
        if made:
            stack.callback(place.rmdir)
        for each in hosts.names:
            hosts.run(each, ["mount", "-t", "tmpfs", "tmpfs", place])
            stack.callback(hosts.run, each, ["umount", "--lazy", place])
            if each == host:
                fill(Path(f"/proc/{hosts.sshd(host)}/root{place}"))
        yield


def by_build_id(debug: Path) -> Callable[[Path], object]:
    def fill(inside: Path) -> None:
        found = build_id(debug)
        folder = inside / ".build-id" / found[:2]
        folder.mkdir(parents=True)
        shutil.copy(debug, folder / f"{found[2:]}.debug")

    return fill


def by_link(debug: Path) -> Callable[[Path], object]:
    return lambda inside: shutil.copy(debug, inside / "storm.debug")


def ranks_with_lines(job: Job, hosts: Hosts, *options: object) -> RankSet:
    """Attach on the first host; return the ranks of whose ``main`` GDB knows the line."""
    finished = run_json(
        *("attach", *options, *ex("bt", "info sbd"), job.pid),
        command=tuple(hosts.command("h1", PGDB)),
        deadline_s=DEADLINE_S,
    )
    assert finished.status == 0, finished.out
    found = RankSet()
    for each in finished.answer("backtrace")["classes"]:
        (main,) = [frame for frame in each["record"]["frames"] if frame["function"] == "main"]
        if main.get("line"):
            assert main["file"].endswith("storm.c"), main
            found |= RankSet.parse(each["ranks"])
    return found


@pytest.mark.parametrize("how", [by_build_id, by_link])
def test_a_debug_file_that_the_first_host_alone_has(
    builder: Builder,
    four_hosts: Hosts,
    tmp_path: Path,
    stripped: tuple[Program, Path],
    how: Callable[[Path], Callable[[Path], object]],
) -> None:
    program, debug = stripped
    place = Path(DEBUG_DIRECTORY) if how is by_build_id else program.path.parent / ".debug"
    with (
        only_on(four_hosts, "h1", place, how(debug)),
        on_four_hosts(builder, four_hosts, program) as job,
    ):
        assert ranks_with_lines(job, four_hosts) == RankSet.parse("0-1")
        sbd = (*WITH_SBD, f"--sbd-cache={tmp_path / '%h'}")
        assert ranks_with_lines(job, four_hosts, *sbd) == RankSet.parse("0-7")
        for each in four_hosts.names:
            copy = cached(tmp_path / each, program.path).with_suffix(".debug")
            assert copy.read_bytes() == debug.read_bytes()
        assert_untouched(job.ranks)


def test_a_debug_file_of_another_program_is_refused(
    builder: Builder, four_hosts: Hosts, tmp_path: Path, stripped: tuple[Program, Path]
) -> None:
    program, debug = stripped
    other = Builder(tmp_path).build(find_mpi("openmpi"), "ring.c")
    place = program.path.parent / ".debug"
    with (
        only_on(four_hosts, "h1", place, by_link(other.path)),
        on_four_hosts(builder, four_hosts, program) as job,
    ):
        sbd = (*WITH_SBD, f"--sbd-cache={tmp_path / '%h'}")
        assert ranks_with_lines(job, four_hosts, *sbd) == RankSet()
        for each in four_hosts.names:
            copy = cached(tmp_path / each, program.path)
            assert copy.exists() and not copy.with_suffix(".debug").exists()
        # The right one, where GDB did not look before, is taken when it is there.
        shutil.copy(debug, program.path.parent / "storm.debug")
        assert ranks_with_lines(job, four_hosts, *sbd) == RankSet.parse("0-7")
        assert_untouched(job.ranks)
