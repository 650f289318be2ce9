"""Ranks that the user names by their process ids."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pgdb.errors import DiscoveryError, PgdbError, UsageError
from pgdb.frontend.discovery.explicit_pids import find_pids
from tests.support.lone_rank import alone
from tests.support.mpir_launchers import CAT

pytestmark = pytest.mark.skipif(CAT is None, reason="no cat to stand for a rank")


def error_of_pids(*entries: str, kind: type[PgdbError] = UsageError) -> str:
    with pytest.raises(kind) as caught:
        find_pids(entries)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_pids_have_the_ranks_of_their_environments() -> None:
    with alone(PMI_RANK="4", PMI_SIZE="6") as four, alone(PMI_RANK="1", PMI_SIZE="6") as one:
        job = find_pids([str(four), f"localhost:{one}"])
    assert [(each.rank, each.pid) for each in job.table.processes] == [(1, one), (4, four)]
    assert job.table.source == "explicit pids"
    assert job.hosts == job.table.hosts == (os.uname().nodename,)
    assert (job.job_size, str(job.local_ranks), job.selector) == (6, "1,4", "")
    assert job.steps[0].outcome == "2 ranks given explicitly, ranks by their environment"


def test_pids_without_ranks_count_as_they_are_given() -> None:
    with alone() as one, alone(PMI_RANK="7") as other:
        job = find_pids([str(other), str(one)])
    assert [(each.rank, each.pid) for each in job.table.processes] == [(0, other), (1, one)]
    assert job.job_size is None


def test_pids_with_one_rank_number_count_as_they_are_given() -> None:
    with alone(PMI_RANK="7") as one, alone(PMI_RANK="7") as other:
        assert str(find_pids([str(other), str(one)]).table.ranks) == "0-1"


def test_pids_of_other_hosts_are_not_looked_at() -> None:
    with alone(PMI_RANK="7") as pid:
        job = find_pids(["node9:4711", str(pid), "fd00::2:12"])
    here = os.uname().nodename
    assert [(each.rank, each.host, each.pid) for each in job.table.processes] == [
        (0, "node9", 4711),
        (1, here, pid),
        (2, "fd00::2", 12),
    ]
    assert job.hosts == ("node9", here, "fd00::2")
    assert str(job.local_ranks) == "1"


def test_pids_that_have_ended_are_left_out_and_named() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with alone() as one, alone() as other:
        job = find_pids([str(one), str(process.pid), str(other)])
        # The others keep their places in the list.
        assert [(each.rank, each.pid) for each in job.table.processes] == [(0, one), (2, other)]
        (note,) = job.notes
        assert note.startswith(f"pid '{process.pid}': ") and "has ended; leave it out" in note
    process.wait()


def test_pids_that_cannot_be_ranks_are_refused_by_name() -> None:
    with alone() as pid:
        assert error_of_pids(str(pid), f"localhost:{pid}") == (
            f"pid 'localhost:{pid}' is given twice; leave one of them out"
        )
    gone = error_of_pids(str(pid), kind=DiscoveryError)
    assert gone.startswith(f"pid '{pid}': there is no such process on ")
    for entry in ("", "x", ":12", "node9:", "node9:x", "-3", "1.5"):
        assert error_of_pids(entry) == f"{entry!r} is no pid; write PID or HOST:PID"
    assert error_of_pids() == "no pids were given; write PID or HOST:PID for each rank"
    process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert "has ended; leave it out" in error_of_pids(str(process.pid), kind=DiscoveryError)
    process.wait()
