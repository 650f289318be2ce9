"""Rights to trace a process, in a /proc that the test makes; each refusal names the way out."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pgdb.jobs import procfs
from pgdb.jobs.tracing_rights import why_not_traceable, yama_scope
from tests.support.made_proc import add_process, add_self, set_yama


def test_yama_is_off_where_the_kernel_has_none(tmp_path: Path) -> None:
    assert yama_scope(tmp_path) == 0
    set_yama(tmp_path, 2)
    assert yama_scope(tmp_path) == 2


def test_a_process_of_ours_is_traceable(tmp_path: Path) -> None:
    add_self(tmp_path)
    add_process(tmp_path, 7)
    assert why_not_traceable(7, tmp_path) is None


def test_another_users_process_wants_that_user_or_the_capability(tmp_path: Path) -> None:
    add_self(tmp_path)
    add_process(tmp_path, 7, comm="solver", uids="54321 54321 54321 54321")
    assert why_not_traceable(7, tmp_path) == (
        "7 (solver) belongs to user 54321; run pgdb as that user or with CAP_SYS_PTRACE"
    )
    shutil.rmtree(tmp_path / "self")
    add_self(tmp_path, capabilities=1 << 19)
    assert why_not_traceable(7, tmp_path) is None


def test_a_traced_process_names_its_tracer(tmp_path: Path) -> None:
    add_self(tmp_path, capabilities=1 << 19)
    add_process(tmp_path, 7, tracer=8)
    add_process(tmp_path, 8, comm="strace")
    reason = why_not_traceable(7, tmp_path)
    assert reason is not None and "already traced by 8 (strace)" in reason


def test_kernel_threads_and_zombies_cannot_be_traced(tmp_path: Path) -> None:
    add_self(tmp_path, capabilities=1 << 19)
    add_process(tmp_path, 2, comm="kthreadd", flags=0x00200000)
    add_process(tmp_path, 7, state="Z")
    reason = why_not_traceable(2, tmp_path)
    assert reason is not None and "thread of the kernel" in reason
    assert why_not_traceable(7, tmp_path) == "process 7 has ended"


@pytest.mark.parametrize(
    ("scope", "capabilities", "words"),
    [
        (1, 0, "sysctl kernel.yama.ptrace_scope=0, give CAP_SYS_PTRACE, or start the job"),
        (2, 0, "only CAP_SYS_PTRACE may trace"),
        (3, 1 << 19, "until it is booted with another value"),
        (2, 1 << 19, None),
        (1, 1 << 19, None),
        (0, 0, None),
    ],
)
def test_yama_is_named_with_the_way_out(
    tmp_path: Path, scope: int, capabilities: int, words: str | None
) -> None:
    add_self(tmp_path, capabilities=capabilities)
    set_yama(tmp_path, scope)
    add_process(tmp_path, 7)
    reason = why_not_traceable(7, tmp_path)
    if words is None:
        assert reason is None
    else:
        assert reason is not None and words in reason and "\n" not in reason


def test_yama_lets_us_trace_what_we_started(tmp_path: Path) -> None:
    add_self(tmp_path)
    set_yama(tmp_path, 1)
    add_process(tmp_path, os.getpid(), ppid=1)
    child = os.getpid() + 1
    add_process(tmp_path, child, ppid=os.getpid())
    assert why_not_traceable(child, tmp_path) is None


def test_a_process_that_is_not_dumpable_is_distinguished_from_one_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_self(tmp_path)
    add_process(tmp_path, 7, comm="solver")

    def readlink(path: Path) -> str:
        raise PermissionError(path)

    monkeypatch.setattr(os, "readlink", readlink)
    assert procfs.is_closed(7, tmp_path) and not procfs.is_closed(8, tmp_path)
    reason = why_not_traceable(7, tmp_path)
    assert reason is not None and reason.startswith("7 (solver) may not be traced")
    assert "prctl(PR_SET_DUMPABLE, 0)" in reason and "CAP_SYS_PTRACE" in reason


@pytest.mark.parametrize(("user", "group", "whose"), [(0, 9, "u"), (9, 0, "g"), (9, 9, "o")])
def test_a_program_that_may_not_be_read_is_named(
    user: int, group: int, whose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The permission that is missing is that of the owner, of the group, or of others."""
    own = tmp_path.stat()
    monkeypatch.setattr(os, "geteuid", lambda: own.st_uid + user)
    monkeypatch.setattr(os, "getegid", lambda: own.st_gid + group)
    monkeypatch.setattr(os, "getgroups", list)
    program = tmp_path / "solver"
    program.touch(mode=0o111)
    add_self(tmp_path)
    add_process(tmp_path, 7, comm="solver", cmdline=b"%s\0-n\0" % bytes(program))
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.R_OK)
    monkeypatch.setattr(procfs, "is_closed", lambda pid, proc: True)
    reason = why_not_traceable(7, tmp_path)
    assert reason is not None and f"chmod {whose}+r {program}" in reason


def test_a_set_user_id_program_is_distinguished_from_another_users(tmp_path: Path) -> None:
    add_self(tmp_path)
    add_process(tmp_path, 7, comm="solver", uids="1000 54321 54321 54321")
    reason = why_not_traceable(7, tmp_path)
    assert reason is not None and "set-user-ID" in reason


def test_the_tracer_of_the_caller_is_no_obstacle(tmp_path: Path) -> None:
    add_self(tmp_path)
    add_process(tmp_path, 7, tracer=8)
    add_process(tmp_path, 8, comm="gdb")
    assert why_not_traceable(7, tmp_path, tracer=8) is None
