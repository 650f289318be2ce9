"""The places of core files by the settings of a host, and the ones that a job has left."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from pgdb import core_limit
from pgdb.cores.policy import Kind, Policy, find_left_cores, read_policy

START_S = 1_000_000.0


def touched(path: Path, time_s: float = START_S + 5) -> str:
    """Make a file of a given time; return its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"core")
    os.utime(path, (time_s, time_s))
    return str(path)


@pytest.mark.parametrize(
    ("pattern", "kind", "words"),
    [
        ("core", "file", "named core in the process's directory; ranks with one directory"),
        ("/var/cores/%e-%p", "file", "named /var/cores/%e-%p"),
        ("|/usr/lib/systemd/systemd-coredump %P %u %g", "systemd", "pgdb core --systemd"),
        ("|/usr/share/apport/apport -p%p -s%s", "apport", "apport-unpack"),
        ("|/usr/libexec/abrt-hook-ccpp %s %c", "abrt", "/var/spool/abrt"),
        ("|/site/bin/collect %p", "program", "go to /site/bin/collect"),
        ("", "none", "are off for all of this host"),
        ("/dev/null", "none", "are off for all of this host"),
    ],
)
def test_the_receiver_of_core_files_is_named(pattern: str, kind: Kind, words: str) -> None:
    policy = Policy(pattern=pattern)
    assert policy.kind == kind
    assert words in policy.describe()


def test_names_with_a_process_id_are_not_overwritten() -> None:
    assert Policy(pattern="core").are_overwritten
    assert not Policy(pattern="core", uses_pid=True).are_overwritten
    assert not Policy(pattern="core.%P").are_overwritten


@pytest.mark.parametrize(
    ("soft", "hard", "can_be", "words"),
    [
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, True, ""),
        (0, resource.RLIM_INFINITY, True, "'ulimit -c unlimited' turns them on"),
        (0, 0, False, "only the administrator raises"),
    ],
)
def test_a_limit_that_forbids_core_files_is_the_reason(
    tmp_path: Path, soft: int, hard: int, can_be: bool, words: str
) -> None:
    policy = Policy(pattern="core", soft_bytes=soft, hard_bytes=hard)
    assert policy.can_be_enabled == can_be
    assert words in policy.why_none()
    assert words in find_left_cores([str(tmp_path)], START_S, policy=policy).why_none


def test_cores_of_the_job_are_found_by_the_pattern(tmp_path: Path) -> None:
    wanted = touched(tmp_path / "a" / "core.app.12")
    touched(tmp_path / "a" / "core.app.13", START_S - 1)
    touched(tmp_path / "a" / "other.app.12")
    second = touched(tmp_path / "b" / "core.app.14")
    policy = Policy(pattern="core.%e.%p")
    folders = [str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "a")]
    assert set(find_left_cores(folders, START_S, policy=policy).paths) == {wanted, second}
    left = find_left_cores(folders, START_S, pids=[14], policy=policy)
    assert left.paths == (second,)


def test_the_process_id_that_the_kernel_appends_is_known(tmp_path: Path) -> None:
    wanted = touched(tmp_path / "core.12")
    touched(tmp_path / "core")
    policy = Policy(pattern="core", uses_pid=True)
    assert find_left_cores([str(tmp_path)], START_S, policy=policy).paths == (wanted,)
    without = Policy(pattern="core")
    assert find_left_cores([str(tmp_path)], START_S, pids=[9], policy=without).paths == (
        str(tmp_path / "core"),
    )


def test_special_characters_in_folders_mean_themselves(tmp_path: Path) -> None:
    wanted = touched(tmp_path / "run[1]*" / "core")
    touched(tmp_path / "run1" / "core")
    policy = Policy(pattern="core")
    folder = str(tmp_path / "run[1]*")
    assert find_left_cores([folder], START_S, policy=policy).paths == (wanted,)


def test_a_folder_of_the_pattern_that_is_not_there_is_the_reason(tmp_path: Path) -> None:
    policy = Policy(pattern=f"{tmp_path}/none/core.%p")
    left = find_left_cores([str(tmp_path)], START_S, policy=policy)
    assert left.why_none == f"no core files: {tmp_path}/none of core_pattern does not exist"
    absolute = Policy(pattern=f"{tmp_path}/core.%p")
    assert "no core files were found" in find_left_cores([], START_S, policy=absolute).why_none


def test_the_policy_of_this_host_has_the_users_limits() -> None:
    policy = read_policy()
    assert (policy.soft_bytes, policy.hard_bytes) == core_limit.given()
    assert policy.describe()
