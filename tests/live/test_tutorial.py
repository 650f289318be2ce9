"""The tutorial of the guide: its commands find the bug, and its screens are the answers to them."""

from __future__ import annotations

import re

import pytest

from tests.conftest import Build, StartJob
from tests.support.processes import wait_progress
from tests.support.programs import ROOT, Mpi
from tests.support.terminal import ex, run_pgdb

PAGE = ROOT / "docs" / "guide" / "tutorial.md"
RANKS = 4
DEADLINE_S = 240.0
SAME_UNDER_EVERY_MPI = ("print log_busy", "print alarms", "proc 1 info args", "proc 1 list 31,40")


def screens() -> str:
    """Return the lines of all screens of the page."""
    text = PAGE.read_text(encoding="utf-8")
    return "".join(re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S))


def answer_to(command: str, output: str) -> list[str]:
    """Return the lines between a command and the next prompt, without blanks and addresses."""
    pattern = rf"^\(pgdb [^)]*\) {re.escape(command)}\n(.*?)(?=^\(pgdb |\Z)"
    match = re.search(pattern, output, re.M | re.S)
    assert match is not None, f"{command!r} is not in:\n{output}"
    lines = re.sub(r"0x[0-9a-f]+", "ADDRESS", match[1]).splitlines()
    return [" ".join(line.split()) for line in lines if line.strip()]


def typed() -> list[str]:
    """Return the commands of the page, in order."""
    return re.findall(r"^\(pgdb [^)]*\) (.+)$", screens(), re.M)


def test_tutorial_shows_the_source_as_it_is() -> None:
    source = (ROOT / "examples" / "hang_one_rank.c").read_text(encoding="utf-8").splitlines()
    shown = re.findall(r"^(?:▶ \[\d+\] ●\d+)? *(\d+) {2,}(.*)$", screens(), re.M)
    assert len(shown) > 10
    for number, line in shown:
        assert source[int(number) - 1].strip() == line.strip()


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_tutorial_attaches_and_sees_the_suspect(build: Build, start_job: StartJob) -> None:
    commands = typed()
    commands = commands[: commands.index("quit")]
    with start_job(RANKS, build("hang_one_rank.c")) as job:
        wait_progress(job.ranks[1])
        ended = run_pgdb("attach", "--batch", *ex(*commands), job.pid, deadline_s=DEADLINE_S)
    assert ended.status == 0, ended.out + ended.err
    (suspect,) = [line for line in answer_to("tree", ended.out) if "differs" in line]
    (shown,) = [line for line in answer_to("tree", screens()) if "differs" in line]
    assert suspect.endswith("[1] <-- differs") and shown.endswith("[1] <-- differs")
    assert suspect.split()[:3] == shown.split()[:3]  # its number and function
    assert "log_temperature" in "".join(answer_to("bt", ended.out))
    reason, *evidence = answer_to("why", ended.out)
    assert reason.startswith("Rank 2 waits in MPI_Sendrecv") and "for rank 1, which" in reason
    # On a busy machine a rank behind may not have run while it was watched.
    assert any(line.endswith("because of that") for line in evidence)
    for command in SAME_UNDER_EVERY_MPI[:2]:
        assert answer_to(command, ended.out) == answer_to(command, screens())


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_tutorial_launches_and_finds_the_line(mpi: Mpi, build: Build) -> None:
    commands = typed()
    commands = commands[commands.index("quit") + 1 : -1]
    # At the prompt `continue` ends after the settle time; in a batch run it waits for all ranks.
    at = commands.index("continue")
    commands[at : at + 1] = ["continue &", "proc 1 wait 120"]
    line = mpi.line(RANKS, build("hang_one_rank.c"))
    ended = run_pgdb("launch", "--batch", *ex(*commands), *line, deadline_s=DEADLINE_S)
    assert ended.status == 0, ended.out + ended.err
    assert "[1] Breakpoint 1, log_temperature (" in ended.out
    for command in SAME_UNDER_EVERY_MPI[2:]:
        assert answer_to(command, ended.out) == answer_to(command, screens())
