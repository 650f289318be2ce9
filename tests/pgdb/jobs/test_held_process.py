"""The program of a held rank starts as without the hold: signals, environment, arguments."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgdb.jobs import hold
from tests.support.hold_sessions import DEADLINE_S, HoldSession, finish, read_report, release


@pytest.fixture
def session() -> Iterator[HoldSession]:
    session = HoldSession()
    yield session
    session.close()


STATUS = ("grep", "-E", "^(SigBlk|SigIgn|SigPnd|ShdPnd)", "/proc/self/status")


def plain(*program: str, preexec: Callable[[], None] | None = None) -> bytes:
    """Return the output of a program that is started without being held."""
    return subprocess.run(program, check=True, capture_output=True, preexec_fn=preexec).stdout


def test_mask_and_ignored_signals_are_as_before(session: HoldSession) -> None:
    process = session.start(*STATUS)
    session.wait_held()
    assert release(process) == plain(*STATUS)


def block_some() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {hold.RELEASE, signal.SIGUSR2, signal.SIGALRM})


def test_signals_that_were_blocked_are_blocked_again(session: HoldSession) -> None:
    process = session.start(*STATUS, preexec=block_some)
    session.wait_held()
    status = release(process)
    assert status == plain(*STATUS, preexec=block_some)
    assert b"SigBlk:\t0000000008002800" in status


@pytest.mark.parametrize("trap", ["true", "trap '' PIPE", "trap '' PIPE XFSZ TTIN"])
def test_what_the_launcher_ignores_is_ignored(session: HoldSession, trap: str) -> None:
    # The interpreter changes the setting; its parent, here a shell for the launcher, still has it.
    status = plain("sh", "-c", f"{trap}; cat /proc/self/status").splitlines()
    (wanted,) = (line for line in status if line.startswith(b"SigIgn"))
    held = shlex.join(map(str, session.line("cat", "/proc/self/status")))
    process = session.start_line(["sh", "-c", f"{trap}; {held}; exit $?"])
    pid = int(session.wait_held()[5])
    assert pid != process.pid
    os.kill(pid, hold.RELEASE)
    assert wanted in finish(process).splitlines()
    assert bool(int(wanted.split()[1], 16) >> (signal.SIGPIPE - 1) & 1) == (trap != "true")


def test_the_environment_is_unchanged(session: HoldSession) -> None:
    environment = {
        **os.environ,
        "LC_ALL": "C",
        "EMPTY": "",
        "LINES2": "a\nb",
        "A": "=",
        "PMI_RANK": "0",
    }
    process = session.start("env", "-0", environment=environment)
    session.wait_held()
    got = release(process).rstrip(b"\0").split(b"\0")
    assert got == [f"{name}={value}".encode() for name, value in environment.items()]


def test_an_empty_environment_stays_empty(session: HoldSession) -> None:
    process = session.start("env", "-0", environment={})
    session.wait_held()
    assert release(process) == b""


def test_bytes_that_are_no_text_pass_through_the_environment(session: HoldSession) -> None:
    process = session.start("env", "-0", environment={b"NAME": b"\xff\xfe"})
    session.wait_held()
    assert release(process) == b"NAME=\xff\xfe\0"


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{}, {"LC_ALL": "C.UTF-8"}], ids=["C", "UTF-8"])
def test_bytes_that_are_no_text_pass_through_the_arguments(
    session: HoldSession, environment: dict[str, str]
) -> None:
    process = session.start("echo", b"caf\xe9", environment=environment, seconds="1")
    assert finish(process) == b"caf\xe9\n"


@pytest.mark.slow
def test_a_directory_whose_name_is_no_text(session: HoldSession, tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(odd)
    process = session.start("true", cwd=Path(os.fsdecode(odd)), seconds="1")
    finish(process)


def test_arguments_name_and_directory_are_kept(session: HoldSession, tmp_path: Path) -> None:
    program = ("cat", "/proc/self/cmdline", "-", "", "a b\nc")
    process = session.start(*program, cwd=tmp_path)
    session.wait_held()
    process.send_signal(hold.RELEASE)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert output == b"".join(part.encode() + b"\0" for part in program)
    process = session.start("pwd", "-P", cwd=tmp_path)
    session.wait_held()
    assert release(process).decode().strip() == str(tmp_path.resolve())


def test_no_descriptor_of_ours_is_left_to_the_program(session: HoldSession) -> None:
    process = session.start("ls", "/proc/self/fd")
    with session.accept():
        session.wait_held()
        names = release(process).split()
    assert names == [b"0", b"1", b"2", b"3"]  # the last one is how ls reads the directory


@pytest.mark.parametrize(
    ("name", "mode", "status", "why"),
    [
        ("missing", None, 127, "No such file or directory"),
        ("plain", 0o644, 126, "Permission denied"),
        ("script", 0o755, 127, "its interpreter /no/such/python does not exist"),
    ],
)
def test_a_program_that_cannot_run_ends_as_a_shell_would_end(
    session: HoldSession, tmp_path: Path, name: str, mode: int | None, status: int, why: str
) -> None:
    program = tmp_path / name
    if mode is not None:
        program.write_text("#!/no/such/python -u\n" if name == "script" else "#!/bin/sh\n")
        program.chmod(mode)
    process = session.start(str(program))
    session.wait_held()
    process.send_signal(hold.RELEASE)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == status
    assert errors.decode() == f"pgdb: cannot run {program}: {why}\n"


def test_a_name_that_is_nowhere_in_the_path(session: HoldSession) -> None:
    process = session.start("no-such-program-anywhere")
    session.wait_held()
    process.send_signal(hold.RELEASE)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 127 and b"cannot run no-such-program-anywhere" in errors


def test_the_path_of_the_rank_is_searched(session: HoldSession, tmp_path: Path) -> None:
    program = tmp_path / "only-here"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    process = session.start("only-here", environment={"PATH": f"/nowhere:{tmp_path}:/bin"})
    session.wait_held()
    assert release(process) == b"found\n"


HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}


@pytest.mark.parametrize("by_name", [False, True])
def test_a_script_that_names_no_interpreter(
    session: HoldSession, tmp_path: Path, by_name: bool
) -> None:
    program = tmp_path / "script"
    program.write_text('echo "$0" "$@"\n')
    program.chmod(0o755)
    word = program.name if by_name else str(program)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    process = session.start(word, "a b", environment=HYDRA | path)
    session.wait_held()
    assert release(process) == f"{program} a b\n".encode()
    process = session.start(word, "a b", environment=OPEN_MPI | path)
    session.wait_held()
    process.send_signal(hold.RELEASE)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 126
    assert errors.decode() == f"pgdb: cannot run {word}: Exec format error\n"


def test_a_program_of_very_many_arguments(session: HoldSession) -> None:
    # A datagram cannot be as large; the aggregator finds such a rank in /proc.
    many = [f"argument-{number:050d}" for number in range(8000)]
    process = session.start("echo", *many)
    with session.accept() as link:
        assert read_report(link).endswith(b"\0echo")
        assert release(process) == " ".join(many).encode() + b"\n"
