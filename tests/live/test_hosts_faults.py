"""Faults of sessions over several hosts: hosts that are cut off, and processes that are killed.

The front end runs on h1; the job's ranks are on h1 to h4, two on each, in order unless said.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.support.host_jobs import (
    BREAK_AND_RUN,
    LOSS_DEADLINE_S,
    RANKS,
    ask_until,
    attach_json,
    attached,
    daemon_of,
    on_h1,
    running,
    values,
    wait_empty,
)
from tests.support.hosts import Hosts
from tests.support.processes import is_traced, status, wait_until
from tests.support.programs import ROOT, Builder, Program, find_mpi
from tests.support.terminal import (
    DEADLINE_S,
    PROMPT,
    FrontEnd,
    Terminal,
    assert_nothing_left,
    assert_untouched,
    children_with,
    ex,
    leaving_nothing,
    marked,
    ranks_of,
    run_pgdb,
    wait_broken,
    wait_gone,
)

pytestmark = [pytest.mark.mpi, pytest.mark.hosts]


def test_a_host_is_cut_off_before_attach(builder: Builder, four_hosts: Hosts) -> None:
    with running(builder, four_hosts) as job:
        four_hosts.cut("h3")
        with leaving_nothing(four_hosts):
            finished = run_pgdb(
                "attach", "--batch", *ex("break hit", "c", "up", "p rank", "ranks"), job.pid,
                command=on_h1(four_hosts),
            )  # fmt: skip
        # Seen at once, not when all launchers have had their time.
        reported = r"note: ranks \[4-5\] on h3 are lost: nothing at h3 answers"
        assert re.search(reported, finished.err), finished.err
        assert "[0-3,6-7]" in finished.out
        for rank in (0, 1, 2, 3, 6, 7):
            assert f"[{rank}] rank = {rank}" in finished.out or "rank = 0 " in finished.out
        four_hosts.heal("h3")
        assert_untouched(job.ranks)
        with leaving_nothing(four_hosts):
            finished = attach_json(four_hosts, *ex("p 1 + 1"), job.pid)
        assert values(finished, "print 1 + 1") == {"0-7": 2}


def test_hosts_are_lost_during_a_session(builder: Builder, four_hosts: Hosts) -> None:
    """One is cut off and comes back, one is cut off for good, one crashes; the rest goes on."""
    with running(builder, four_hosts) as job:
        with attached(four_hosts, job, "--grace", "40") as terminal:
            terminal.ask("break hit if i < 0", r"\[0-7\] Breakpoint 1: ")
            terminal.ask("c &", PROMPT)
            wait_broken(job.ranks)
            lost = {host: [job.ranks[r] for r in ranks] for host, ranks in
                    {"h2": (2, 3), "h3": (4, 5)}.items()}  # fmt: skip
            begun = time.monotonic()
            four_hosts.cut("h2")
            four_hosts.cut("h3")
            four_hosts.crash("h4")
            # Ranks without an answer from a host do not keep the others from answering.
            terminal.line("proc 0-1 interrupt")
            terminal.expect_ranks("interrupted in ", "0-1")
            said: set[str] = set()
            names: set[str] = set()
            while len(said) < 3:
                left_s = begun + LOSS_DEADLINE_S - time.monotonic()
                reported = terminal.expect(
                    r"\[([0-9,-]+)\] lost: (.*)", deadline_s=max(0.1, left_s)
                )
                hosts = _ranks_of_hosts(reported[1])
                # Some ranks are reported as behind a lost aggregator at first.
                if named := re.match(r"with (?:host|aggregator \d+ on) (h\d)\b", reported[2]):
                    assert named[1] in hosts, reported[0]
                    names.add(named[1])
                said |= hosts
            assert said == {"h2", "h3", "h4"} and names
            terminal.ask("p 1 + 1", r"\[0-1\] 1 \+ 1 = 2")
            four_hosts.heal("h2")
            ask_until(terminal, "ranks", r"\[2-3\] running on h2")
            terminal.line("proc 2-3 interrupt")
            terminal.expect_ranks("interrupted in ", "2-3")
            terminal.ask("p 1 + 2", r"\[0-3\] 1 \+ 2 = 3")
            terminal.line("quit")
            terminal.expect("leaving the job running")
            terminal.wait()
            # Their aggregator has found no parent for the grace time, and has detached.
            wait_until(
                lambda: not any(map(is_traced, lost["h3"])), "the ranks of h3 are free", DEADLINE_S
            )
            four_hosts.heal("h3")
        free = {rank: pid for rank, pid in job.ranks.items() if rank < 6}
        assert_untouched(free)


def _ranks_of_hosts(text: str) -> set[str]:
    """Return the hosts whose ranks a rank set names."""
    parts = [part.partition("-") for part in text.split(",")]
    numbers = {n for low, _, high in parts for n in range(int(low), int(high or low) + 1)}
    return {f"h{number // 2 + 1}" for number in numbers}


def test_a_short_cut_costs_nothing(builder: Builder, four_hosts: Hosts) -> None:
    with running(builder, four_hosts, "mpich") as job:
        with attached(four_hosts, job) as terminal:
            terminal.ask("break hit", "Breakpoint 1: ")
            four_hosts.cut("h4")
            terminal.line("p 1 + 1")
            # The less of the loss time passes by this, the more is left for a slow machine.
            assert not terminal.shows(r"1 \+ 1 = 2", within_s=1.0)
            four_hosts.heal("h4")
            terminal.expect(r"\[0-7\] 1 \+ 1 = 2")
            terminal.line("c")
            terminal.expect_ranks("Breakpoint 1, hit", "0-7")
            assert "lost" not in terminal.text
        assert_untouched(job.ranks)


@pytest.mark.parametrize("who", ["launcher", "anchor", "aggregator"])
def test_something_of_ours_is_killed(builder: Builder, four_hosts: Hosts, who: str) -> None:
    """In a tree where h4 hangs below h2 (fan-out 2)."""
    with running(builder, four_hosts) as job:
        with attached(four_hosts, job, "--fan-out", "2", "--grace", "60") as terminal:
            for command in BREAK_AND_RUN:
                terminal.ask(command)
            wait_broken(job.ranks)
            daemon = daemon_of(job, 2)
            victims = {"aggregator": daemon, "anchor": int(status(daemon, "PPid"))}
            if who == "launcher":
                own = children_with(terminal.pid, terminal.mark, "pgdb.backend")
                assert len(own) == 1, own
                victims["launcher"] = own[0]
            os.kill(victims[who], signal.SIGKILL)
            terminal.expect(r"\[[0-9,-]+\] lost: ")
            if who == "aggregator":
                # h4 finds its way past it.
                ask_until(terminal, "ranks", r"\[6-7\] running on h4")
            # The remaining ranks answer, and the report names all others.
            terminal.ask("interrupt")
            terminal.ask("p 1 + 1")
            if who == "aggregator":
                terminal.ask("p 1 + 2", r"\[0-1,4-7\] 1 \+ 2 = 3", r"\[2-3\]")
                terminal.ask("reattach", r"\[2-3\] ")
                terminal.ask("p 1 + 3", r"\[0-7\] 1 \+ 3 = 4")
                terminal.ask("info breakpoints", r"\[0-7\]")
            terminal.line("quit")
            terminal.wait()
        assert_untouched(job.ranks)


@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_the_front_end_is_killed(builder: Builder, four_hosts: Hosts, name: str) -> None:
    with (
        running(builder, four_hosts, name) as job,
        leaving_nothing(four_hosts),
    ):
        with FrontEnd(
            "attach", "--batch", "--json", "--grace", "2", *ex(*BREAK_AND_RUN, "wait"), job.pid,
            command=on_h1(four_hosts), stdout=subprocess.PIPE,
        ) as front_end:  # fmt: skip
            front_end.wait_answered("continue")
            wait_broken(job.ranks)
            front_end.kill()
            front_end.communicate(timeout=DEADLINE_S)
            assert_nothing_left(front_end.mark, grace_s=2.0)
        assert_untouched(job.ranks)


def test_the_front_end_is_killed_after_a_launch(builder: Builder, four_hosts: Hosts) -> None:
    mpi = find_mpi("openmpi")
    program: Program = builder.build(mpi, "storm.c")
    line = mpi.line(RANKS, program, hosts=four_hosts.names)
    try:
        with Terminal(*on_h1(four_hosts), "launch", "--grace", "2", *line) as terminal:
            terminal.expect(r"\[0-7\] stopped in main")
            terminal.expect(PROMPT)
            for command in BREAK_AND_RUN:
                terminal.ask(command)
            ranks = ranks_of(terminal.mark, program)
            assert len(ranks) == RANKS
            wait_broken(ranks)
            os.kill(terminal.pid, signal.SIGKILL)

            def ours() -> dict[int, str]:
                found = marked(terminal.mark)
                parts = ("pgdb.backend", "-i=mi3")
                return {pid: line for pid, line in found.items() if any(p in line for p in parts)}

            wait_gone(ours, grace_s=2.0)
            assert_untouched(ranks)
    finally:
        wait_empty(four_hosts)


@pytest.mark.usefixtures("four_hosts")
def test_a_short_soak_of_hosts_that_are_cut_off() -> None:
    """bench/soak has cuts of all lengths, and is the long form."""
    kinds = ("host cut off for less than the loss time", "closed with a host cut off")
    only = [word for kind in kinds for word in ("--only", kind)]
    line = [sys.executable, "-m", "bench.soak", "--hosts", "4", "--steps", "4", *only]
    finished = subprocess.run(
        [*map(str, line), "--verbose"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout
    assert "| host cut off for less than the loss time |" in finished.stdout
