"""Workers of PyTorch in a step of Slurm: the ranks are the workers on all nodes, not the agents."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdb.frontend.discovery.listing import list_jobs
from pgdb.jobs import procfs
from tests.support.processes import processes_with, wait_until
from tests.support.programs import ROOT
from tests.support.slurm import Slurm
from tests.support.terminal import ex, run_json

pytestmark = [pytest.mark.mpi, pytest.mark.slurm]
TORCHRUN = ROOT / "tests" / "programs" / "torchrun"
START_DEADLINE_S = 120.0


@pytest.fixture
def cluster(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    yield slurm
    slurm.cancel_all()


def test_the_workers_of_agents_in_a_step_are_its_ranks(cluster: Slurm, tmp_path: Path) -> None:
    trainer, script = tmp_path / "trainer", tmp_path / "node.sh"
    # The agents are python3 as well.
    trainer.symlink_to(sys.executable)
    port = str(20000 + os.getpid() % 10000)
    words = (TORCHRUN, "--nproc-per-node=2", "--nnodes=2", f"--master-port={port}", "--no-python")
    line = " ".join(map(str, words))
    program = "import time; time.sleep(600)"
    script.write_text(f"#!/bin/sh\n{line} --node-rank=$SLURM_PROCID {trainer} -c '{program}'\n")
    script.chmod(0o755)
    srun = subprocess.Popen(
        ["srun", "-n", "2", "--ntasks-per-node=1", str(script)], start_new_session=True
    )

    def workers() -> list[int]:
        found = processes_with(f"MASTER_PORT={port}")
        return [pid for pid in found if (procfs.command_line(pid) or [""])[0] == str(trainer)]

    try:
        wait_until(lambda: len(workers()) == 4, "the workers are up", START_DEADLINE_S)
        (number,) = cluster.run("squeue", "--noheader", "--format=%i").split()
        for target in (str(srun.pid), f"{number}.0"):
            done = run_json("attach", *ex("ranks"), target)
            hello = done.objects[0]
            assert hello["ranks"] == "0-3", done.out
            assert sorted(each["host"] for each in hello["hosts"]) == ["n1", "n2"]
        # The workers are below Slurm's daemon: they are no job of their own.
        listed = [each.target for each in list_jobs()]
        assert str(srun.pid) in listed
        assert not {*map(str, workers())} & {*listed}
    finally:
        srun.terminate()
        srun.wait(START_DEADLINE_S)
