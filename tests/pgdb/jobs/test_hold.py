"""The hold program as a launcher runs it, without MPI: held ranks report and are released."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdb.jobs import hold
from tests.support.hold_sessions import DEADLINE_S, HoldSession, comm, finish, read_report, release


@pytest.fixture
def session() -> Iterator[HoldSession]:
    session = HoldSession()
    yield session
    session.close()


stranger = session
"""Another session on the same host."""


def test_a_held_rank_runs_its_program_when_it_is_released(session: HoldSession) -> None:
    process = session.start("echo", "hello")
    session.wait_held()
    assert comm(process) == hold.HELD_NAME
    assert process.poll() is None
    assert release(process) == b"hello\n"


def test_it_is_the_same_process(session: HoldSession) -> None:
    process = session.start("sh", "-c", "echo $$")
    session.wait_held()
    assert int(release(process)) == process.pid


def test_it_runs_its_program_after_the_deadline(session: HoldSession) -> None:
    process = session.start("echo", "hello", seconds="0.3")
    session.wait_held()
    assert finish(process) == b"hello\n"  # nobody has released it


@pytest.mark.slow
def test_it_runs_its_program_when_the_front_end_goes_away(session: HoldSession) -> None:
    process = session.start("echo", "hello")
    with session.accept():
        session.wait_held()
        assert process.poll() is None
    assert finish(process) == b"hello\n"


def test_what_the_front_end_says_is_no_release(session: HoldSession) -> None:
    process = session.start("echo", "hello")
    with session.accept() as link:
        session.wait_held()
        link.sendall(b"x" * 200)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.3)
        assert release(process) == b"hello\n"


@pytest.mark.slow
def test_a_front_end_that_cannot_be_reached_leaves_the_rank_to_the_aggregator(
    session: HoldSession,
) -> None:
    session.front_end.close()
    process = session.start("echo", "hello", address="127.0.0.1:1")
    session.wait_held()
    assert release(process) == b"hello\n"


def test_it_is_said_that_a_front_end_cannot_be_reached(session: HoldSession) -> None:
    process = session.start("echo", "hello", rank=4, address="127.0.0.1:1,[::1]:1", size=8)
    # This is not the first rank of its host, so it reports nothing and is held.
    session.wait_held()
    release(process)
    environment = {**os.environ, "PMI_RANK": "4", "PMI_SIZE": "8"}
    environment |= {"MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}
    process = session.start("echo", "hello", address="127.0.0.1:1,[::1]:1", environment=environment)
    output, errors = process.communicate(timeout=DEADLINE_S)
    assert output == b"hello\n"
    assert errors.decode() == (
        f"pgdb: rank 4 on {os.uname().nodename} cannot reach the front end at 127.0.0.1:1, "
        "[::1]:1; the ranks of this host run on undebugged; --listen ADDRESS names an address "
        "that they can reach\n"
    )


def test_the_addresses_of_the_front_end_are_tried_in_order(session: HoldSession) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        other.settimeout(DEADLINE_S)
        port = other.getsockname()[1]
        for address in (
            f"[::1]:{port}",
            f"::1:{port}",
            f"no.such.host.invalid:{port},[::1]:{port}",
        ):
            process = session.start("true", address=f"127.0.0.1:1,{address},{session.address}")
            link, _ = other.accept()
            with link:
                link.settimeout(DEADLINE_S)
                assert read_report(link).split(b"\0")[2:4] == [b"0", b"4"]
                session.wait_held()
                release(process)


@pytest.mark.slow
def test_an_address_that_does_not_answer_is_given_up(session: HoldSession) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as silent:
        # The queue of the listener is full, so the kernel does not answer a further connection.
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(silent.getsockname())
        deaf = f"127.0.0.1:{silent.getsockname()[1]}"
        process = session.start("true", address=f"{deaf},{session.address}")
        with session.accept():  # the next address gets the report
            release(process)
        for each in waiting:
            each.close()


def test_a_rank_without_an_aggregator_yet_is_held_all_the_same(session: HoldSession) -> None:
    session.collector.close()
    process = session.start("echo", "hello")
    with session.accept() as link:
        assert link.recv(1)  # it has reported
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.3)
        assert release(process) == b"hello\n"


def test_a_release_that_comes_twice_does_not_hit_the_program(session: HoldSession) -> None:
    for _ in range(10):
        process = session.start("echo", "alive")
        session.wait_held()
        os.kill(process.pid, signal.SIGSTOP)  # both are pending when it goes on
        process.send_signal(hold.RELEASE)
        process.send_signal(hold.RELEASE)
        os.kill(process.pid, signal.SIGCONT)
        assert finish(process) == b"alive\n"


def test_a_release_that_comes_too_late_does_not_hit_the_program(
    session: HoldSession, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = session.start("cat", str(fifo))
    session.wait_held()
    process.send_signal(hold.RELEASE)
    with fifo.open("wb") as words:  # the program has begun when it opens the other end
        process.send_signal(hold.RELEASE)
        words.write(b"alive\n")
    assert finish(process) == b"alive\n"


def test_the_size_of_a_terminal_is_no_release(session: HoldSession) -> None:
    ours, terminal = os.openpty()

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

    process = session.start("echo", "hello", preexec=take_terminal)
    try:
        session.wait_held()
        status = Path(f"/proc/{process.pid}/status")
        for rows in range(1, 40):
            fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("4H", rows, 80, 0, 0))
            until = time.monotonic() + DEADLINE_S
            while process.poll() is None and not is_idle(status.read_text()):
                assert time.monotonic() < until
        assert process.poll() is None
        assert comm(process) == hold.HELD_NAME
        assert release(process) == b"hello\n"
    finally:
        os.close(ours)
        os.close(terminal)


def is_idle(status: str) -> bool:
    """Return whether a process sleeps and has received the signals sent to it."""
    return "State:\tS" in status and "ShdPnd:\t0000000000000000" in status


def test_the_reports_say_who_is_held_where_with_what(session: HoldSession, tmp_path: Path) -> None:
    process = session.start("prog ram", "one", "", "t w o\n2\n", rank=0, cwd=tmp_path)
    with session.accept() as link:
        reported = read_report(link)
    expected = [session.mark, "0", "4", "0", "4", str(process.pid), os.uname().nodename, "", ""]
    expected += [str(tmp_path.resolve()), "prog ram", "one", "", "t w o\n2\n"]
    assert session.wait_held() == expected
    code, nonce, *fields = reported.split(b"\0")
    assert b"\0".join(fields).decode() == "\0".join([*expected[1:9], "prog ram"])
    assert len(bytes.fromhex(nonce.decode())) == 16
    # A report read on the network does not help to make another one.
    assert session.mark.encode() not in reported
    assert code == hold.authentication(session.mark, reported[len(code) + 1 :])
    assert code != hold.authentication(session.mark[:-1] + "x", reported[len(code) + 1 :])


def test_no_two_reports_are_equal() -> None:
    fields = ["0", "1", "0", "1", "4711", "node1", "", "", "./app"]
    assert len({hold.report("pgdb-mark", fields) for _ in range(8)}) == 8
    assert hold.report("pgdb-mark", fields, "00") == hold.report("pgdb-mark", fields, "00")


def test_the_reports_say_what_slurm_calls_the_host_and_the_job(session: HoldSession) -> None:
    environment = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0"}
    environment |= {"SLURMD_NODENAME": "node7", "SLURM_JOB_ID": "4711"}
    process = session.start("true", environment=environment)
    assert session.wait_held()[6:9] == [os.uname().nodename, "node7", "4711"]
    release(process)


def test_only_the_first_rank_of_a_host_reports_to_the_front_end(session: HoldSession) -> None:
    process = session.start("true", rank=1)
    assert session.wait_held()[1:5] == ["1", "4", "1", "4"]
    session.front_end.settimeout(0.2)
    with pytest.raises(TimeoutError):
        session.front_end.accept()
    release(process)


@pytest.mark.parametrize(
    ("environment", "identity"),
    [
        ({}, ["0", "1", "0", "1"]),
        (
            # srun --mpi=pmi2 sets PMI_RANK, but none of hydra's local names.
            {
                "PMI_RANK": "5",
                "PMI_SIZE": "8",
                "SLURM_PROCID": "5",
                "SLURM_LOCALID": "1",
                "SLURM_NODEID": "2",
                "SLURM_STEP_TASKS_PER_NODE": "2(x4)",
            },
            ["5", "8", "1", "2"],
        ),
        (
            {"PMI_RANK": "5", "PMI_SIZE": "9", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "3"},
            ["5", "9", "1", "3"],
        ),
        (
            {
                "OMPI_COMM_WORLD_RANK": "7",
                "OMPI_COMM_WORLD_SIZE": "8",
                "OMPI_COMM_WORLD_LOCAL_RANK": "3",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
                "PMIX_RANK": "7",
                "SLURM_PROCID": "0",
                "SLURM_NTASKS": "1",
            },
            ["7", "8", "3", "4"],
        ),
        (
            {
                "SLURM_PROCID": "2",
                "SLURM_NTASKS": "8",
                "SLURM_LOCALID": "0",
                "SLURM_NODEID": "1",
                "SLURM_STEP_TASKS_PER_NODE": "2(x4)",
            },
            ["2", "8", "0", "2"],
        ),
        ({"PMI_RANK": "5", "PMI_SIZE": "8"}, ["5", "8", "-1", "8"]),
    ],
    ids=["none", "pmi2 in slurm", "hydra", "open mpi in slurm", "slurm", "no local names"],
)
def test_who_a_rank_is(
    session: HoldSession, environment: dict[str, str], identity: list[str]
) -> None:
    process = session.start("true", environment=environment)
    session.collector.settimeout(3.0)
    assert session.wait_held()[1:5] == identity
    release(process)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("4", [4]),
        ("2(x3)", [2, 2, 2]),
        ("2(x3),1", [2, 2, 2, 1]),
        ("1(x2),2", [1, 1, 2]),  # srun -m arbitrary
        ("16,3(x2),16", [16, 3, 3, 16]),
        ("", []),
        ("x", []),
        ("2(x", [2]),
    ],
)
def test_ranks_of_a_node_of_slurm(text: str, counts: list[int]) -> None:
    for node, count in enumerate([*counts, -1]):
        environment = {"SLURM_STEP_TASKS_PER_NODE": text, "SLURM_NODEID": str(node)}
        assert hold.slurm_local_size(environment) == count
    assert hold.slurm_local_size({"SLURM_STEP_TASKS_PER_NODE": "4"}) == -1


def test_the_shares_of_a_host_are_contiguous_and_even() -> None:
    assert [hold.share_of(rank, 8, 3) for rank in range(8)] == [0, 0, 0, 1, 1, 1, 2, 2]
    assert [hold.share_of(rank, 2, 4) for rank in range(2)] == [0, 2]
    assert hold.share_of(0, -1, 4) == 0


def test_a_rank_that_does_not_know_its_place_goes_to_a_share_that_there_is() -> None:
    assert hold.share_of(-1, 8, 4) == 0


def test_each_share_has_an_address_of_its_own() -> None:
    places = {hold.collector_address("m", share, node) for share in (0, 1) for node in ("", "n1")}
    assert len(places) == 4
    assert all(place.startswith("\0pgdb-m-") for place in places)


def test_no_program_is_an_error() -> None:
    line = [sys.executable, "-I", "-S", hold.__file__, "mark", "h:1", "1", "1", "--"]
    done = subprocess.run(line, capture_output=True, check=False, timeout=DEADLINE_S)
    assert done.returncode == 1 and b"no program given" in done.stderr


def test_the_first_rank_wakes_the_others_when_the_front_end_goes_away(
    session: HoldSession, stranger: HoldSession
) -> None:
    others = [session.start("echo", str(rank), rank=rank) for rank in (1, 2, 3)]
    first = session.start("echo", "0", rank=0)
    held_by_another = stranger.start("true", rank=1)
    with session.accept():
        for _ in range(4):
            session.wait_held()
        stranger.wait_held()
    assert [finish(each) for each in (first, *others)] == [b"0\n", b"1\n", b"2\n", b"3\n"]
    assert held_by_another.poll() is None
    release(held_by_another)


def test_an_aggregator_that_does_not_listen_any_more_holds_nobody_for_ever(
    session: HoldSession,
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as full:
        with pytest.raises(BlockingIOError):
            while True:
                full.sendto(b"x", hold.collector_address(session.mark, 0))
    process = session.start("echo", "hello", seconds="0.2")
    output, _ = process.communicate(timeout=3.0)
    assert output == b"hello\n"


def test_an_aggregator_that_is_busy_hears_of_every_rank_all_the_same(session: HoldSession) -> None:
    # The kernel queues 10 datagrams (net.unix.max_dgram_qlen); hosts have more ranks than that.
    count = 16
    ranks = [session.start("true", rank=rank, size=count) for rank in range(count)]
    with session.accept() as link:
        read_report(link)
        until = time.monotonic() + DEADLINE_S
        window = threading.Event()
        while not all(comm(rank) == hold.HELD_NAME for rank in ranks):
            assert time.monotonic() < until
            window.wait(0.01)
        window.wait(0.2)  # the aggregator is busy
        session.collector.settimeout(3.0)
        heard = {int(session.wait_held()[1]) for _ in range(count)}
        assert heard == set(range(count))
        for rank in ranks:
            release(rank)


def test_held_ranks_cost_no_time(session: HoldSession) -> None:
    process = session.start("true")
    session.wait_held()

    def ticks() -> int:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    # A rank that spins uses CPU in every window, a rank that sleeps only in the window of its
    # start.
    window, until = threading.Event(), time.monotonic() + DEADLINE_S
    while True:
        before = ticks()
        window.wait(0.3)
        if ticks() - before <= 1:
            break
        assert time.monotonic() < until
    release(process)
