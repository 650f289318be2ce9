"""Jobs of any launcher's line; their ranks are found by the name of their program."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pgdb.backend.care.breakpoint_repair import RankText, Repair
from tests.support.processes import (
    is_traced,
    kill_all,
    processes_with,
    rank_of,
    switches_of,
    variables_of,
    wait_settled,
    wait_until,
)
from tests.support.terminal import DEADLINE_S

_MARK = "PGDB_TEST_NAMED_JOB"


@contextmanager
def running(line: Sequence[str], count: int, name: str) -> Iterator[tuple[int, dict[int, int]]]:
    """Run a job until *count* of its processes are the program *name*; give launcher and ranks."""
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        line, stdin=subprocess.DEVNULL, env=os.environ | {_MARK: mark}, start_new_session=True
    )
    try:
        wait_until(
            lambda: process.poll() is not None or len(ranks_of(mark, name)) == count,
            f"{count} ranks of {line} are up",
            DEADLINE_S,
        )
        assert process.poll() is None, f"{line} ended, status {process.returncode}"
        ranks = ranks_of(mark, name)
        wait_settled(ranks.values())
        yield process.pid, ranks
    finally:
        process.kill()
        process.wait()
        kill_all(lambda: processes_with(f"{_MARK}={mark}"), f"the processes of {line}")


def ranks_of(mark: str, name: str) -> dict[int, int]:
    """Return the processes with a mark that are the program, by rank."""
    found = {}
    for pid in processes_with(f"{_MARK}={mark}"):
        with suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() != name:
                continue
            if (rank := rank_of(variables_of(pid))) is not None:
                # A shell's child is one, too, until it has executed its program.
                found[rank] = min(pid, found.get(rank, pid))
    return dict(sorted(found.items()))


def assert_free(ranks: dict[int, int]) -> None:
    """Check that ranks run free, progress, and have no breakpoint in them; also in a container."""
    for pid in ranks.values():
        assert not is_traced(pid)
        assert RankText().repair(pid) == Repair()
    before = {pid: switches_of(pid) for pid in ranks.values()}
    wait_until(
        lambda: all(switches_of(pid) >= before[pid] + 10 for pid in ranks.values()), "they progress"
    )
