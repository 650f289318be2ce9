"""procfs reads a /proc that the test makes, and the real one where the kernel must answer."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdb.jobs import procfs
from pgdb.jobs.rank_environment import RankIdentity, rank_environment


def add_process(
    proc: Path,
    pid: int,
    *,
    ppid: int = 1,
    comm: str = "app",
    state: str = "S",
    flags: int = 0,
    uids: str = "1000 1000 1000 1000",
    tracer: int = 0,
    environ: bytes | None = b"",
    cmdline: bytes = b"",
    threads: dict[int, str] | None = None,
    memory_bytes: int = 0,
    code_start: int = 0,
    environment_end: int = 0,
) -> None:
    directory = proc / str(pid)
    directory.mkdir(parents=True)
    numbers = [str(ppid), "0", "0", "0", "0", str(flags), *["0"] * 12, "4242"]
    numbers += [str(memory_bytes), "0", "0", str(code_start), *["0"] * 24, str(environment_end)]
    (directory / "stat").write_text(f"{pid} ({comm}) {state} {' '.join(numbers)}\n")
    (directory / "status").write_text(
        f"Name:\t{comm}\nTracerPid:\t{tracer}\nUid:\t{uids}\nSigCgt:\t0000000000400002\n"
    )
    if environ is not None:
        (directory / "environ").write_bytes(environ)
    (directory / "cmdline").write_bytes(cmdline)
    for thread, signals in (threads or {}).items():
        (directory / "task" / str(thread)).mkdir(parents=True)
        (directory / "task" / str(thread) / "status").write_text(signals)


def add_self(proc: Path, *, uid: int = 1000, capabilities: int = 0) -> None:
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "status").write_text(
        f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nCapEff:\t{capabilities:016x}\n"
    )


def set_yama(proc: Path, scope: int) -> None:
    (proc / "sys" / "kernel" / "yama").mkdir(parents=True)
    (proc / "sys" / "kernel" / "yama" / "ptrace_scope").write_text(f"{scope}\n")


@pytest.fixture
def cat() -> Iterator[subprocess.Popen[bytes]]:
    path = shutil.which("cat")
    assert path is not None
    process = subprocess.Popen(
        [path], stdin=subprocess.PIPE, env={"PMI_RANK": "3", "PMI_SIZE": "4"}
    )
    yield process
    process.kill()
    process.communicate()


def test_a_name_with_brackets_and_spaces_does_not_shift_the_fields(tmp_path: Path) -> None:
    add_process(tmp_path, 70, ppid=7, comm="a) R 1 (b", state="T", tracer=9)
    stat = procfs.read_stat(70, tmp_path)
    assert stat is not None
    assert (stat.ppid, stat.state, stat.comm) == (7, "T", "a) R 1 (b")
    assert (stat.start_time_ticks, stat.uid, stat.tracer_pid) == (4242, 1000, 9)
    assert not stat.is_kernel_thread and not stat.has_ended


def test_descendants_come_parents_first_and_without_strangers(tmp_path: Path) -> None:
    for pid, ppid in ((2, 1), (3, 1), (4, 9), (9, 2), (5, 4)):
        add_process(tmp_path, pid, ppid=ppid)
    (tmp_path / "meminfo").write_text("")
    assert procfs.all_pids(tmp_path) == [2, 3, 4, 5, 9]
    assert procfs.children(1, tmp_path) == [2, 3]
    assert procfs.descendants(2, tmp_path) == [9, 4, 5]


def test_what_is_gone_is_none_and_never_an_error(tmp_path: Path) -> None:
    assert procfs.read_stat(7, tmp_path) is None
    assert procfs.environment(7, tmp_path) is None
    assert procfs.command_line(7, tmp_path) is None
    assert procfs.executable(7, tmp_path) is None
    assert procfs.pending_signals(7, tmp_path) is None
    assert procfs.caught_signals(7, tmp_path) is None
    assert procfs.listening_ports(7, tmp_path) is None
    assert procfs.blocked_in_all_threads(7, signal.SIGUSR1, tmp_path) is False
    assert procfs.children(7, tmp_path) == []
    assert procfs.why_not_traceable(7, tmp_path) == "process 7 has ended"


def test_environment_keeps_values_with_equals_signs_and_the_first_of_two(tmp_path: Path) -> None:
    add_process(tmp_path, 7, environ=b"A=1=2\0B=\xff\0junk\0A=3\0EMPTY=\0")
    assert procfs.environment(7, tmp_path) == {
        "A": "1=2",
        "B": os.fsdecode(b"\xff"),
        "EMPTY": "",
    }


def test_a_variable_that_is_cut_off_is_none(tmp_path: Path) -> None:
    add_process(tmp_path, 7, environ=b"PMI_SIZE=16\0PMI_RANK=1")
    assert procfs.environment(7, tmp_path) == {"PMI_SIZE": "16"}
    add_process(tmp_path, 8, environ=b"PMI_RANK=1")
    assert procfs.environment(8, tmp_path) == {}


def test_an_environment_that_an_exec_cuts_off_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = b"A=" + b"x" * (1 << 18) + b"\0PMI_RANK=12\0"
    add_process(tmp_path, 7, environ=whole[:-2], memory_bytes=1, code_start=1)
    environ = tmp_path / "7" / "environ"
    read = procfs._read_at_once

    def read_and_finish(path: str) -> bytes | None:
        data = read(path)
        environ.write_bytes(whole)
        return data

    monkeypatch.setattr(procfs, "_read_at_once", read_and_finish)
    assert (procfs.environment(7, tmp_path) or {})["PMI_RANK"] == "12"


@pytest.mark.parametrize(
    ("code_start", "environment_end"), [(0, 0), (1, 9)], ids=["before", "after"]
)
def test_a_process_that_is_executing_a_program_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code_start: int, environment_end: int
) -> None:
    # The old memory is gone, and reads as empty, once the new program's is complete.
    add_process(
        tmp_path,
        7,
        memory_bytes=4096,
        code_start=code_start,
        environment_end=environment_end,
    )
    naps = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            (tmp_path / "7" / "environ").write_bytes(b"PMI_RANK=12\0")

    monkeypatch.setattr(time, "sleep", nap)
    assert procfs.environment(7, tmp_path) == {"PMI_RANK": "12"}
    assert len(naps) == 3


def test_nobody_is_waited_for_who_executes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("waits"))
    add_process(tmp_path, 7, state="Z")
    add_process(tmp_path, 8, memory_bytes=4096, code_start=0x400000)
    assert procfs.environment(7, tmp_path) == {}
    assert procfs.environment(8, tmp_path) == {}


def test_command_line_keeps_empty_arguments(tmp_path: Path) -> None:
    add_process(tmp_path, 7, cmdline=b"./app\0\0x y\0")
    assert procfs.command_line(7, tmp_path) == ["./app", "", "x y"]
    add_process(tmp_path, 8)
    assert procfs.command_line(8, tmp_path) == []


def test_words_without_an_end_are_cut_off(tmp_path: Path) -> None:
    endless = b"x" * (20 << 20)
    add_process(tmp_path, 7, cmdline=b"mpirun\0" + endless, environ=b"A=1\0B=" + endless)
    line = procfs.command_line(7, tmp_path)
    assert line is not None and line[0] == "mpirun" and len(line[1]) < 6 << 20
    assert procfs.environment(7, tmp_path) == {"A": "1"}


def test_the_executable_of_a_deleted_file_keeps_its_name(tmp_path: Path) -> None:
    add_process(tmp_path, 7)
    (tmp_path / "7" / "exe").symlink_to("/opt/my app (deleted)")
    assert procfs.executable(7, tmp_path) == "/opt/my app"


def test_signals_are_gathered_from_all_threads(tmp_path: Path) -> None:
    shared = f"ShdPnd:\t{1 << (signal.SIGTERM - 1):016x}\n"
    urgent = f"SigPnd:\t{1 << (signal.SIGURG - 1):016x}\n"
    none = "SigPnd:\t0000000000000000\n"
    blocked = f"SigBlk:\t{1 << (signal.SIGURG - 1) | 1 << (signal.SIGUSR1 - 1):016x}\n"
    only_urgent = f"SigBlk:\t{1 << (signal.SIGURG - 1):016x}\n"
    add_process(tmp_path, 7, threads={7: none + shared + blocked, 8: urgent + shared + only_urgent})
    assert procfs.pending_signals(7, tmp_path) == {signal.SIGTERM, signal.SIGURG}
    assert procfs.blocked_in_all_threads(7, signal.SIGURG, tmp_path)
    assert not procfs.blocked_in_all_threads(7, signal.SIGUSR1, tmp_path)
    assert procfs.caught_signals(7, tmp_path) == {signal.SIGINT, signal.SIGURG}


def test_ignored_signals_are_handled_ones(tmp_path: Path) -> None:
    add_process(tmp_path, 7)
    with (tmp_path / "7" / "status").open("a") as status:
        status.write(f"SigIgn:\t{1 << (signal.SIGPIPE - 1):016x}\n")
    assert procfs.handled_signals(7, tmp_path) == {signal.SIGINT, signal.SIGURG, signal.SIGPIPE}
    assert procfs.handled_signals(8, tmp_path) is None


def test_the_own_number_in_a_container_is_the_innermost_one(tmp_path: Path) -> None:
    add_process(tmp_path, 7)
    assert procfs.own_number(7, tmp_path) == 7
    with (tmp_path / "7" / "status").open("a") as status:
        status.write("NSpid:\t7\t21\t3\n")
    assert procfs.own_number(7, tmp_path) == 3


def test_signals_of_a_real_process_are_those_the_kernel_shows() -> None:
    code = (
        "import signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGURG})\n"
        "signal.signal(signal.SIGUSR1, lambda *_: None)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert procfs.pending_signals(process.pid) == set()
        process.send_signal(signal.SIGURG)
        assert procfs.pending_signals(process.pid) == {signal.SIGURG}
        assert procfs.blocked_in_all_threads(process.pid, signal.SIGURG)
        assert not procfs.blocked_in_all_threads(process.pid, signal.SIGUSR1)
        assert signal.SIGUSR1 in (procfs.caught_signals(process.pid) or set())
    finally:
        process.kill()
        process.communicate()


def test_a_real_child_is_described(cat: subprocess.Popen[bytes]) -> None:
    stat = procfs.read_stat(cat.pid)
    assert stat is not None
    assert (stat.ppid, stat.comm, stat.uid) == (os.getpid(), "cat", os.geteuid())
    assert cat.pid in procfs.children(os.getpid())
    path = shutil.which("cat")
    assert path is not None
    assert procfs.executable(cat.pid) == os.path.realpath(path)
    assert procfs.command_line(cat.pid) == [path]
    assert procfs.why_not_traceable(cat.pid) is None


def test_a_real_zombie_has_ended_and_no_environment() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    stat = procfs.read_stat(process.pid)
    assert stat is not None and stat.has_ended
    assert not procfs.environment(process.pid)
    assert procfs.command_line(process.pid) == []
    process.wait()
    assert procfs.read_stat(process.pid) is None


def test_only_ports_that_listen_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        ports = procfs.listening_ports(os.getpid())
        assert ports is not None
        assert server.getsockname()[1] in ports
        assert silent.getsockname()[1] not in ports


def test_yama_is_off_where_the_kernel_has_none(tmp_path: Path) -> None:
    assert procfs.yama_scope(tmp_path) == 0
    set_yama(tmp_path, 2)
    assert procfs.yama_scope(tmp_path) == 2


def test_a_process_of_ours_is_traceable(tmp_path: Path) -> None:
    add_self(tmp_path)
    add_process(tmp_path, 7)
    assert procfs.why_not_traceable(7, tmp_path) is None


def test_another_users_process_wants_that_user_or_the_capability(tmp_path: Path) -> None:
    add_self(tmp_path)
    add_process(tmp_path, 7, comm="solver", uids="54321 54321 54321 54321")
    assert procfs.why_not_traceable(7, tmp_path) == (
        "7 (solver) belongs to user 54321; run pgdb as that user or with CAP_SYS_PTRACE"
    )
    shutil.rmtree(tmp_path / "self")
    add_self(tmp_path, capabilities=1 << 19)
    assert procfs.why_not_traceable(7, tmp_path) is None


def test_a_traced_process_names_its_tracer(tmp_path: Path) -> None:
    add_self(tmp_path, capabilities=1 << 19)
    add_process(tmp_path, 7, tracer=8)
    add_process(tmp_path, 8, comm="strace")
    reason = procfs.why_not_traceable(7, tmp_path)
    assert reason is not None and "already traced by 8 (strace)" in reason


def test_kernel_threads_and_zombies_cannot_be_traced(tmp_path: Path) -> None:
    add_self(tmp_path, capabilities=1 << 19)
    add_process(tmp_path, 2, comm="kthreadd", flags=0x00200000)
    add_process(tmp_path, 7, state="Z")
    reason = procfs.why_not_traceable(2, tmp_path)
    assert reason is not None and "thread of the kernel" in reason
    assert procfs.why_not_traceable(7, tmp_path) == "process 7 has ended"


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
    reason = procfs.why_not_traceable(7, tmp_path)
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
    assert procfs.why_not_traceable(child, tmp_path) is None


def test_a_process_that_is_not_dumpable_is_distinguished_from_one_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_self(tmp_path)
    add_process(tmp_path, 7, comm="solver")

    def readlink(path: Path) -> str:
        raise PermissionError(path)

    monkeypatch.setattr(os, "readlink", readlink)
    assert procfs.is_closed(7, tmp_path) and not procfs.is_closed(8, tmp_path)
    reason = procfs.why_not_traceable(7, tmp_path)
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
    reason = procfs.why_not_traceable(7, tmp_path)
    assert reason is not None and f"chmod {whose}+r {program}" in reason


def test_a_set_user_id_program_is_distinguished_from_another_users(tmp_path: Path) -> None:
    add_self(tmp_path)
    add_process(tmp_path, 7, comm="solver", uids="1000 54321 54321 54321")
    reason = procfs.why_not_traceable(7, tmp_path)
    assert reason is not None and "set-user-ID" in reason


def test_the_tracer_of_the_caller_is_no_obstacle(tmp_path: Path) -> None:
    add_self(tmp_path)
    add_process(tmp_path, 7, tracer=8)
    add_process(tmp_path, 8, comm="gdb")
    assert procfs.why_not_traceable(7, tmp_path, tracer=8) is None


def test_the_environment_of_a_real_child_is_its_rank(cat: subprocess.Popen[bytes]) -> None:
    environment = procfs.environment(cat.pid)
    assert environment is not None
    assert rank_environment(environment) == RankIdentity(3, 4, None, None, None)


def test_mapped_files_are_those_with_a_path(tmp_path: Path) -> None:
    add_process(tmp_path, 70)
    (tmp_path / "70" / "maps").write_text(
        "5581-5582 r-xp 00000000 08:01 1234       /opt/my app/solver\n"
        "5582-5583 rw-p 00001000 08:01 1234       /opt/my app/solver\n"
        "7f01-7f02 r-xp 00000000 08:01 99         /lib/libmpi.so.40 (deleted)\n"
        "7f03-7f04 rw-p 00000000 00:00 0 \n"
        "7ffd-7ffe rw-p 00000000 00:00 0          [stack]\n"
    )
    assert procfs.mapped_files(70, tmp_path) == {
        "/opt/my app/solver",
        "/lib/libmpi.so.40 (deleted)",
    }
    assert procfs.mapped_files(71, tmp_path) == frozenset()
    assert os.path.realpath(sys.executable) in procfs.mapped_files(os.getpid())


def test_a_process_with_another_host_name_is_elsewhere(tmp_path: Path) -> None:
    for name, namespace in (("self", 1), ("70", 1), ("71", 2)):
        (tmp_path / name / "ns").mkdir(parents=True)
        (tmp_path / name / "ns" / "uts").symlink_to(f"uts:[{namespace}]")
    # If the kernel hides it, as for another user's process, the process counts as one of this host.
    assert [procfs.on_this_host(pid, tmp_path) for pid in (70, 71, 72)] == [True, False, True]
    assert procfs.on_this_host(os.getpid())


@pytest.mark.parametrize(
    "name",
    ["mpirun", "mpiexec.hydra", "mpirun.openmpi", "mpirun_rsh", "srun-wlm", "orterun", "prun"],
)
def test_names_of_launchers(name: str) -> None:
    assert procfs.is_launcher_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "mpirunner", "xmpirun", "mpirun.sh", "srun.py", "mpiexec.bash", "mpirun.x.csh", "prte"],
)
def test_names_of_other_programs(name: str) -> None:
    assert not procfs.is_launcher_name(name)
