"""Jobs under ``pgdb run`` whose ranks are on several hosts; PGDB runs on the first."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cores import are_written_here
from tests.support.host_jobs import BY_HOST, RANKS, on_h1, wait_empty
from tests.support.hosts import Hosts
from tests.support.programs import Builder, find_mpi
from tests.support.terminal import Finished, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.hosts]

DEADLINE_S = 600.0


def run_on_hosts(
    builder: Builder, hosts: Hosts, folder: Path, source: str, kind: str, *options: str
) -> tuple[Finished, dict[str, Any]]:
    mpi = find_mpi("openmpi")
    line = mpi.line(RANKS, builder.build(mpi, source), kind, hosts=hosts.names)
    path = folder / "report.json"
    # A rank that dies may leave a core file in the present directory.
    with contextlib.chdir(folder):
        command = on_h1(hosts)
    finished = run_pgdb(
        "run", "-o", path, *options, "--", *line, command=command, deadline_s=DEADLINE_S
    )
    wait_empty(hosts)
    return finished, json.loads(path.read_bytes())


def test_death_on_another_host(builder: Builder, four_hosts: Hosts, tmp_path: Path) -> None:
    finished, report = run_on_hosts(builder, four_hosts, tmp_path, "deaths.c", "5")
    assert finished.status == 7, finished.err
    assert report["cause"]["kind"] == "assertion"
    assert report["cause"]["who"] == "5"
    assert {each["host"]: each["ranks"] for each in report["hosts"]} == BY_HOST
    # The others were looked at on their hosts while no launcher knew of the death.
    others = report["classes"][-1]
    assert others["count"] == RANKS - 1, report["notes"]
    assert any("MPI_Barrier" in each["function"] for each in others["frames"])


@pytest.mark.skipif(not are_written_here(), reason="the kernel gives core files to a program")
def test_core_file_of_another_host_is_read(
    builder: Builder, four_hosts: Hosts, tmp_path: Path
) -> None:
    finished, report = run_on_hosts(builder, four_hosts, tmp_path, "deaths.c", "5")
    assert finished.status == 7, finished.err
    dead = report["classes"][0]
    assert dead["ranks"] == "5", report["notes"]
    assert "die" in [each["function"] for each in dead["frames"]]
    (file,) = tmp_path.glob("core*")
    note = f"core files: h3:{file}; 'pgdb core --hosts h3 FILE…' opens them"
    assert note in report["notes"]


def test_hang_on_several_hosts(builder: Builder, four_hosts: Hosts, tmp_path: Path) -> None:
    options = ("--hang-after", "20s", "--then", "kill")
    finished, report = run_on_hosts(builder, four_hosts, tmp_path, "unattended.c", "recv", *options)
    assert finished.status == 10, finished.err
    assert report["cause"]["kind"] == "hang"
    assert report["verdicts"][0]["kind"] == "unmatched-receive"
    assert sum(each["count"] for each in report["classes"]) == RANKS


def test_output_of_each_rank_of_several_hosts(
    builder: Builder, four_hosts: Hosts, tmp_path: Path
) -> None:
    finished, report = run_on_hosts(
        builder, four_hosts, tmp_path, "deaths.c", "2", "--output-by-rank"
    )
    assert finished.status == 8, finished.err
    # The relays of the outputs, beside the ranks, are no ranks.
    assert sum(each["count"] for each in report["classes"]) == RANKS - 1, report["notes"]
    assert report["environment"]["source"].startswith("rank ")
