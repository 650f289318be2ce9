"""Ranks that MPI_Comm_spawn has started on other hosts: named, and in the session."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.hosts import Hosts
from tests.support.programs import Builder, find_mpi
from tests.support.terminal import DEADLINE_S, PGDB, ex, leaving_nothing, run_json

pytestmark = [pytest.mark.mpi, pytest.mark.hosts]

SIZES = (2, 2, 3)


@pytest.mark.parametrize("name", ["openmpi", "mpich", "intel"])
def test_worlds_of_other_hosts_join_the_session(
    builder: Builder, four_hosts: Hosts, name: str
) -> None:
    """Launchers place the ranks of MPI_Comm_spawn behind those that are there."""
    mpi = find_mpi(name)
    line = mpi.line(2, builder.build(mpi, "spawns.c"), hosts=four_hosts.names)
    command = four_hosts.command("h1", ["env", "I_MPI_SPAWN=1", *line])
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            for _ in range(sum(SIZES)):
                assert process.stdout.readline().endswith(b"waits\n")
            with leaving_nothing(four_hosts):
                done = run_json(
                    "attach",
                    *ex("worlds", "break 26", "worlds add all", "print rank", "info breakpoints"),
                    process.pid,
                    command=four_hosts.command("h1", PGDB),
                )
            listed, *joined = (each["worlds"] for each in done.of_type("worlds"))
            assert sorted(each["size"] for each in listed) == sorted(SIZES)
            assert all(
                sum(len(host["pids"]) for host in each["hosts"]) == each["size"] for each in listed
            )
            others = {host["host"] for each in listed[1:] for host in each["hosts"]}
            assert others - {"h1", "h2"}, listed
            assert {each["ranks"] for (each,) in joined} in ({"2-3", "4-6"}, {"2-4", "5-6"})
            values = [each["value"] for each in done.answer("print rank")["classes"]]
            assert sorted(values) == [0, 1, 2]
            (points,) = done.answer("info breakpoints")["classes"]
            assert points["ranks"] == "0-6"
        finally:
            process.terminate()
            process.communicate(timeout=DEADLINE_S)
