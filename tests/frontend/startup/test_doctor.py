"""``pgdb doctor`` reports what hosts lack; kernels and launchers are stand-ins."""

from __future__ import annotations

import io
import json
import os
import resource
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from pgdb.errors import StartError
from pgdb.frontend.startup import doctor, doctor_checks, doctor_launchers, doctor_scheduler
from pgdb.frontend.startup.doctor_findings import Finding, Host, Verdict
from pgdb.frontend.startup.starvation_trial import Starvation
from pgdb.overlay import addresses
from tests.support.processes import processes_with, wait_until

ALL_WORKS = {"running": 0, "launched": 0, "memory": 0}
NOT_PERMITTED = 1
CAP_SYS_PTRACE = 1 << 19


def made(check: Callable[[Host], Iterator[Finding]], host: Host | None = None) -> list[Finding]:
    return list(check(host or Host()))


def report(findings: Sequence[Finding]) -> str:
    return "\n".join([*map(doctor.in_lines, findings), doctor.summary(findings)]) + "\n"


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


# -- how it is shown ---------------------------------------------------------------------------

LONG = "a library with a long name lies in /usr/lib/x86_64-linux-gnu/openmpi/lib/libmpi.so.40 " * 3


def test_report_fits_the_screen() -> None:
    findings = [
        Finding("GDB", "ok", "13.1"),
        Finding("MPI", "warning", LONG, "install " + LONG),
        Finding("tracing", "problem", "nothing can be traced", "run it as root"),
    ]
    lines = report(findings).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "ok       GDB: 13.1"
    assert lines[-3:] == [
        "problem  tracing: nothing can be traced",
        "         -> run it as root",
        "1 problem, 1 warning",
    ]


def with_checks(
    monkeypatch: pytest.MonkeyPatch, *checks: Callable[[Host], Iterator[Finding]]
) -> None:
    monkeypatch.setattr(doctor, "CHECKS", checks)


@pytest.mark.parametrize(("verdict", "status"), [("problem", 1), ("warning", 0), ("ok", 0)])
def test_only_problems_make_it_fail(
    monkeypatch: pytest.MonkeyPatch, verdict: Verdict, status: int
) -> None:
    def check(host: Host) -> Iterator[Finding]:
        yield Finding("x", verdict, "y", "z")

    with_checks(monkeypatch, check)
    out = io.StringIO()
    assert doctor.run_doctor(as_json=True, gdb="gdb", out=out) == status
    reported = [json.loads(line) for line in out.getvalue().splitlines()]
    assert reported == [{"topic": "x", "verdict": verdict, "told": "y", "remedy": "z"}]
    out = io.StringIO()
    assert doctor.run_doctor(as_json=False, gdb="gdb", out=out) == status
    assert out.getvalue() == report([Finding("x", verdict, "y", "z")])


def test_a_check_that_breaks_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def check_limits(host: Host) -> Iterator[Finding]:
        yield Finding("limits", "ok", "so far")
        raise KeyError("Uid")

    def check_ssh(host: Host) -> Iterator[Finding]:
        yield from ()
        raise StartError("ssh is odd")

    def check_gdb(host: Host) -> Iterator[Finding]:
        yield Finding("GDB", "ok", host.gdb)

    with_checks(monkeypatch, check_limits, check_ssh, check_gdb)
    assert list(doctor.examine(Host(gdb="mine"))) == [
        Finding("limits", "ok", "so far"),
        Finding("limits", "warning", "cannot be examined: KeyError: 'Uid'"),
        Finding("ssh", "warning", "ssh is odd"),
        Finding("GDB", "ok", "mine"),
    ]


def test_every_check_goes_on_with_nothing_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The host has no program in PATH, no /proc and no home."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    host = Host(gdb="gdb", proc=tmp_path, environment={"PATH": str(tmp_path)})
    findings = list(doctor.examine(host))
    assert {each.topic for each in findings} >= {"Python", "GDB", "tracing", "launcher", "ssh"}
    problems = {each.topic for each in findings if each.verdict == "problem"}
    assert {"GDB", "launcher"} <= problems
    assert all("\n" not in each.message + each.remedy for each in findings)
    assert all(each.remedy for each in findings if each.verdict == "problem")


# -- our own side ------------------------------------------------------------------------------


def test_packages_that_are_missing_or_old(monkeypatch: pytest.MonkeyPatch) -> None:
    required = ["msgspec>=999.1", "no-such-thing>=1", "pyroaring>=0.4", 'mypy; extra == "check"']
    monkeypatch.setattr("importlib.metadata.requires", lambda name: required)
    found = made(doctor_checks.check_python)[-1]
    assert (found.topic, found.verdict) == ("packages", "problem")
    assert "msgspec is " in found.message and "at least 999.1 is needed" in found.message
    assert "no-such-thing is not installed" in found.message
    assert "pyroaring" not in found.message and "mypy" not in found.message
    assert found.remedy == f"{sys.executable} -m pip install --upgrade pgdb-mpi"


def test_another_pgdb_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = {"pgdb": ["pgdb-mpi", "PyGreSQL"]}
    monkeypatch.setattr("importlib.metadata.packages_distributions", lambda: owners)
    (found,) = (each for each in made(doctor_checks.check_python) if each.verdict == "warning")
    assert "PyGreSQL" in found.message and "uninstall PyGreSQL" in found.remedy


def script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="ascii")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_gdb_that_is_too_old_or_has_no_python(tmp_path: Path) -> None:
    old = script(tmp_path / "old", "echo 'GNU gdb (GDB) 9.2'")
    found = only(made(doctor_checks.check_gdb, Host(gdb=str(old))))
    assert (found.verdict, "9.2" in found.message) == ("problem", True)
    bare = script(tmp_path / "bare", 'test "$1" = --version && echo "GNU gdb (GDB) 14.1" || exit 1')
    found = only(made(doctor_checks.check_gdb, Host(gdb=str(bare))))
    assert (found.verdict, "no Python" in found.message) == ("warning", True)
    found = only(made(doctor_checks.check_gdb, Host(gdb="no-such-gdb")))
    assert found.verdict == "problem" and "--gdb" in found.remedy


@pytest.mark.parametrize(
    ("version", "flags", "warns"),
    [
        ("13.1", "fpu amx_tile avx", True),
        ("14.1", "fpu amx_tile avx", False),
        ("13.1", "fpu avx", False),
    ],
)
def test_gdb_that_cannot_write_the_registers_of_this_processor(
    tmp_path: Path, version: str, flags: str, warns: bool
) -> None:
    gdb = script(
        tmp_path / "gdb", f'test "$1" = --version && echo "GNU gdb (GDB) {version}" || echo 42'
    )
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: {flags} xsave\n")
    first, *others = made(doctor_checks.check_gdb, Host(gdb=str(gdb), proc=tmp_path))
    assert first.verdict == "ok"
    assert [(each.verdict, "vector registers" in each.message) for each in others] == [
        ("warning", True)
    ] * warns


# -- the kernel --------------------------------------------------------------------------------


def kernel(directory: Path, *, scope: int | None = None, seccomp: int = 0, cap: int = 0) -> Path:
    """Make a /proc with the files that govern tracing."""
    (directory / "self").mkdir(parents=True)
    status = (
        f"Name:\tpgdb\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t{cap:016x}\nSeccomp:\t{seccomp}\n"
    )
    (directory / "self" / "status").write_text(status)
    if scope is not None:
        yama = directory / "sys" / "kernel" / "yama"
        yama.mkdir(parents=True)
        (yama / "ptrace_scope").write_text(f"{scope}\n")
    return directory


NOTHING = dict.fromkeys(ALL_WORKS, NOT_PERMITTED)
NO_ATTACH = NOTHING | {"launched": 0}


@pytest.mark.parametrize(
    ("scope", "seccomp", "tried", "verdict", "reported", "remedy"),
    [
        (0, 0, ALL_WORKS, "ok", "absent", ""),
        (None, 2, ALL_WORKS, "ok", "absent", ""),
        (1, 2, NOTHING, "problem", "seccomp", "--cap-add=SYS_PTRACE"),
        (1, 0, NO_ATTACH, "warning", "descendants only", "or start the job with pgdb launch"),
        (2, 0, NOTHING, "problem", "only CAP_SYS_PTRACE", "run pgdb as root"),
        (3, 0, NOTHING, "problem", "until the next boot", "another host"),
        (0, 2, NOTHING, "problem", "seccomp", "--cap-add=SYS_PTRACE"),
        (None, 0, NOTHING, "problem", "EPERM", "whoever set up"),
    ],
)
def test_what_governs_tracing(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    scope: int | None,
    seccomp: int,
    tried: Mapping[str, int],
    verdict: str,
    reported: str,
    remedy: str,
) -> None:
    monkeypatch.setattr(doctor_checks, "_try_tracing_apart", lambda: tried)
    proc = kernel(tmp_path, scope=scope, seccomp=seccomp)
    found = only(made(doctor_checks.check_tracing, Host(proc=proc)))
    assert (found.topic, found.verdict) == ("tracing", verdict)
    assert reported in found.message
    assert remedy in found.remedy and bool(remedy) == bool(found.remedy)


def test_the_capability_beats_yama(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor_checks, "_try_tracing_apart", lambda: ALL_WORKS)
    proc = kernel(tmp_path, scope=2, cap=CAP_SYS_PTRACE)
    found = only(made(doctor_checks.check_tracing, Host(proc=proc)))
    assert "CAP_SYS_PTRACE" in found.message and found.verdict == "ok"


def test_a_filter_beats_the_capability(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor_checks, "_try_tracing_apart", lambda: NOTHING)
    proc = kernel(tmp_path, scope=1, cap=CAP_SYS_PTRACE, seccomp=2)
    found = only(made(doctor_checks.check_tracing, Host(proc=proc)))
    assert "seccomp" in found.message and found.verdict == "problem"


def grouped(tmp_path: Path, text: str | None) -> Path:
    """Return a /proc with the kernel's setting for groups by session; None: without one."""
    if text is not None:
        (tmp_path / "sys" / "kernel").mkdir(parents=True)
        (tmp_path / "sys" / "kernel" / "sched_autogroup_enabled").write_text(text)
    return tmp_path


@pytest.mark.parametrize("text", [None, "0\n"])
def test_without_groups_the_scheduler_is_not_tried(tmp_path: Path, text: str | None) -> None:
    def refuse() -> Starvation:
        raise AssertionError("tried")

    host = Host(proc=grouped(tmp_path, text))
    found = only([*doctor_scheduler.check_scheduling(host, refuse)])
    assert (found.topic, found.verdict, found.remedy) == ("scheduling", "ok", "")


@pytest.mark.parametrize(
    ("quiet_s", "loaded_s", "verdict"),
    [
        (0.002, 0.004, "ok"),
        (0.002, 0.299, "ok"),
        (0.002, 0.8, "warning"),
        # A machine that is as slow without the load says nothing of the load.
        (0.2, 1.9, "ok"),
        (0.2, 2.0, "warning"),
    ],
)
def test_starved_sessions_are_a_warning_with_its_remedy(
    tmp_path: Path, quiet_s: float, loaded_s: float, verdict: str
) -> None:
    trial = Starvation(quiet_s, loaded_s)
    host = Host(proc=grouped(tmp_path, "1\n"))
    found = only([*doctor_scheduler.check_scheduling(host, lambda: trial)])
    assert (found.topic, found.verdict) == ("scheduling", verdict)
    is_warning = verdict == "warning"
    assert ("sysctl -w kernel.sched_autogroup_enabled=0" in found.remedy) == is_warning
    assert not is_warning or f"{loaded_s:.1f} s" in found.message


@pytest.mark.slow
def test_the_trial_of_the_scheduler_is_made_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = f"{os.getpid()}-starvation"
    monkeypatch.setenv("PGDB_TEST_TRIAL", mark)
    found = only(made(doctor_scheduler.check_scheduling, Host(proc=grouped(tmp_path, "1\n"))))
    assert found.topic == "scheduling" and " s" in found.message
    wait_until(lambda: not processes_with(f"PGDB_TEST_TRIAL={mark}").keys() - {os.getpid()}, "end")


def test_memory_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor_checks, "_try_tracing_apart", lambda: ALL_WORKS | {"memory": 13})
    found = made(doctor_checks.check_tracing, Host(proc=kernel(tmp_path)))[-1]
    assert (found.topic, found.verdict) == ("memory", "warning")
    assert "EACCES" in found.message


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ("rw", "ok"),
        ("rw,hidepid=0", "ok"),
        ("rw,hidepid=2", "note"),
        ("rw,hidepid=invisible", "note"),
        ("rw,hidepid=4,gid=7", "warning"),
        ("rw,hidepid=ptraceable", "warning"),
    ],
)
def test_hidden_processes(tmp_path: Path, options: str, verdict: str) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mountinfo").write_text(
        "21 20 0:20 / /sys rw,relatime - sysfs sysfs rw\n"
        f"22 20 0:21 / /proc rw,nosuid shared:5 - proc proc {options}\n"
        "90 20 0:21 / /chroot/proc rw - proc proc rw,hidepid=4\n"
    )
    assert only(made(doctor_checks.check_proc, Host(proc=tmp_path))).verdict == verdict


def test_limits_that_are_low(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for pid in (7, 8):
        (tmp_path / str(pid)).mkdir()
        status = f"Uid:\t{os.getuid()}\t0\t0\t0\nThreads:\t150\n"
        (tmp_path / str(pid) / "status").write_text(status)
    low = {resource.RLIMIT_NOFILE: (256, 512), resource.RLIMIT_NPROC: (400, 400)}
    monkeypatch.setattr(resource, "getrlimit", low.__getitem__)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    files, processes, note = made(doctor_checks.check_limits, Host(proc=tmp_path))
    assert (files.verdict, "limits.conf" in files.remedy) == ("warning", True)
    assert files.message.startswith("512 open files")
    assert processes.verdict == "warning"
    assert "400 processes and threads, of which you have 300" in processes.message
    assert note.message == "512 open files, 400 processes"
    low[resource.RLIMIT_NOFILE] = (256, 4096)
    assert only(made(doctor_checks.check_limits, Host(proc=tmp_path))[1:]).verdict == "note"


# -- launchers ---------------------------------------------------------------------------------

IS_OPEN_MPI = 'test "$1" = --version && { echo "mpirun (Open MPI) 4.1.99"; exit 0; }'
RUNS_TWICE = (
    'while test "$1" != "-n"; do shift; done; shift 2',
    '"$@"',
    '"$@"',
)


def launchers(monkeypatch: pytest.MonkeyPatch, directory: Path) -> Host:
    monkeypatch.setenv("PATH", str(directory))
    allowed = dict.fromkeys(doctor_launchers.ROOT_VARIABLES, "1")
    return Host(environment={"PATH": str(directory), **allowed})


def test_mpi4py_that_does_not_come_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(tmp_path / "mpirun", IS_OPEN_MPI, "echo 'it is broken'", "echo -----------", "exit 3")
    found = only(made(doctor_launchers.check_launchers, launchers(monkeypatch, tmp_path)))
    assert (found.topic, found.verdict) == ("Open MPI 4.1.99", "warning")
    assert found.message == f"{tmp_path}/mpirun; mpi4py does not come up with it: it is broken"
    assert "--wire-up direct" in found.remedy


def test_another_mpi_than_the_launchers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(tmp_path / "mpirun", IS_OPEN_MPI, *RUNS_TWICE)
    monkeypatch.setattr(doctor_launchers, "MPI_PROGRAM", "print('pgdb-size 1')")
    found = only(made(doctor_launchers.check_launchers, launchers(monkeypatch, tmp_path)))
    assert "instead of one job of 2 there are 2 of 1" in found.message


def test_a_launcher_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script(tmp_path / "mpirun", IS_OPEN_MPI, f"echo $$ > {pid_file}", "exec /bin/sleep 600")
    monkeypatch.setattr(doctor_launchers, "MPI_TIMEOUT_S", 0.5)
    found = only(made(doctor_launchers.check_launchers, launchers(monkeypatch, tmp_path)))
    assert "no end within 0.5 s" in found.message
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_one_installation_is_tried_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    for name in ("mpirun", "mpiexec", "mpirun.openmpi"):
        script(tmp_path / name, IS_OPEN_MPI, f"echo {name} >> {calls}", "exit 1")
    made(doctor_launchers.check_launchers, launchers(monkeypatch, tmp_path))
    assert calls.read_text().split() == ["mpirun"]


def test_launchers_that_we_do_not_know(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(tmp_path / "mpirun", "echo 'mpirun of nobody'")
    script(tmp_path / "mpiexec.gforker", "exit 1")
    reported, problem = made(doctor_launchers.check_launchers, launchers(monkeypatch, tmp_path))
    assert "mpirun of nobody" in reported.message and "by its pids" in reported.remedy
    assert problem.verdict == "problem" and "PATH" in problem.message


def test_root_is_shown_what_open_mpi_wants(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(tmp_path / "mpirun", IS_OPEN_MPI, *RUNS_TWICE)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    launchers(monkeypatch, tmp_path)
    host = Host(environment={"PATH": str(tmp_path)})
    found = made(doctor_launchers.check_launchers, host)[-1]
    assert found.remedy.startswith("export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "for root" not in made(doctor_launchers.check_launchers, host)[-1].message


@pytest.mark.parametrize(
    ("sinfo", "srun", "verdict", "reported"),
    [
        ("exit 1", "", "warning", "no answer"),
        ("echo 4 idle", "echo --overlap", "ok", "nodes: 4 idle"),
        ("echo 4 idle", "echo --exclusive", "warning", "no srun --overlap"),
    ],
)
def test_slurm(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    sinfo: str,
    srun: str,
    verdict: str,
    reported: str,
) -> None:
    script(tmp_path / "sinfo", 'test "$1" = --version && { echo "slurm 22.05"; exit; }', sinfo)
    script(tmp_path / "srun", srun)
    found = only(made(doctor_launchers.check_slurm, launchers(monkeypatch, tmp_path)))
    assert found.verdict == verdict
    assert reported in found.message


# -- names, network, disk ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "own", "verdict", "reported"),
    [
        ("10.1.2.3", "10.1.2.3", "ok", "is 10.1.2.3"),
        ("127.0.1.1", "10.1.2.3", "note", "others cannot reach; PGDB gives them 10.1.2.3"),
        ("127.0.0.1", "127.0.0.1", "ok", "is 127.0.0.1"),
        (None, "10.1.2.3", "warning", "has no address"),
    ],
)
def test_the_hosts_name(
    monkeypatch: pytest.MonkeyPatch, address: str | None, own: str, verdict: str, reported: str
) -> None:
    monkeypatch.setattr(addresses, "resolve", lambda host: address)
    monkeypatch.setattr(addresses, "address_towards", lambda hosts: own)
    monkeypatch.setattr(doctor_checks, "_try_connection", lambda address: "")
    found = made(doctor_checks.check_network)[0]
    assert (found.topic, found.verdict) == ("host name", verdict)
    assert reported in found.message


def test_an_address_that_does_not_take_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "address_towards", lambda hosts: "192.0.2.77")
    found = made(doctor_checks.check_network)[-1]
    assert (found.topic, found.verdict) == ("network", "problem")
    assert "192.0.2.77" in found.message and "--listen" in found.remedy


def test_disk_that_is_full(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    host = Host(environment={"XDG_RUNTIME_DIR": str(tmp_path)})
    assert {each.verdict for each in made(doctor_checks.check_disk, host)} == {"ok"}
    monkeypatch.setattr(doctor_checks, "MINIMUM_SPACE_BYTES", 1 << 70)
    session, cache = made(doctor_checks.check_disk, host)
    assert (session.verdict, cache.verdict) == ("warning", "warning")
    assert str(tmp_path) in session.message and "TMPDIR" in session.remedy
    (tmp_path / "cache" / "pgdb").rmdir()
    (tmp_path / "cache" / "pgdb").symlink_to("/tmp")
    assert "is a link" in made(doctor_checks.check_disk, host)[0].message
