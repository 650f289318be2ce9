"""Files with flight records: those that the ranks of a job have written."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdb.frontend.store import flight_files
from pgdb.proctable import RankProcess
from tests.support.flight_entries import WAITS, entry

HOST = socket.gethostname()


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[RankProcess]:
    """A process that asks PyTorch for records."""
    environment = {**os.environ, "TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/trace_"}
    process = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=environment
    )
    yield RankProcess(rank=1, host=HOST, pid=process.pid, executable=sys.executable)
    process.communicate(b"\n")


def write(path: Path) -> Path:
    path.write_text(json.dumps({"entries": [entry(1, **WAITS)], "pg_config": {}}))
    return path


def test_a_record_that_a_rank_has_written_is_read(rank: RankProcess, tmp_path: Path) -> None:
    assert flight_files.of_job([rank]) == {}
    path = write(tmp_path / "trace_1")
    write(tmp_path / "trace_2")
    os.utime(path, (2_000_000_000_0, 2_000_000_000_0))
    assert list(flight_files.of_job([rank])) == [1]


def test_a_record_from_before_the_rank_began_is_none_of_it(
    rank: RankProcess, tmp_path: Path
) -> None:
    os.utime(write(tmp_path / "trace_1"), (1_000_000_000, 1_000_000_000))
    assert flight_files.of_job([rank]) == {}


def test_a_rank_that_asks_for_no_records_or_is_elsewhere_has_none(
    rank: RankProcess, tmp_path: Path
) -> None:
    write(tmp_path / "trace_1")
    me = RankProcess(rank=1, host=HOST, pid=os.getpid(), executable=sys.executable)
    far = RankProcess(rank=1, host="elsewhere", pid=rank.pid, executable=sys.executable)
    assert flight_files.of_job([me, far]) == {}
