"""``pgdb doctor`` on this machine: the real launchers, and tracing that the kernel refuses."""

from __future__ import annotations

import io
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from pgdb.frontend.startup import doctor, doctor_checks, doctor_launchers
from pgdb.frontend.startup.doctor_findings import Finding, Host
from pgdb.jobs import procfs
from pgdb.jobs.launchers import find_launcher
from pgdb.jobs.tracing_rights import yama_scope
from tests.support.processes import why_no_calls
from tests.support.programs import Mpi

# Each test starts processes of its own.
pytestmark = pytest.mark.slow

DEADLINE_S = 120.0


@pytest.mark.mpi
def test_mpi4py_comes_up_with_each_launcher(mpi: Mpi) -> None:
    launcher = find_launcher(mpi.launcher)
    found, *others = doctor_launchers.check_launcher(launcher, os.environ)
    assert (found.topic, found.verdict) == (launcher.version, "ok"), found
    assert "size 2" in found.message and "library" in found.message
    assert not [each for each in others if each.verdict != "note"]


@pytest.mark.mpi
def test_the_whole_examination() -> None:
    out = io.StringIO()
    status = doctor.run_doctor(as_json=True, gdb="gdb", out=out)
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    findings = [Finding(message=row.pop("told"), **row) for row in rows]
    problems = [each for each in findings if each.verdict == "problem"]
    assert status == bool(problems)
    assert all(each.remedy for each in problems)
    assert not [each for each in findings if "cannot be examined" in each.message]
    topics = {each.topic for each in findings}
    assert topics >= {"Python", "GDB", "tracing", "/proc", "limits", "Slurm", "host name", "cache"}
    lines = [line for each in findings for line in doctor.in_lines(each).splitlines()]
    lines.append(doctor.summary(findings))
    assert max(map(len, lines)) <= 80


def test_tracing_is_as_the_kernel_says() -> None:
    """The trial is right about this host, whatever it allows."""
    tried = doctor_checks._try_tracing_apart()
    assert set(tried) == {"running", "launched", "memory"}
    me = doctor_checks._fields(Path("/proc/self/status"))
    has_capability = int(me["CapEff"], 16) >> 19 & 1
    if has_capability or (yama_scope() == 0 and me["Seccomp"] == "0"):
        assert tried == {"running": 0, "launched": 0, "memory": 0}


# A filter as containers have it: ptrace(2) is refused with EPERM, all else is allowed.
_REFUSE_PTRACE = """
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, {number}), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(text)))
assert libc.prctl(38, 1, 0, 0, 0) == 0
if libc.prctl(22, 2, program, 0, 0) != 0:
    raise SystemExit("no filter: " + str(ctypes.get_errno()))
"""
_PTRACE_NUMBERS = {"x86_64": 101, "aarch64": 117}


def behind_filter(program: str) -> str:
    """Return what a program says from behind a seccomp filter that refuses ptrace."""
    number = _PTRACE_NUMBERS.get(platform.machine())
    if number is None:
        pytest.skip(f"the number of ptrace(2) on {platform.machine()} is not known here")
    ended = subprocess.run(
        [sys.executable, "-c", _REFUSE_PTRACE.format(number=number) + program],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    if "no filter" in ended.stderr:
        pytest.skip(f"this kernel takes no seccomp filter: {ended.stderr.strip()}")
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_sandbox_that_refuses_tracing_is_found_out() -> None:
    said = behind_filter("from pgdb.frontend.startup import ptrace_trial; ptrace_trial.main()")
    tried = json.loads(said)
    assert (tried["running"], tried["launched"]) == (1, 1)


def test_a_sandbox_is_a_problem_with_a_remedy(tmp_path: Path) -> None:
    """A container has a filter, and no capability that would lift it."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "status").write_text("CapEff:\t0\nSeccomp:\t2\n")
    said = behind_filter(
        "import dataclasses, json, pathlib\n"
        "from pgdb.frontend.startup import doctor_checks, doctor_findings\n"
        f"host = doctor_findings.Host(proc=pathlib.Path({str(tmp_path)!r}))\n"
        "found = doctor_checks.check_tracing(host)\n"
        "print(json.dumps([dataclasses.asdict(each) for each in found]))"
    )
    found = Finding(**json.loads(said)[0])
    assert found.verdict == "problem"
    assert "EPERM" in found.message and "seccomp" in found.message
    assert "--cap-add=SYS_PTRACE" in found.remedy


def test_no_process_of_the_trial_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDB_TEST_TRIAL", mark := f"{os.getpid()}-trial")
    doctor_checks._try_tracing_apart()
    left = []
    for pid in procfs.all_pids():
        environment = procfs.environment(pid) or {}
        if environment.get("PGDB_TEST_TRIAL") == mark:
            left.append(pid)
    assert left == []


def test_gdb_here() -> None:
    found, *registers = doctor_checks.check_gdb(Host())
    assert found.verdict in ("ok", "warning"), found
    assert bool(registers) == bool(why_no_calls())
