"""Processes that count as held ranks of a session."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid

import pytest

from pgdb.backend.node.collector import Collector
from pgdb.jobs import hold

POSES = f"""
import sys
with open("/proc/self/comm", "w") as file:
    file.write({hold.HELD_NAME!r})
print("ready", flush=True)
sys.stdin.read()
"""
RANK = {"PMI_RANK": "0", "PMI_SIZE": "1", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}


@pytest.mark.parametrize(
    ("user", "counts"),
    [
        (None, True),
        pytest.param(
            65534,
            False,
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else"),
        ),
    ],
    ids=["our own", "another user's"],
)
def test_only_processes_of_the_user_are_ranks(user: int | None, counts: bool) -> None:
    mark = f"pgdb-{uuid.uuid4().hex}"
    # Any user can see this much of a rank, and do this.
    process = subprocess.Popen(
        [sys.executable if user is None else "python3", "-I", "-S", "-c", POSES, mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": os.defpath, **RANK},
        user=user,
        cwd="/",
    )
    assert process.stdout is not None and process.stdin is not None

    async def find() -> dict[int, int]:
        collector = Collector(mark, 0, 1)
        collector.listen()
        collector.close()
        return dict(collector._held)

    with process.stdout, process.stdin:
        assert process.stdout.readline() == b"ready\n"
        found = asyncio.run(find())
    process.wait()
    assert found == ({0: process.pid} if counts else {})
