"""Sessions over several hosts: every way to raise the tree.

The front end runs on h1; the job's ranks are on h1 to h4, two on each, in order unless said.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.host_jobs import (
    BY_HOST,
    RANKS,
    attach_json,
    attached,
    on_h1,
    running,
    values,
    wait_empty,
)
from tests.support.hosts import Hosts
from tests.support.processes import status, variables_of, wait_until
from tests.support.programs import Builder, find_mpi
from tests.support.terminal import (
    DEADLINE_S,
    PROMPT,
    FrontEnd,
    Terminal,
    assert_nothing_left,
    assert_untouched,
    ex,
    leaving_nothing,
    marked,
    ranks_of,
    run_json,
    run_pgdb,
)

pytestmark = [pytest.mark.mpi, pytest.mark.hosts]


# -- attaching ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_attach_look_detach_and_again(builder: Builder, four_hosts: Hosts, name: str) -> None:
    with running(builder, four_hosts, name) as job:
        with leaving_nothing(four_hosts):
            finished = attach_json(
                four_hosts,
                *ex("bt", "break hit", "c", "bt", "up", "p rank", "info breakpoints", "detach"),
                job.pid,
            )
        assert finished.status == 0
        hello = finished.objects[0]
        assert hello["ranks"] == "0-7"
        assert {each["host"]: each["ranks"] for each in hello["hosts"]} == BY_HOST
        first, second = finished.answers("backtrace")
        for each in first["classes"]:
            assert each["record"]["frames"][-1]["function"] == "main"
        # All ranks stand at the same place: they differ in i alone.
        assert {len(each["record"]["frames"]) for each in second["classes"]} == {2}
        assert values(finished, "print rank") == {str(rank): rank for rank in range(RANKS)}
        assert [each["ranks"] for each in finished.answer("info breakpoints")["classes"]] == ["0-7"]
        assert_untouched(job.ranks)
        with leaving_nothing(four_hosts):
            finished = attach_json(
                four_hosts, *ex("break hit", "c", "up", "set var iterations = 1"), job.pid
            )
        assert finished.status == 0, finished.out
        # The job's status is its own.
        assert job.process.wait(DEADLINE_S) == 0


def test_ctrl_c_interrupts_all_hosts(builder: Builder, four_hosts: Hosts) -> None:
    with running(builder, four_hosts, "openmpi5") as job:
        with attached(four_hosts, job) as terminal:
            for host, ranks in BY_HOST.items():
                terminal.ask("ranks", rf"\[{ranks}\] stopped on {host}")
            for _ in range(3):
                terminal.line("c")
                wait_until(
                    lambda: all(status(pid, "State")[0] in "RS" for pid in job.ranks.values()),
                    "the ranks run",
                )
                terminal.control_c()
                terminal.expect_ranks("interrupted in ", "0-7")
                terminal.expect(PROMPT)
            terminal.ask("p 40 + 2", r"\[0-7\] 40 \+ 2 = 42")
            terminal.line("detach")
            terminal.expect("they run on")
            assert terminal.wait() == 0
        assert_untouched(job.ranks)


def test_two_sessions_on_two_jobs_at_once(builder: Builder, four_hosts: Hosts) -> None:
    with running(builder, four_hosts) as one, running(builder, four_hosts, "mpich") as other:
        with attached(four_hosts, one) as first, attached(four_hosts, other) as second:
            for terminal in (first, second):
                terminal.ask("break hit", r"\[0-7\] Breakpoint 1: ")
                terminal.line("c")
                terminal.expect_ranks("Breakpoint 1, hit", "0-7")
            first.line("quit")
            assert first.wait() == 0
            assert_untouched(one.ranks)
            second.line("c")
            second.expect_ranks("Breakpoint 1, hit", "0-7")
            second.ask("p 6 * 7", r"\[0-7\] 6 \* 7 = 42")
        assert_untouched(other.ranks)


# -- launching ---------------------------------------------------------------------------------


def test_the_ranks_of_a_launch_are_as_without_us(
    builder: Builder, four_hosts: Hosts, tmp_path: Path
) -> None:
    """Environment, directory and mapping, here one that takes the hosts in turn."""
    mpi = find_mpi("openmpi")
    program = builder.build(mpi, "nompi.c")
    end = tmp_path / "end"
    line = mpi.line(RANKS, program, str(end), hosts=four_hosts.names)
    line[1:1] = ["--map-by", "node", "-wdir", str(tmp_path), "-x", "PGDB_TEST_WORD=two words"]

    def seen(ranks: dict[int, int]) -> dict[int, tuple[Path, dict[str, str]]]:
        found = {}
        for rank, pid in ranks.items():
            variables = variables_of(pid)
            # Each job has these of its own.
            kept = {
                name: value
                for name, value in variables.items()
                if not re.match(
                    r"PMIX_|OMPI_(MCA_(orte|ess)|FILE)|PGDB_TEST_MARK|SSH_(CLIENT|CONNECTION)", name
                )
                # In these Open MPI 4.1 describes what it has started: the hold program.
                and name not in ("OMPI_COMMAND", "OMPI_ARGV")
            }
            kept["names"] = " ".join(sorted(variables))
            found[rank] = (Path(f"/proc/{pid}/cwd").resolve(), kept)
        return found

    with Terminal(*four_hosts.command("h1", line)) as plain:
        wait_until(
            lambda: len(ranks_of(plain.mark, program)) == RANKS,
            "the job runs without us",
            DEADLINE_S,
        )
        wanted = seen(ranks_of(plain.mark, program))
        end.touch()
        assert plain.wait() == 0
    wait_empty(four_hosts)
    end.unlink()
    with Terminal(*on_h1(four_hosts), "launch", *line) as terminal:
        terminal.expect(r"\[0-7\] stopped in main")
        terminal.expect(PROMPT)
        for number, host in enumerate(four_hosts.names):
            terminal.ask("ranks", rf"\[{number},{number + 4}\] stopped on {host}")
        assert seen(ranks_of(terminal.mark, program)) == wanted
        end.touch()
        terminal.line("c")
        terminal.expect_ranks("exited normally", "0-7")
        terminal.line("quit")
        assert terminal.wait() == 0
        # The ranks' output takes another route than GDB's answers, and may be later.
        for rank in range(RANKS):
            assert f"nompi rank {rank} of 8" in terminal.text
        assert_nothing_left(terminal.mark)
    wait_empty(four_hosts)


@pytest.mark.parametrize("name", ["openmpi5", "mpich"])
def test_output_of_a_launch(builder: Builder, four_hosts: Hosts, name: str) -> None:
    mpi = find_mpi(name)
    finished = run_pgdb(
        "launch", "--batch", *ex("c"),
        *mpi.line(RANKS, builder.build(mpi, "output.c"), hosts=four_hosts.names),
        command=on_h1(four_hosts),
    )  # fmt: skip
    assert finished.status == 0, finished.out
    for rank in range(RANKS):
        for word in ("1\n", "2\n", "end"):
            assert finished.stdout.count(f"rank {rank} out {word}".encode()) == 1
            assert finished.stderr.count(f"rank {rank} err {word}".encode()) == 1
    wait_empty(four_hosts)


def test_status_of_a_launch(builder: Builder, four_hosts: Hosts) -> None:
    # Open MPI sends the others SIGTERM when a rank has ended in this way.
    mpi = find_mpi("mpich")
    finished = run_pgdb(
        "launch", "--batch", "--exit-code=job", *ex("c"),
        *mpi.line(RANKS, builder.build(mpi, "exitcode.c"), "5", "7", hosts=four_hosts.names),
        command=on_h1(four_hosts),
    )  # fmt: skip
    assert finished.status == 7, finished.out
    assert re.search(r"\[5\] +exited with code 7", finished.out), finished.out
    wait_empty(four_hosts)


def test_two_programs_on_two_hosts_each(builder: Builder, four_hosts: Hosts) -> None:
    mpi = find_mpi("openmpi")
    one, other = (builder.build(mpi, name) for name in ("mpmd_a.c", "mpmd_b.c"))
    line = [*mpi.line(4, one, hosts=("h1", "h2")), ":", *mpi.line(4, other, hosts=("h3", "h4"))[1:]]
    finished = run_json(
        "launch", *ex("info source", "c"), *line, command=on_h1(four_hosts), deadline_s=240
    )
    assert finished.status == 0, finished.out
    places = {
        each["ranks"]: each["frame"]["file"].rpartition("/")[2]
        for stop in finished.of_type("stop")
        for each in stop["classes"]
        if each["reason"] == "main"
    }
    assert places == {"0-3": "mpmd_a.c", "4-7": "mpmd_b.c"}
    assert "asked rank 4: 42" in "".join(each["text"] for each in finished.of_type("output"))
    wait_empty(four_hosts)


@pytest.mark.parametrize("name", ["openmpi", "intel"])
def test_quit_kills_the_ranks_of_all_hosts(builder: Builder, four_hosts: Hosts, name: str) -> None:
    mpi = find_mpi(name)
    program = builder.build(mpi, "storm.c")
    finished = run_json(
        "launch", *ex("break hit", "c", "proc 2-5 c &", "quit"),
        *mpi.line(RANKS, program, hosts=four_hosts.names),
        command=on_h1(four_hosts),
    )  # fmt: skip
    assert finished.status == 0, finished.out
    assert finished.answers("continue")[0]["ranks"] == "0-7"
    wait_empty(four_hosts)


def test_ctrl_c_at_any_moment_of_the_start(builder: Builder, four_hosts: Hosts) -> None:
    mpi = find_mpi("mpich")
    program = builder.build(mpi, "storm.c")
    line = mpi.line(RANKS, program, hosts=four_hosts.names)

    def try_once(after_s: float | None) -> tuple[int, float]:
        """Launch, with a SIGINT after a time; return the status and how long it took."""
        begun = time.monotonic()
        with FrontEnd(
            "launch", "--batch", *ex("p 1"), *line,
            command=on_h1(four_hosts), stderr=subprocess.PIPE,
        ) as front_end:  # fmt: skip
            try:
                _, reported = front_end.communicate(timeout=after_s)
            except subprocess.TimeoutExpired:
                front_end.send_signal(signal.SIGINT)
                _, reported = front_end.communicate(timeout=DEADLINE_S)
            took_s = time.monotonic() - begun
            # Python itself dies of a Ctrl-C while it imports us.
            if front_end.returncode != -signal.SIGINT:
                assert b"Traceback" not in reported, reported.decode()
            assert_nothing_left(front_end.mark)
        wait_empty(four_hosts)
        return front_end.returncode, took_s

    code, whole_s = try_once(None)
    assert code == 0
    for number in range(10):
        code, _ = try_once(whole_s * (number + 0.5) / 10)
        assert code in (0, 3, -signal.SIGINT), number


@pytest.mark.parametrize(
    ("name", "moment"), [("openmpi", "held"), ("openmpi", "attaching"), ("mpich", "attaching")]
)
def test_the_front_end_is_killed_in_the_middle_of_the_start(
    builder: Builder, four_hosts: Hosts, tmp_path: Path, name: str, moment: str
) -> None:
    """Every rank goes on by itself; nothing of ours is left but the keeper of the output."""
    mpi = find_mpi(name)
    program = builder.build(mpi, "nompi.c")
    end, go = tmp_path / "end", tmp_path / "go"
    # The GDBs attach when the ranks already run.
    gdb = tmp_path / "gdb"
    gdb.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *-i=mi3*) until [ -e {go} ]; do sleep 0.02; done;; esac\n'
        'exec gdb "$@"\n'
    )
    gdb.chmod(0o755)
    front_end = FrontEnd(
        "launch", "--batch", "--grace", "2", "--gdb", gdb,
        *mpi.line(RANKS, program, str(end), hosts=four_hosts.names),
        command=on_h1(four_hosts),
    )  # fmt: skip
    mark = front_end.mark

    def of_ours(*parts: str) -> dict[int, str]:
        """Return the processes whose line has one of these parts, without their launchers."""
        return {
            pid: line
            for pid, line in marked(mark).items()
            if re.match(r"\S*(python[\d.]*|sh|gdb) ", line) and any(part in line for part in parts)
        }

    def held() -> dict[int, str]:
        return of_ours("hold.py")

    def ours() -> dict[int, str]:
        return of_ours("pgdb.backend", "hold.py", "-i=mi3")

    with front_end, contextlib.ExitStack() as at_the_end:
        at_the_end.callback(end.touch)
        if moment == "held":
            wait_until(lambda: len(held()) == RANKS, "all ranks are held", DEADLINE_S)
        else:
            wait_until(lambda: len(of_ours("-i=mi3")) == RANKS, "the GDBs are started", DEADLINE_S)
        front_end.kill()
        front_end.wait(DEADLINE_S)
        go.touch()
        wait_until(
            lambda: len(ranks_of(mark, program)) == RANKS, "all ranks have gone on", DEADLINE_S
        )
        wait_until(lambda: not ours(), "nothing of ours is left", DEADLINE_S)
        ranks = ranks_of(mark, program)
        assert len(ranks) == RANKS, f"of all ranks there are only {ranks} left"
        assert_untouched(ranks)
        end.touch()
        # The launcher and the keeper of its output end as they would.
        assert_nothing_left(mark, deadline_s=DEADLINE_S)
    wait_empty(four_hosts)


# -- wire-ups and links ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "aggregators"),
    [
        ("openmpi", ["--wire-up", "direct"], 4),
        ("openmpi", ["--connect"], 4),
        ("mpich", ["--connect", "--wire-up", "direct"], 4),
        ("mpich", ["--overlay-launcher", "ssh -o ConnectTimeout=60"], 4),
        ("openmpi", ["--overlay-launcher", "ssh", "--connect"], 4),
        ("mpich", ["--aggregators", "2", "--fan-out", "2", "--listen", "h1"], 8),
        ("openmpi", ["--aggregators", "2", "--fan-out", "1", "--wire-up", "direct"], 8),
    ],
)
def test_ways_to_raise_the_tree(
    builder: Builder, four_hosts: Hosts, name: str, options: list[str], aggregators: int
) -> None:
    with running(builder, four_hosts, name) as job:
        with leaving_nothing(four_hosts):
            finished = attach_json(
                four_hosts, "--verbose", *options, *ex("break hit", "c", "up", "p rank"), job.pid
            )
        assert finished.status == 0, finished.out
        hello = finished.objects[0]
        assert {each["host"]: each["ranks"] for each in hello["hosts"]} == BY_HOST
        assert f"8 ranks on 4 hosts, {aggregators} aggregators" in finished.err
        assert finished.answer("continue")["ranks"] == "0-7"
        assert values(finished, "print rank") == {str(rank): rank for rank in range(RANKS)}
        assert_untouched(job.ranks)


def test_an_address_to_listen_at_that_cannot_be(builder: Builder, four_hosts: Hosts) -> None:
    reasons = {
        "10.77.0.99": "Cannot assign requested address; this host has 10.77.0.1",
        "h2": "Cannot assign requested address",
        "nosuchhost": "no such address",
        "127.0.0.1": "other hosts cannot reach a loopback address",
    }
    with running(builder, four_hosts) as job, leaving_nothing(four_hosts):
        for address, why in reasons.items():
            finished = run_pgdb(
                "attach", "--batch", "--listen", address, job.pid, command=on_h1(four_hosts)
            )
            assert finished.status == 2
            assert finished.err.count("\n") == 1
            assert f"--listen {address}: " in finished.err
            assert why in finished.err
        assert_untouched(job.ranks)


def test_gdbs_of_other_versions(builder: Builder, four_hosts: Hosts, tmp_path: Path) -> None:
    """One host's is another one, one host's is too old: its ranks alone are not attached to."""
    version = tmp_path / "version.py"
    version.write_text(
        "import socket\n"
        "class Version(gdb.Command):\n"
        '    def __init__(self): super().__init__("show version", gdb.COMMAND_STATUS)\n'
        "    def invoke(self, *_):\n"
        '        print("GNU gdb (GDB)", {"h2": "12.9", "h3": "9.2"}[socket.gethostname()])\n'
        'if socket.gethostname() in ("h2", "h3"): Version()\n'
    )
    gdb = tmp_path / "gdb-of-the-host"
    gdb.write_text(f'#!/bin/sh\nexec {shutil.which("gdb")} -iex "source {version}" "$@"\n')
    gdb.chmod(0o755)
    with running(builder, four_hosts) as job:
        finished = run_pgdb(
            "attach", "--batch", "--gdb", gdb, *ex("p hit_count > 0"), job.pid,
            command=on_h1(four_hosts),
        )  # fmt: skip
        reported = finished.out + finished.err
        assert reported.count("GDB 12.9 here, ") == 1, reported
        assert f"[4-5] error: {gdb} is GDB 9.2 on this host; at least 12.1 is needed" in reported, (
            reported
        )
        assert "[0-3,6-7] hit_count > 0 = 1" in reported, reported
        assert_untouched(job.ranks)
