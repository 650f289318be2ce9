"""Core files on several hosts: aggregators read them there; PGDB runs on the first host."""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cores import leave_cores
from tests.support.host_jobs import on_h1, wait_empty
from tests.support.hosts import Hosts, several_hosts
from tests.support.programs import Builder, Program, find_mpi
from tests.support.terminal import ex, run_json, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.hosts]

RANKS = 4
PLACE = "/tmp/run17"
DEADLINE_S = 600.0
SHIP = ("--ship", "--remote-python", "/usr/bin/python3")


@pytest.fixture(scope="module")
def program(builder: Builder) -> Program:
    return builder.build(find_mpi("openmpi"), "cores.c")


@pytest.fixture(scope="module")
def cores(builder: Builder, program: Program) -> Iterator[Path]:
    """Core files of four ranks, in a directory that all hosts see."""
    folder = Path(tempfile.mkdtemp(prefix="cores-of-hosts", dir=builder.directory))
    try:
        line = find_mpi("openmpi").line(RANKS, program)
        assert len(leave_cores(line, folder, program.path)) == RANKS
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def apart(builder: Builder, cores: Path) -> Iterator[Hosts]:
    """Three hosts with files of their own: h2 has the cores of ranks 0 and 1, h3 that of rank 2.

    That of rank 2 is compressed; h3 also has a file that is no core. Rank 3 has left none.
    """
    packed = cores / "core.2.gz"
    packed.write_bytes(gzip.compress((cores / "r2" / "core").read_bytes(), 1))
    with several_hosts(3, own_pids=True, shared=[builder.directory]) as hosts:
        for host, files in {"h2": ("r0", "r1"), "h3": ("core.2.gz",)}.items():
            hosts.run(host, ["mkdir", PLACE])
            hosts.run(host, ["cp", "-r", *(cores / each for each in files), PLACE])
        hosts.run("h3", ["touch", f"{PLACE}/core.empty"])
        packed.unlink()
        yield hosts


@pytest.mark.parametrize("options", [(), ("--connect",), SHIP])
def test_cores_are_read_on_the_hosts_that_hold_them(
    apart: Hosts, cores: Path, options: tuple[str, ...]
) -> None:
    report = cores / "report.json"
    commands = ("ranks", "print cell->step", "stat field", "bt", f"report {report}")
    done = run_json(
        "core",
        "--hosts",
        "h2,h3",
        *options,
        *ex(*commands),
        PLACE,
        command=on_h1(apart),
        deadline_s=DEADLINE_S,
    )
    assert f"left out: h3:{PLACE}/core.empty is empty" in done.err
    assert "no core of rank 3 of 4" in done.err
    assert done.objects[0]["ranks"] == "0-2"
    values = {each["ranks"]: each["value"] for each in done.answer("print cell->step")["classes"]}
    assert values == {"0": 10, "1": 11, "2": 12}
    (sums,) = done.of_type("stat")
    assert (sums["count"], sums["low"], sums["high"]) == (3000, 0, 2999)
    whole = json.loads(report.read_bytes())
    report.unlink()
    assert {each["host"]: each["ranks"] for each in whole["hosts"]} == {"h2": "0-1", "h3": "2"}
    # The environment is in the core file, which this host does not have.
    names = {each["name"] for each in whole["environment"]["variables"]}
    assert "OMPI_COMM_WORLD_RANK" in names
    wait_empty(apart)
    # The expanded file has gone with the session.
    assert "pgdb-cores-" not in apart.run("h3", ["ls", "/tmp"])


def test_a_host_that_is_missing_is_named_and_the_others_are_opened(apart: Hosts) -> None:
    done = run_pgdb(
        "core",
        "--batch",
        "--hosts",
        "h1,h[2-3],h9",
        *ex("print cell->step"),
        PLACE,
        command=on_h1(apart),
        deadline_s=DEADLINE_S,
    )
    assert done.status == 0, done.err
    assert "core files on h9 are left out: " in done.err
    assert "no such core file is on h1" in done.err
    for rank in range(3):
        assert f"[{rank}] cell->step = {10 + rank}" in done.out


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("--hosts", "h1", "core.none"), 2, "core.none: there is no such file"),
        (("--hosts", "h2,h3", "/tmp/none-*"), 2, "h2, h3: /tmp/none-*: no file has such a name"),
        (("--hosts", "h9", PLACE), 3, "h9: ssh: "),
        (("--hosts", "h2,-x", PLACE), 2, "--hosts h2,-x: '-x'"),
        (("--hosts", "", PLACE), 2, "--hosts: name hosts, with commas between"),
        (("--hosts", "h2", "--exe", "/tmp/none", PLACE), 3, "/tmp/none: there is no such file"),
        (("--hosts", "h2", "--ranks", "7", PLACE), 2, "no core file of ranks 7"),
    ],
)
def test_a_start_that_cannot_be_says_why(
    apart: Hosts, arguments: tuple[str, ...], status: int, words: str
) -> None:
    done = run_pgdb("core", "--batch", *arguments, command=on_h1(apart), deadline_s=DEADLINE_S)
    assert done.status == status, done.err
    assert words in done.err
    wait_empty(apart)


def test_hosts_that_share_a_file_system_divide_the_files(four_hosts: Hosts, cores: Path) -> None:
    report = cores / "report.json"
    options = ("--hosts", "h1,h3,h4,h2", "--aggregators", 2)
    done = run_json(
        "core",
        *options,
        *ex("print cell->step", f"report {report}"),
        cores,
        command=on_h1(four_hosts),
        deadline_s=DEADLINE_S,
    )
    values = {each["ranks"]: each["value"] for each in done.answer("print cell->step")["classes"]}
    assert values == {"0": 10, "1": 11, "2": 12, "3": 13}
    whole = json.loads(report.read_bytes())
    report.unlink()
    found = {each["host"]: each["ranks"] for each in whole["hosts"]}
    assert found == {"h1": "0", "h3": "1", "h4": "2", "h2": "3"}
    wait_empty(four_hosts)
