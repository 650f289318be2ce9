"""Jobs of launchers that PGDB does not know by themselves, and a part of the ranks of a launch."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from pgdb.frontend.discovery.listing import list_jobs
from tests.conftest import Build
from tests.support.named_jobs import running
from tests.support.programs import Mpi
from tests.support.terminal import ex, run_json

pytestmark = pytest.mark.mpi
TORCHRUN = str(Path(__file__).parents[1] / "programs" / "torchrun")


def test_a_launcher_with_options_of_its_own(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    charmrun = tmp_path / "charmrun"
    words = " ".join(mpi.line(2, '"$@"')).replace("'", "")
    charmrun.write_text(f"#!/bin/sh\nshift\nexec {words}\n")
    charmrun.chmod(0o755)
    program = build("exitcode.c")
    line = ("--launcher", "other", charmrun, "+p2", program.path)
    finished = run_json("launch", *ex("c"), *line)
    assert finished.first_stops() == {"0-1": ("main", "main")}, finished.out
    assert finished.status == 0


def test_the_other_ranks_of_a_launch_run_free_from_the_start(mpi: Mpi, build: Build) -> None:
    line = mpi.line(3, build("nompi.c"), "-", "1")
    finished = run_json("launch", "--ranks", "1", *ex("c"), *line)
    assert finished.status == 0
    assert finished.first_stops() == {"1": ("main", "main")}
    assert finished.answer("continue")["classes"][0]["ranks"] == "1"
    text = "".join(each["text"] for each in finished.of_type("output"))
    assert [f"nompi rank {rank} of 3" in text for rank in range(3)] == [True] * 3


def test_workers_of_torchrun_are_ranks(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    # A worker's child has its environment, but is no rank.
    script.write_text(
        "#torch\nimport subprocess, time\nsubprocess.Popen(['sleep', '600'])\n"
        "while True:\n    time.sleep(0.01)\n"
    )
    line = [TORCHRUN, "--nproc-per-node=3", str(script)]
    launched = run_json("launch", *ex("kill"), *line)
    assert list(launched.first_stops()) == ["0-2"], launched.out
    with running(line, 3, "python3") as (agent, ranks):
        finished = run_json("attach", *ex("ranks"), agent)
        hello = finished.objects[0]
        assert hello["ranks"] == "0-2"
        assert len(ranks) == 3


def test_the_workers_of_agents_below_a_launcher_are_ranks(mpi: Mpi, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import time\nwhile True:\n    time.sleep(0.01)\n")
    agent = [TORCHRUN, "--nproc-per-node=2", "--nnodes=2", "--master-port=29517"]
    # The agents are python3 as well.
    trainer = tmp_path / "trainer"
    trainer.symlink_to(sys.executable)
    word = f"{shlex.join(agent)} --node-rank=$NODE --no-python {trainer} {script}"
    shell = tmp_path / "node.sh"
    shell.write_text("#!/bin/sh\nNODE=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\nexec " + word + "\n")
    shell.chmod(0o755)
    with running(mpi.line(2, shell), 4, "trainer") as (launcher, ranks):
        for pid in (launcher, ranks[3]):
            finished = run_json("attach", *ex("ranks"), pid)
            assert finished.objects[0]["ranks"] == "0-3", finished.out
        listed = [each for each in list_jobs() if each.target == str(launcher)]
        assert [each.ranks for each in listed] == [4]
    assert sorted(ranks) == [0, 1, 2, 3]
