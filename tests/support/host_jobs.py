"""Jobs on several hosts, and sessions on them from the host h1."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.hosts import Hosts
from tests.support.jobs import Job, run_job
from tests.support.processes import LEAVE_DEADLINE_S, aggregator_of, wait_until
from tests.support.programs import Builder, find_mpi
from tests.support.terminal import (
    DEADLINE_S,
    PGDB,
    PROMPT,
    Finished,
    Terminal,
    leaving_nothing,
    run_json,
)

RANKS = 8
BY_HOST = {"h1": "0-1", "h2": "2-3", "h3": "4-5", "h4": "6-7"}
LOSS_DEADLINE_S = 120.0
"""The loss time of a link is 20 s, and looked at every 5 s."""
PAUSE = ("-DPAUSE_NS=20000000",)
# Nobody comes to `hit` with that condition: the breakpoint is in the code of running ranks.
BREAK_AND_RUN = ("break hit if i < 0", "c &")


@contextmanager
def running(
    builder: Builder, hosts: Hosts, name: str = "openmpi", source: str = "storm.c"
) -> Iterator[Job]:
    """Run a job of eight ranks on the hosts.

    Those of storm.c call ``hit`` 50 times a second: eight GDBs that look at a condition 3,000 times
    a second would use up the cores.
    """
    mpi = find_mpi(name)
    program = builder.build(mpi, source, *(PAUSE if source == "storm.c" else ()))
    line = hosts.command("h1", mpi.line(RANKS, program, hosts=hosts.names))
    with run_job(builder, line, program, RANKS) as job:
        yield job


def on_h1(hosts: Hosts) -> list[str]:
    """Return the command that is PGDB on the first host."""
    return hosts.command("h1", PGDB)


def attach_json(hosts: Hosts, *arguments: object, **how: Any) -> Finished:
    return run_json("attach", *arguments, command=on_h1(hosts), **how)


@contextmanager
def attached(hosts: Hosts, job: Job, *options: object) -> Iterator[Terminal]:
    """Attach to a job at a terminal, up to the first prompt; leave nothing."""
    with leaving_nothing(hosts):
        with Terminal(*on_h1(hosts), "attach", *options, job.pid) as terminal:
            terminal.expect(PROMPT)
            yield terminal
            if terminal.status is None:
                terminal.line("quit")
                terminal.wait()


def values(finished: Finished, command: str) -> dict[str, object]:
    return {each["ranks"]: each["value"] for each in finished.answer(command)["classes"]}


def daemon_of(job: Job, rank: int) -> int:
    """Return the aggregator that has a rank."""
    return aggregator_of(job.ranks[rank])


def ask_until(terminal: Terminal, line: str, pattern: str) -> None:
    """Type a line again and again, until its answer is this."""
    end = time.monotonic() + DEADLINE_S
    terminal.line(line)
    while not terminal.shows(pattern, within_s=1.0):
        assert time.monotonic() < end, f"no {pattern!r} of {line!r} in:\n{terminal.text}"
        terminal.expect(PROMPT)
        terminal.line(line)
    terminal.expect(PROMPT)


def wait_empty(hosts: Hosts) -> None:
    """Wait until nothing runs on any host."""
    wait_until(
        lambda: not any(map(hosts.processes, hosts.names)),
        "nothing is left on the hosts",
        LEAVE_DEADLINE_S,
    )
