"""The places of the session's key while a session lasts, and the peers that PGDB listens to."""

from __future__ import annotations

import os
import resource
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import pgdb
from pgdb.bootstrap_env import AGGREGATOR_NAME
from tests.conftest import Build, StartJob
from tests.support.hosts import Hosts
from tests.support.jobs import run_job
from tests.support.processes import command_of, processes_with, programs_with
from tests.support.programs import Builder, Mpi, find_mpi
from tests.support.sockets import LISTENING, name_of, sockets_of
from tests.support.terminal import (
    DEADLINE_S,
    MARK,
    PGDB,
    PROMPT,
    FrontEnd,
    Terminal,
    ex,
    leaving_nothing,
    marked,
    run_pgdb,
)

RANKS, AGGREGATORS = 4, 2
RUN = "PGDB_TEST_RUN"
LOOPBACK = "0100007F" if sys.byteorder == "little" else "7F000001"


def key_of(session: pgdb.Session) -> bytes:
    """Return a line of the session's private key, which nothing else has."""
    credentials: bytes = session._session.transport.overlay._credentials
    return credentials.splitlines()[1]


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def tcp_sockets(pid: int) -> dict[str, tuple[str, str]]:
    """Return address and state of the TCP sockets of a process's host, by inode."""
    lines = Path(f"/proc/{pid}/net/tcp").read_text("ascii").splitlines()[1:]
    fields = [line.split() for line in lines]
    return {each[9]: (each[1].partition(":")[0], each[3]) for each in fields}


def check(session: pgdb.Session, ranks: list[int]) -> None:
    key = key_of(session)
    ours = processes_with(f"{RUN}={os.environ[RUN]}").keys() | {os.getpid()}
    assert set(ranks) < ours
    gdbs = [pid for pid in ours if name_of(pid) == "gdb"]
    daemons = [pid for pid in ours if name_of(pid) == AGGREGATOR_NAME]
    assert len(daemons) == AGGREGATORS and gdbs

    for pid in ours:
        assert key not in Path(f"/proc/{pid}/cmdline").read_bytes(), command_of(pid)
        assert key not in environment_of(pid), command_of(pid)

    directory = session._session.ending.files.path
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    files = [each for each in directory.rglob("*") if each.is_file()]
    assert any(each.suffix == ".log" for each in files)
    for each in files:
        assert key not in each.read_bytes(), each

    tcp = tcp_sockets(os.getpid())
    heard = {pid: sockets_of(pid) & tcp.keys() for pid in (os.getpid(), *daemons)}
    assert sum(len(each) for each in heard.values()) > AGGREGATORS
    for pid, sockets in heard.items():
        for inode in sockets:
            address, state = tcp[inode]
            assert state != LISTENING or address == LOOPBACK, (pid, command_of(pid))
    listening = [each for each in heard[os.getpid()] if tcp[each][1] == LISTENING]
    assert len(listening) == 1, "for links alone: that for held ranks is closed by now"
    linked = set().union(*heard.values())
    for pid in (*gdbs, *ranks):
        assert not sockets_of(pid) & linked, "no link is in other hands"


@pytest.mark.mpi
@pytest.mark.any_mpi
@pytest.mark.parametrize("wire_up", ["mpi", "direct"])
def test_the_key_is_in_no_line_environment_or_file(
    wire_up: str, build: Build, start_job: StartJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDB_LOG_LEVEL", "DEBUG")
    with start_job(RANKS, build("storm.c")) as job:
        with pgdb.attach(job.pid, aggregators=AGGREGATORS, wire_up=wire_up) as session:
            check(session, [*job.ranks.values()])


@pytest.mark.mpi
def test_a_launched_job_knows_nothing_of_it(
    mpi: Mpi, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDB_LOG_LEVEL", "DEBUG")
    line = mpi.line(RANKS, build("ring.c"), "1")
    with pgdb.launch(line, aggregators=AGGREGATORS, wire_up="direct") as session:
        check(session, [each.pid for each in session.table.processes])
        session.kill()


def core_limit_of(pid: int) -> str:
    """Return how large a core file a process may leave, as /proc has it."""
    limits = Path(f"/proc/{pid}/limits").read_text("ascii").splitlines()
    (line,) = [each for each in limits if each.startswith("Max core file size")]
    return line.split()[4]


@pytest.mark.mpi
def test_only_what_is_ours_may_leave_no_core_file(mpi: Mpi, build: Build) -> None:
    """The front end has the key, aggregators have it, GDBs are the aggregators'."""
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip("core files are forbidden here already")
    program = build("storm.c")
    with FrontEnd(
        "launch", "--batch", "--json", *ex("p 1", "c"), *mpi.line(2, program),
        stdout=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (8192, 8192)),
    ) as front_end:  # fmt: skip
        mark = front_end.mark
        front_end.wait_answered("print 1")
        assert core_limit_of(front_end.pid) == "1"
        ranks = programs_with(f"{MARK}={mark}", program)
        assert len(ranks) == 2
        assert {core_limit_of(pid) for pid in ranks} == {"8192"}
        gdbs = [pid for pid in marked(mark) if name_of(pid) == "gdb"]
        daemons = [pid for pid in marked(mark) if name_of(pid) == AGGREGATOR_NAME]
        assert gdbs and daemons
        assert {core_limit_of(pid) for pid in (*gdbs, *daemons)} == {"1"}
        front_end.terminate()
        front_end.communicate(timeout=DEADLINE_S)


@pytest.mark.mpi
@pytest.mark.skipif(
    Path("/proc/sys/kernel/core_pattern").read_text("utf-8")[:1] in "|/",
    reason="core files do not go to the working directory here",
)
def test_a_gdb_that_fails_leaves_no_core_file(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    """GDB lifts the limit of core files by itself; PGDB keeps it from that."""
    line = mpi.line(2, build("storm.c"))
    commands = ex("proc 0 maint internal-error on purpose", "p 6 * 7")
    for option in ([], ["--no-nursery"]):
        finished = run_pgdb(
            "launch", "--batch", *option, *commands, *line, cwd=tmp_path,
            changes={"PYTHONPATH": os.getcwd()},
        )  # fmt: skip
        assert "internal-error: on purpose" in finished.out, finished.out + finished.err
        assert "[1] 6 * 7 = 42" in finished.out
        assert list(tmp_path.iterdir()) == []


# -- several hosts -------------------------------------------------------------------------------

PRIVATE_KEY = b"MC4CAQAwBQYDK2VwBCIEI"
"""First characters of every Ed25519 key in a PEM file (RFC 8410): its structure, in base64."""
WAYS = [
    ("openmpi", [], False),
    ("openmpi", ["--connect"], False),
    ("openmpi", ["--wire-up", "direct"], True),
    ("mpich", ["--wire-up", "direct"], True),
    ("mpich", ["--wire-up", "direct", "--connect"], True),
    ("openmpi", ["--overlay-launcher", "ssh"], False),
    ("openmpi", ["--overlay-launcher", "ssh", "--connect"], False),
    ("openmpi", ["--ship"], True),
    ("openmpi", ["--ship", "--overlay-launcher", "ssh"], False),
    ("openmpi", ["--host", "h1"], False),
    ("openmpi", ["--host", "h1", "--ship"], False),
]


def heard_of(pid: int) -> set[str]:
    """Return the addresses at which a process listens, of its own network."""
    tcp = tcp_sockets(pid)
    found = {tcp[inode] for inode in sockets_of(pid) & tcp.keys()}
    return {address for address, state in found if state == LISTENING}


def in_hex(address: str) -> str:
    """Return an address as /proc has it."""
    return f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}"


@pytest.mark.mpi
@pytest.mark.hosts
@pytest.mark.parametrize(("name", "options", "in_environment"), WAYS)
def test_where_the_key_is_with_several_hosts(
    builder: Builder,
    four_hosts: Hosts,
    tmp_path: Path,
    name: str,
    options: list[str],
    in_environment: bool,
) -> None:
    mpi = find_mpi(name)
    program = builder.build(mpi, "storm.c")
    line = four_hosts.command("h1", mpi.line(RANKS, program, hosts=("h1", "h2")))
    # With --host the front end is on another host than the job's launcher.
    front_end = four_hosts.command("h3" if "--host" in options else "h1", PGDB)
    changes = {"XDG_RUNTIME_DIR": str(tmp_path), "PGDB_LOG_LEVEL": "DEBUG"}
    with run_job(builder, line, program, RANKS) as job, leaving_nothing(four_hosts):
        with Terminal(*front_end, "attach", *options, job.pid, changes=changes) as terminal:
            terminal.expect(PROMPT)
            running = {pid: host for host in four_hosts.names for pid in four_hosts.processes(host)}
            daemons = {pid for pid in running if name_of(pid) == AGGREGATOR_NAME}
            assert len(daemons) == 2
            with_key = set()
            for pid in running:
                assert PRIVATE_KEY not in Path(f"/proc/{pid}/cmdline").read_bytes()
                if PRIVATE_KEY.decode() in environment_of(pid).decode("ascii", "replace"):
                    with_key.add(pid)
                    assert stat.S_IMODE(Path(f"/proc/{pid}/environ").stat().st_mode) == 0o400
            names = {name_of(pid) for pid in with_key}
            assert bool(with_key) == in_environment, names
            assert not with_key & {*job.ranks.values(), terminal.pid}
            assert "gdb" not in names
            files = [each for each in tmp_path.rglob("*") if each.is_file()]
            assert files
            for each in files:
                assert PRIVATE_KEY not in each.read_bytes(), each

            for pid in daemons:
                assert heard_of(pid) == {in_hex(four_hosts.address(running[pid]))}
            calls = "--connect" in options or "--host" in options
            own = set() if calls else {in_hex(four_hosts.address(running[terminal.pid]))}
            assert heard_of(terminal.pid) == own
            terminal.line("quit")
            terminal.wait()
