"""A process raises its limit of open files, and its children can get the first one."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pgdb.jobs import file_limit


@pytest.fixture
def low_limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """Soft and hard limit of this process during the test; the soft one can be raised."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(file_limit, "first_limit", None)
    low = (before[1] - 1, before[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, low)
    yield low
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextmanager
def sleeping() -> Iterator[int]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def limit_of(pid: int) -> tuple[int, int]:
    return resource.prlimit(pid, resource.RLIMIT_NOFILE)


def test_the_limit_is_raised_to_the_hard_one_and_a_child_gets_the_first(
    low_limit: tuple[int, int],
) -> None:
    soft, hard = low_limit
    file_limit.raise_file_limit()
    file_limit.raise_file_limit()
    assert limit_of(os.getpid()) == (hard, hard)
    with sleeping() as pid:
        assert limit_of(pid) == (hard, hard)
        file_limit.give_first_file_limit(pid)
        assert limit_of(pid) == (soft, hard)


def test_a_process_that_has_raised_nothing_changes_no_child(low_limit: tuple[int, int]) -> None:
    with sleeping() as pid:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (5, 9))
        file_limit.give_first_file_limit(pid)
        assert limit_of(pid) == (5, 9)


def test_a_child_that_has_ended_is_no_error(low_limit: tuple[int, int]) -> None:
    file_limit.raise_file_limit()
    with sleeping() as pid:
        pass
    file_limit.give_first_file_limit(pid)
