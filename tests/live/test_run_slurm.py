"""Batch jobs of Slurm under ``pgdb run``: the limit, the signal, a death, a hang."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import chatty
from tests.support.processes import wait_until
from tests.support.programs import Builder, Mpi, Program, find_mpi
from tests.support.slurm import Slurm

pytestmark = [pytest.mark.mpi, pytest.mark.slurm]

DEADLINE_S = 600.0


@pytest.fixture
def cluster(slurm: Slurm) -> Iterator[Slurm]:
    yield slurm
    slurm.cancel_all()


@pytest.fixture
def mpi() -> Mpi:
    return find_mpi("slurm")


class Batch:
    """A batch script whose only line is ``pgdb run``.

    With ``is_replaced``, ``pgdb run`` takes the place of the shell, which would end at a signal.
    """

    def __init__(
        self,
        cluster: Slurm,
        folder: Path,
        words: list[str],
        *options: str,
        is_replaced: bool = False,
    ) -> None:
        self._cluster = cluster
        self.report = folder / "report.json"
        self.output = folder / "output"
        script = folder / "script"
        line = [sys.executable, "-m", "pgdb", "run", "-o", str(self.report), *words]
        command = " ".join(line)
        line_of_script = "exec " + command if is_replaced else command + '\necho "status: $?"'
        script.write_text(f"#!/bin/bash\n{line_of_script}\n")
        self.number = cluster.run(
            "sbatch", "--parsable", "-N2", "-n4", f"--output={self.output}", *options, str(script)
        ).strip()

    def finish(self) -> dict[str, Any]:
        """Return the report of the job, once it has ended."""
        wait_until(
            lambda: (
                not self._cluster.run("squeue", "-h", "-j", self.number, "-o", "%i").strip()
                or "CG" in self._cluster.run("squeue", "-h", "-j", self.number, "-o", "%t")
            ),
            "the end of the batch job",
            DEADLINE_S,
        )
        assert self.report.exists(), self.text
        report: dict[str, Any] = json.loads(self.report.read_bytes())
        return report

    @property
    def text(self) -> str:
        return self.output.read_text("utf-8", "replace")


@pytest.fixture
def unattended(builder: Builder, mpi: Mpi) -> Program:
    return builder.build(mpi, "unattended.c")


def test_limit_that_slurm_knows(
    cluster: Slurm, mpi: Mpi, unattended: Program, tmp_path: Path
) -> None:
    words = ["--before-timeout", "1h", "--then", "kill", "--", *mpi.line(4, unattended, "recv")]
    batch = Batch(cluster, tmp_path, words, "--time=30")
    report = batch.finish()
    assert report["cause"]["kind"] == "time-limit", batch.text
    assert "(Slurm" in report["cause"]["what"]
    assert "status: 11" in batch.text
    assert sum(each["count"] for each in report["classes"]) == 4, report["notes"]
    assert len(report["hosts"]) == 2


def test_hang_and_death_of_a_step(
    builder: Builder, cluster: Slurm, mpi: Mpi, unattended: Program, tmp_path: Path
) -> None:
    words = ["--hang-after", "6s", "--then", "kill", "--", *mpi.line(4, unattended, "recv")]
    batch = Batch(cluster, tmp_path, words)
    report = batch.finish()
    assert report["cause"]["kind"] == "hang", batch.text
    assert "status: 10" in batch.text
    assert report["verdicts"][0]["kind"] == "unmatched-receive"

    folder = tmp_path / "death"
    folder.mkdir()
    # By Slurm's default, a step runs on although a task has ended with a bad status.
    words = ["--then", "kill", "--", *mpi.line(4, builder.build(mpi, "deaths.c"), "2")]
    batch = Batch(cluster, folder, words)
    report = batch.finish()
    assert report["cause"]["kind"] == "exit-code", batch.text
    assert report["cause"]["who"] == "2"
    assert "status: 8" in batch.text
    assert sum(each["count"] for each in report["classes"]) == 3, report["notes"]


def test_cancelled_job_has_a_report(
    cluster: Slurm, mpi: Mpi, unattended: Program, tmp_path: Path
) -> None:
    words = ["--snapshot-every", "2s", "--", *mpi.line(4, unattended, "recv")]
    batch = Batch(cluster, tmp_path, words, is_replaced=True)
    wait_until((tmp_path / "report.1.json").exists, "a snapshot", DEADLINE_S)
    # As at the limit: SIGTERM to all processes, then SIGKILL after Slurm's KillWait.
    cluster.run("scancel", "--full", "--signal=TERM", batch.number)
    report = batch.finish()
    assert report["cause"]["kind"] == "ended", batch.text
    assert "SIGTERM" in report["cause"]["what"]


def test_output_of_each_task_is_whole(
    builder: Builder, cluster: Slurm, mpi: Mpi, tmp_path: Path
) -> None:
    line = mpi.line(4, builder.build(mpi, "chatty.c"), str(chatty.LINES), "die")
    words = ["--output-by-rank", "--then", "kill", "--", *line]
    batch = Batch(cluster, tmp_path, words)
    report = batch.finish()
    assert report["cause"]["who"] == "1", batch.text
    assert {each["ranks"] for each in chatty.of_single_ranks(report)} == {"0", "1", "2", "3"}
    for rank in range(4):
        assert chatty.size_in(report, rank) == chatty.size_of(rank)
        # slurmstepd ends all of a task with its first process; nothing is lost by that.
        assert all(each.rstrip() in batch.text for each in chatty.lines_of(rank))
