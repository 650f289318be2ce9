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
from pgdb.jobs.tracing_rights import why_not_traceable
from tests.support.made_proc import add_process


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
    assert why_not_traceable(7, tmp_path) == "process 7 has ended"


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
    assert why_not_traceable(cat.pid) is None


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
