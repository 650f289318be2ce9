"""Sessions from a login host (``--host``), and hosts that have no PGDB (``--ship``)."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.hosts import Hosts, several_hosts
from tests.support.jobs import Job, run_job
from tests.support.processes import aggregator_of, is_traced, status, wait_until
from tests.support.programs import Builder, find_mpi
from tests.support.terminal import (
    DEADLINE_S,
    PGDB,
    PROMPT,
    FrontEnd,
    Terminal,
    assert_nothing_left,
    assert_untouched,
    children_with,
    ex,
    leaving_nothing,
    marked,
    run_json,
    run_pgdb,
    wait_broken,
)

pytestmark = [pytest.mark.mpi, pytest.mark.hosts]

PYTHON = "/usr/bin/python3"
"""A Python of the machine's, which has none of our packages."""
NO_ADDRESS = "nosuchhost"


@contextmanager
def running(
    builder: Builder, hosts: Hosts, names: tuple[str, ...], name: str = "openmpi"
) -> Iterator[Job]:
    """Run two ranks on each of some hosts, with their launcher on the first of them."""
    mpi = find_mpi(name)
    program = builder.build(mpi, "storm.c")
    ranks = 2 * len(names)
    line = hosts.command(names[0], mpi.line(ranks, program, hosts=names))
    with run_job(builder, line, program, ranks) as job:
        yield job


def login(hosts: Hosts, host: str = "h2") -> list[object]:
    """Return the options with which h1 is a login host and the job is elsewhere."""
    return ["--host", host, "--ssh", hosts.ssh]


# -- another host as the site ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_attach_from_a_login_host(builder: Builder, four_hosts: Hosts, name: str) -> None:
    # The login host is none of the job's.
    with running(builder, four_hosts, ("h2", "h3", "h4"), name) as job:
        for _ in range(2):
            with leaving_nothing(four_hosts):
                finished = run_json(
                    "attach", *login(four_hosts), *ex("break hit", "c", "up", "p rank"), job.pid,
                    command=four_hosts.command("h1", PGDB),
                )  # fmt: skip
            assert finished.status == 0, finished.out
            hello = finished.objects[0]
            assert {each["host"]: each["ranks"] for each in hello["hosts"]} == {
                "h2": "0-1", "h3": "2-3", "h4": "4-5",
            }  # fmt: skip
            values = {
                each["ranks"]: each["value"] for each in finished.answer("print rank")["classes"]
            }
            assert values == {str(rank): rank for rank in range(6)}
            assert_untouched(job.ranks)
        assert job.process.poll() is None


def test_jobs_of_another_host_and_attach_to_the_only_one(
    builder: Builder, four_hosts: Hosts
) -> None:
    command = four_hosts.command("h1", PGDB)
    with leaving_nothing(four_hosts):
        finished = run_pgdb("jobs", *login(four_hosts), command=command)
        assert (finished.status, finished.out) == (0, "no running job on h2\n")
        finished = run_pgdb("attach", "--batch", *login(four_hosts), command=command)
        assert finished.status == 3
        assert finished.err.startswith("pgdb: no running job on h2; ")
    with running(builder, four_hosts, ("h2", "h3")) as job:
        with leaving_nothing(four_hosts):

            def is_listed() -> bool:
                finished = run_pgdb("jobs", *login(four_hosts), command=command)
                assert finished.status == 0
                heading, row = finished.out.splitlines()
                assert heading.split()[:4] == ["JOB", "LAUNCHER", "RANKS", "HOSTS"]
                assert row.split()[0] == str(job.pid)
                assert "storm" in row
                # On a busy machine counting takes longer than there is time for a list.
                return " 4 " in row

            wait_until(is_listed, "the ranks are counted", DEADLINE_S)
            # The login host has other processes.
            finished = run_pgdb("jobs", command=command)
            assert str(job.pid) not in finished.out
            finished = run_json(
                "attach", *login(four_hosts), *ex("p 6 * 7"), command=command
            )  # fmt: skip
            assert finished.status == 0
            assert [each["ranks"] for each in finished.answer("print 6 * 7")["classes"]] == ["0-3"]
        assert_untouched(job.ranks)


def test_a_host_that_cannot_be_the_site(builder: Builder, four_hosts: Hosts) -> None:
    """One line says what is wrong and what to do, and the job is left alone."""
    command = four_hosts.command("h1", PGDB)
    with running(builder, four_hosts, ("h2",)) as job, leaving_nothing(four_hosts):
        four_hosts.stop_sshd("h3")
        four_hosts.cut("h4")
        failing: list[tuple[list[object], str]] = [
            (login(four_hosts, NO_ADDRESS), "Could not resolve hostname"),
            (login(four_hosts, "h3"), "Connection refused"),
            (login(four_hosts, "h4"), "Connection timed out|No route to host"),
            (["--host", "h2", "--ssh", "nosuchssh"], "cannot run nosuchssh: .*--ssh names it"),
            ([*login(four_hosts), "--remote-python", PYTHON], "No module named.*--remote-python"),
            ([*login(four_hosts), "--remote-python", "/nosuch"], "/nosuch.*--remote-python"),
        ]
        for options, why in failing:
            finished = run_pgdb("attach", "--batch", *options, job.pid, command=command)
            assert finished.status == 3, options
            assert finished.err.count("\n") == 1, finished.err
            assert re.search(why, finished.err), finished.err
        finished = run_pgdb("attach", "--batch", *login(four_hosts), 4999999, command=command)
        assert finished.status == 3
        assert re.match("pgdb: h2: .*4999999", finished.err), finished.err
        assert_untouched(job.ranks)


@pytest.mark.parametrize("what", ["agent", "link", "both"])
def test_an_ssh_of_the_session_is_killed(builder: Builder, four_hosts: Hosts, what: str) -> None:
    with running(builder, four_hosts, ("h2", "h3")) as job:
        # No deadline here is as long as the grace time.
        with leaving_nothing(four_hosts):
            with Terminal(
                *four_hosts.command("h1", PGDB),
                "attach", *login(four_hosts), "--grace", "100", job.pid,
            ) as terminal:  # fmt: skip
                terminal.expect(PROMPT)
                terminal.ask("break hit if i < 0", "Breakpoint 1: ")
                terminal.ask("c &")
                wait_broken(job.ranks)
                agents = children_with(terminal.pid, terminal.mark, "pgdb.frontend.startup.remote")
                links = children_with(terminal.pid, terminal.mark, " -W ")
                assert len(agents) == len(links) == 1
                victims = {"agent": agents, "link": links, "both": agents + links}
                for pid in victims[what]:
                    os.kill(pid, signal.SIGKILL)
                terminal.expect_ranks("lost: ", "0-3")
                if what == "link":
                    # The front end calls again: all is as it was.
                    def is_back() -> bool:
                        terminal.line("ranks")
                        return terminal.shows(r"running on h2.*\n.*running on h3", within_s=1.0)

                    wait_until(is_back, "the ranks are back", 90)
                    terminal.line("interrupt")
                    terminal.expect_ranks("interrupted in ", "0-3")
                else:
                    # Processes that were started there end with the agent, and detach from the
                    # ranks.
                    wait_until(
                        lambda: not any(map(is_traced, job.ranks.values())), "all are free", 60
                    )
                terminal.line("quit")
                terminal.wait()
                assert "stdio forwarding" not in terminal.text
        assert_untouched(job.ranks)


@contextmanager
def unreachable(hosts: Hosts, host: str, *others: str) -> Iterator[None]:
    """Have *host* know no way to *others*."""
    ways = [f"{hosts.address(other)}/32" for other in others]
    for way in ways:
        hosts.run(host, ["ip", "route", "add", "unreachable", way])
    try:
        yield
    finally:
        for way in ways:
            hosts.run(host, ["ip", "route", "del", "unreachable", way])


def test_lost_ranks_are_taken_back_over_a_login_host(builder: Builder, four_hosts: Hosts) -> None:
    """First those of the last host of a chain, whose others are lost as well."""
    with (
        running(builder, four_hosts, ("h2", "h3", "h4")) as job,
        # The site alone reaches the job's other hosts.
        unreachable(four_hosts, "h1", "h3", "h4"),
        leaving_nothing(four_hosts),
        Terminal(
            *four_hosts.command("h1", PGDB),
            "attach", *login(four_hosts), "--fan-out", "1", "--verbose", job.pid,
        ) as terminal,
    ):  # fmt: skip
        terminal.expect(PROMPT)
        assert "nothing at h" not in terminal.text
        terminal.ask("break hit if i < 0", "Breakpoint 1: ")
        terminal.ask("c &")
        wait_broken(job.ranks)
        for daemon in {aggregator_of(pid) for pid in job.ranks.values()}:
            os.kill(daemon, signal.SIGKILL)
        terminal.expect(r"\[0-1\] lost: ")
        wait_until(lambda: not any(map(is_traced, job.ranks.values())), "all are free", 60)
        terminal.ask("reattach 4-5", r"\[4-5\] ")
        terminal.ask("p 1 + 1", r"\[4-5\] 1 \+ 1 = 2")
        terminal.ask("reattach", r"\[0-3\] ")
        terminal.ask("p 1 + 2", r"\[0-5\] 1 \+ 2 = 3")
        terminal.ask("info breakpoints", r"\[0-5\]")
        terminal.line("quit")
        terminal.wait()
        assert_untouched(job.ranks)


def test_the_front_end_of_a_login_host_is_killed(builder: Builder, four_hosts: Hosts) -> None:
    with running(builder, four_hosts, ("h2", "h3"), "mpich") as job:
        with leaving_nothing(four_hosts, deadline_s=DEADLINE_S):
            with Terminal(
                *four_hosts.command("h1", PGDB),
                "attach", *login(four_hosts), "--grace", "2", job.pid,
            ) as terminal:  # fmt: skip
                terminal.expect(PROMPT)
                terminal.ask("break hit if i < 0", "Breakpoint 1: ")
                terminal.ask("c &")
                wait_broken(job.ranks)
                os.kill(terminal.pid, signal.SIGKILL)
                assert_nothing_left(terminal.mark, deadline_s=DEADLINE_S)
        assert_untouched(job.ranks)


def test_launch_on_another_host_is_refused(four_hosts: Hosts) -> None:
    finished = run_pgdb(
        "launch", "--batch", *login(four_hosts), "mpirun", "-n", "1", "true",
        command=four_hosts.command("h1", PGDB),
    )  # fmt: skip
    assert finished.status == 2
    assert "to launch there: ssh h2 pgdb launch" in finished.err


# -- hosts without PGDB ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bare_hosts(builder: Builder) -> Iterator[Hosts]:
    """Three hosts with process ids and a /tmp of their own."""
    with several_hosts(3, own_pids=True, shared=[builder.directory]) as hosts:
        yield hosts


CACHE = "/tmp/cache"
"""Another directory on each of these hosts."""
SHIP = ("--ship", "--remote-python", PYTHON)


def shipping(hosts: Hosts) -> list[str]:
    """Return the command that is PGDB on the first host, and sends itself to the others."""
    return hosts.command("h1", ["env", f"XDG_CACHE_HOME={CACHE}", "HOME=/tmp/home", *PGDB])


def entries(hosts: Hosts, host: str) -> list[str]:
    """Return the files of a host's cache, with their times, which show a new file."""
    script = f"cd {CACHE}/pgdb && stat --format='%n %i %a' . *"
    return [
        line
        for line in hosts.run(host, ["sh", "-c", script]).splitlines()
        if re.match(r"\.|[0-9a-f]{64} ", line)
    ]


def launcher_of(job: Job) -> int:
    """Return the process id of a job's launcher as its host has it."""
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    assert len(children) == 1
    return int(status(int(children[0]), "NSpid").split()[-1])


@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_attach_to_hosts_without_pgdb(builder: Builder, bare_hosts: Hosts, name: str) -> None:
    for host in bare_hosts.names:
        bare_hosts.run(host, ["rm", "-rf", CACHE])
    with running(builder, bare_hosts, ("h1", "h2", "h3"), name) as job:
        before: list[str] = []
        for _ in range(2):
            with leaving_nothing(bare_hosts):
                finished = run_json(
                    "attach", *SHIP, *ex("break hit", "c", "up", "p rank"), launcher_of(job),
                    command=shipping(bare_hosts), deadline_s=240,
                )  # fmt: skip
            assert finished.status == 0, finished.out + finished.err
            values = {
                each["ranks"]: each["value"] for each in finished.answer("print rank")["classes"]
            }
            assert values == {str(rank): rank for rank in range(6)}
            found = entries(bare_hosts, "h2")
            assert len(found) == 2, found
            # The directory is ours alone; the second time nothing in it was made anew.
            assert found[0].endswith(" 700")
            assert before in ([], found)
            before = found
            assert_untouched(job.ranks)


def test_without_ship_such_a_host_is_named(builder: Builder, bare_hosts: Hosts) -> None:
    with running(builder, bare_hosts, ("h1", "h2")) as job, leaving_nothing(bare_hosts):
        finished = run_pgdb(
            "attach", "--batch", "--remote-python", PYTHON, launcher_of(job),
            command=shipping(bare_hosts),
        )  # fmt: skip
        assert finished.status == 3
        assert "No module named" in finished.err
        assert "--ship sends it" in finished.err
        assert_untouched(job.ranks)


def test_launch_on_hosts_without_pgdb(builder: Builder, bare_hosts: Hosts) -> None:
    mpi = find_mpi("openmpi")
    program = builder.build(mpi, "storm.c")
    line = mpi.line(4, program, "100", hosts=("h2", "h3"))
    finished = run_json(
        "launch", *SHIP, *ex("break hit", "c", "up", "p rank", "delete", "c"), *line,
        command=shipping(bare_hosts), deadline_s=240,
    )  # fmt: skip
    assert finished.status == 0, finished.out + finished.err
    values = {each["ranks"]: each["value"] for each in finished.answer("print rank")["classes"]}
    assert values == {str(rank): rank for rank in range(4)}
    ends = [each for reported in finished.of_type("exit") for each in reported.get("classes", ())]
    assert {each["code"] for each in ends} == {0}
    wait_until(lambda: not any(map(bare_hosts.processes, bare_hosts.names)), "nothing is left")


def test_ship_to_another_host_as_the_site(builder: Builder, bare_hosts: Hosts) -> None:
    with running(builder, bare_hosts, ("h2", "h3")) as job:
        with leaving_nothing(bare_hosts):
            finished = run_json(
                "attach", *SHIP, *login(bare_hosts), *ex("p 6 * 7"), launcher_of(job),
                command=shipping(bare_hosts), deadline_s=240,
            )  # fmt: skip
        assert finished.status == 0, finished.out + finished.err
        assert [each["ranks"] for each in finished.answer("print 6 * 7")["classes"]] == ["0-3"]
        assert_untouched(job.ranks)


def test_the_front_end_is_killed_while_it_ships(builder: Builder, bare_hosts: Hosts) -> None:
    for host in bare_hosts.names:
        bare_hosts.run(host, ["rm", "-rf", CACHE])
    with running(builder, bare_hosts, ("h1", "h2", "h3")) as job, leaving_nothing(bare_hosts):
        with FrontEnd(
            "attach", "--batch", "--grace", "2", *SHIP, *ex("p 1", "wait"), launcher_of(job),
            command=shipping(bare_hosts),
        ) as front_end:  # fmt: skip
            mark = front_end.mark
            # The first that runs on a host of what was sent as text.
            wait_until(
                lambda: any("b64decode" in line for line in marked(mark).values()),
                "it ships",
                DEADLINE_S,
            )
            for pid, line in marked(mark).items():
                if "-m pgdb attach" in line:
                    os.kill(pid, signal.SIGKILL)
            assert_nothing_left(mark, deadline_s=DEADLINE_S)
        assert_untouched(job.ranks)
