"""Faults of the overlay and of the front end: who is not concerned answers, who is is named.

One machine stands for several hosts, with an aggregator for each two of the ranks; what takes hosts
of their own is in test_hosts_faults.py. In every test the ranks run on free at the end, with
nothing of ours in their code.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pgdb
from pgdb.bootstrap_env import LEAVE_HANGS_S
from pgdb.frontend.api.notifications import Notification
from pgdb.frontend.startup import overlay as overlay_module
from pgdb.frontend.startup.sync import Session
from pgdb.ranks import RankSet
from tests.conftest import Build, our_processes
from tests.fakes.clock import YEARS_38_S, Clock
from tests.support.jobs import Job, run_job
from tests.support.processes import (
    LEAVE_DEADLINE_S,
    aggregator_of,
    command_of,
    is_alive,
    is_traced,
    parent_of,
    processes_with,
    status,
    wait_until,
)
from tests.support.programs import ROOT, Builder, Mpi, Program, find_mpi
from tests.support.terminal import (
    DEADLINE_S,
    MARK,
    PGDB,
    PROMPT,
    Terminal,
    assert_untouched,
    ex,
    foreign_code,
    run_pgdb,
    wait_gone,
)

pytestmark = pytest.mark.mpi

# With fan-out 1 a chain, in which aggregator 0 has the ranks 0-1, and 3, at its end, 6-7.
RANKS, AGGREGATORS = 8, 4


@pytest.fixture(scope="module")
def program(builder: Builder) -> Program:
    # With its usual pause eight GDBs are busy all the time with a condition that does not hold, and
    # what a test waits for takes as much longer. The soak below has the usual pause.
    return builder.build(find_mpi("openmpi"), "storm.c", "-DPAUSE_NS=20000000")


@pytest.fixture(scope="module")
def job(builder: Builder, program: Program) -> Iterator[Job]:
    """One job for all tests: it goes on whatever happens to the session."""
    line = find_mpi("openmpi").line(RANKS, program)
    with run_job(builder, line, program, RANKS) as job:
        yield job


class Ears:
    """Notifications of a session."""

    def __init__(self) -> None:
        self.reported: list[Notification] = []

    def ranks(self, kind: str) -> RankSet:
        return RankSet.union(each.ranks for each in self.reported if each.kind == kind)

    def texts(self, kind: str) -> dict[str, str]:
        return {str(each.ranks): each.text for each in self.reported if each.kind == kind}


def attached(job: Job, ears: Ears, *, grace_s: float = 60, connect: bool = False) -> Session:
    return pgdb.attach(
        job.pid,
        on_event=ears.reported.append,
        aggregators=AGGREGATORS,
        fan_out=1,
        grace_s=grace_s,
        connect=connect,
    )


def run_with_breakpoints(session: Session) -> None:
    """Have all ranks run with a breakpoint in their code that does not stop them."""
    session.break_at("hit", condition="hit_count < 0").check()
    session.continue_(wait=False).check()


def wait_free(job: Job, ranks: RankSet) -> None:
    """Wait until ranks run free while the session lasts, with nothing left in their code."""
    pids = [job.ranks[rank] for rank in ranks]
    wait_until(
        lambda: not any(map(is_traced, pids)) and not any(map(foreign_code, pids)),
        f"[{ranks}] are free",
        LEAVE_DEADLINE_S,
    )


@pytest.mark.parametrize("connect", [False, True])
def test_aggregators_are_killed_and_started_again(job: Job, connect: bool) -> None:
    """At the end of the chain, in its middle, at its head; then all."""
    ears = Ears()
    with attached(job, ears, connect=connect) as session:
        run_with_breakpoints(session)
        for text in ("6-7", "2-3", "0-1", "0-7"):
            gone, others = RankSet.parse(text), session.set - RankSet.parse(text)
            ears.reported.clear()
            for daemon in {aggregator_of(job.ranks[rank]) for rank in gone}:
                os.kill(daemon, signal.SIGKILL)
            wait_until(
                lambda: gone <= ears.ranks("lost"),  # noqa: B023
                f"[{gone}] are reported lost",
                DEADLINE_S,
            )
            if text == "2-3":
                wanted = r"with aggregator 1 on \S+: .*"
                assert re.fullmatch(wanted, ears.texts("lost")["2-3"])
            wait_free(job, gone)
            wait_until(
                lambda: session.evaluate("1", timeout_s=10).missing.running == others,  # noqa: B023
                f"[{others}] are as they were",
                DEADLINE_S,
            )
            assert session.evaluate("1").missing.lost == gone
            again = session.ranks(gone).reattach(timeout_s=DEADLINE_S)
            assert RankSet.union(each.ranks for each in again) == gone, again
            have = session.breakpoints()
            assert [each.ranks for each in have] == [session.set], (
                again,
                have.missing,
                ears.reported,
            )
            session.ranks(gone).continue_(wait=False).check()
        session.interrupt(timeout_s=DEADLINE_S)
        assert session.evaluate("hit_count > 0").values == dict.fromkeys(range(RANKS), 1)
    assert_untouched(job.ranks)


def daemons_of(job: Job, ranks: RankSet) -> dict[int, int]:
    """Return the aggregator of each of some ranks."""
    return {rank: aggregator_of(job.ranks[rank]) for rank in ranks}


@pytest.mark.parametrize("connect", [False, True])
def test_lost_ranks_are_taken_back_without_those_above_them(job: Job, connect: bool) -> None:
    """One aggregator after the other, in no order; then what hangs on them can be lost again."""
    ears = Ears()
    with attached(job, ears, connect=connect) as session:
        run_with_breakpoints(session)

        def lose(text: str) -> None:
            gone = RankSet.parse(text)
            ears.reported.clear()
            for daemon in set(daemons_of(job, gone).values()):
                os.kill(daemon, signal.SIGKILL)
            wait_until(
                lambda: gone <= ears.ranks("lost"), f"[{gone}] are reported lost", DEADLINE_S
            )
            wait_free(job, gone)

        def take_back(text: str, back: RankSet) -> None:
            ranks = RankSet.parse(text)
            again = session.ranks(ranks).reattach(timeout_s=DEADLINE_S)
            assert RankSet.union(each.ranks for each in again) == ranks, ears.texts("notice")
            assert session.evaluate("1", timeout_s=10).missing.lost == session.set - back
            session.ranks(ranks).continue_(wait=False).check()

        lose("0-7")
        back = RankSet()
        for text in ("6-7", "2-3", "0-1", "4-5"):
            back |= RankSet.parse(text)
            take_back(text, back)
        others = daemons_of(job, RankSet.parse("4-7"))
        lose("0-3")
        take_back("2-3", RankSet.parse("2-7"))
        take_back("0-1", session.set)
        assert daemons_of(job, RankSet.parse("4-7")) == others
        assert [each.ranks for each in session.breakpoints()] == [session.set]
        session.interrupt(timeout_s=DEADLINE_S)
        assert session.evaluate("hit_count > 0").values == dict.fromkeys(range(RANKS), 1)
    assert_untouched(job.ranks)


def test_ranks_that_still_wait_are_taken_to_main(program: Program) -> None:
    """The aggregator that was to take them is killed while the job is launched."""
    killed: list[int] = []

    def on_event(reported: Notification) -> None:
        stages = {getattr(each.record, "stage", "") for each in reported.classes}
        if "held" in stages and not killed:
            daemons = [
                pid
                for pid, line in our_processes().items()
                if "pgdb.backend" in line and "pgdb.backend" in command_of(parent_of(pid))
            ]
            killed.append(max(daemons))
            os.kill(killed[0], signal.SIGKILL)

    line = find_mpi("openmpi").line(4, program)
    with pgdb.launch(line, on_event=on_event, aggregators=2) as session:
        lost = session.named_set("lost")
        assert lost in (RankSet.parse("0-1"), RankSet.parse("2-3"))
        (stopped,) = session.ranks(lost).reattach(timeout_s=DEADLINE_S)
        assert stopped.ranks == lost
        assert (stopped.record.reason, stopped.record.frame.function) == ("main", "main")
        session.break_at("hit").check()
        session.continue_(timeout_s=DEADLINE_S).check()
        assert set(session.evaluate("hit_count").values) == set(range(4))


@pytest.mark.parametrize("who", ["anchor", "launcher"])
def test_what_started_the_aggregators_is_killed(job: Job, who: str) -> None:
    with attached(job, Ears(), grace_s=2) as session:
        run_with_breakpoints(session)
        victim = parent_of(aggregator_of(job.ranks[2]))
        while who == "launcher" and parent_of(victim) != os.getpid():
            victim = parent_of(victim)
        os.kill(victim, signal.SIGKILL)
        if who == "anchor":
            # The launcher ends all of its processes then.
            wait_free(job, session.set)
        answer = session.evaluate("1", timeout_s=10)
        assert answer.missing.running | answer.missing.lost == session.set
        session.reattach(timeout_s=DEADLINE_S)
        session.interrupt(timeout_s=DEADLINE_S)
        assert set(session.evaluate("1").values) == set(range(RANKS))
    wait_gone(our_processes, grace_s=2.0)
    assert_untouched(job.ranks)


def test_the_launcher_leaves_the_other_aggregators_alone(
    mpi: Mpi, builder: Builder, build: Build
) -> None:
    """MPICH 5 takes a process that leaves before its exit handlers have run for a crash."""
    program = build("storm.c")
    with run_job(builder, mpi.line(RANKS, program), program, RANKS) as job:
        ears = Ears()
        with attached(job, ears) as session:
            anchor = parent_of(daemon := aggregator_of(job.ranks[6]))
            os.kill(daemon, signal.SIGKILL)
            wait_until(
                lambda: ears.ranks("lost") == RankSet.parse("6-7"), "they are lost", DEADLINE_S
            )
            wait_until(lambda: not is_alive(anchor), "its anchor has left", DEADLINE_S)
            assert session.evaluate("1").values == dict.fromkeys(range(6), 1)
            assert ears.ranks("lost") == RankSet.parse("6-7")


def test_an_aggregator_hangs(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others answer; it is ended with the session, and its ranks run on."""
    monkeypatch.setattr(overlay_module, "LEAVE_TIMEOUT_S", LEAVE_HANGS_S + 2.0)
    with attached(job, Ears()) as session:
        os.kill(aggregator_of(job.ranks[2]), signal.SIGSTOP)
        answer = session.evaluate("1", timeout_s=1)
        # It is in the middle of the chain: those below it cannot be reached either.
        assert set(answer.values) == {0, 1}
        assert answer.missing.late == RankSet.parse("2-7")
    assert_untouched(job.ranks)


def test_the_clock_is_set_all_the_time(job: Job, builder: Builder) -> None:
    clock = Clock(builder)
    clock.set(YEARS_38_S)
    line = ("attach", "--aggregators", 2, job.pid)
    with Terminal(*PGDB, *line, changes=clock.changes) as terminal:
        terminal.expect(PROMPT)
        ours = processes_with(f"{MARK}={terminal.mark}")
        kinds = ("pgdb.backend", "-i=mi3", " attach ")
        for pid, words in ours.items():
            if any(each in words for each in kinds):
                assert str(clock.library) in Path(f"/proc/{pid}/maps").read_text(), words
        assert all(any(each in words for words in ours.values()) for each in kinds)
        terminal.ask("break hit", r"\[0-7\] Breakpoint 1: ")
        terminal.line("c")
        terminal.expect_ranks("Breakpoint 1, hit", "0-7")
        terminal.ask("p hit_count > 0", r"\[0-7\] hit_count > 0 = 1")
        # Each timer ends when it is due, and no sooner.
        gdb = int(status(job.ranks[3], "TracerPid"))
        os.kill(gdb, signal.SIGSTOP)
        terminal.ask("timeout 1 p 6 * 7", r"\[3\] +no answer yet after \d+ s")
        os.kill(gdb, signal.SIGCONT)
        terminal.expect(r"\[3\] .*= 42")
        os.kill(gdb, signal.SIGKILL)
        terminal.expect(r"\[3\] +lost: GDB was ended by signal 9")
        terminal.ask("reattach 3", r"\[3\] ")
        terminal.ask("set confirm off")
        terminal.ask("delete")
        terminal.ask("c &")
        wait_until(lambda: all(status(pid, "State")[0] in "RS" for pid in job.ranks.values()), "go")
        terminal.line("interrupt")
        terminal.expect_ranks("interrupted", "0-7")
        terminal.line("quit")
        terminal.wait()
    assert_untouched(job.ranks)


# A tmpfs with no room left, in a mount namespace of the command's own.
_ON_A_FULL_DISK = (
    'mount -t tmpfs -o size=64k,mode=700 tmpfs "$0" && '
    '{ head -c 1M /dev/zero > "$0/full" 2> /dev/null; exec "$@"; }'
)


def on_a_full_disk(directory: Path) -> list[str]:
    """Return the command that is PGDB with a full disk at *directory*."""
    unshare = shutil.which("unshare")
    if unshare is None or os.geteuid() != 0:
        pytest.skip("mounting takes unshare, and root")
    return [unshare, "--mount", "sh", "-c", _ON_A_FULL_DISK, str(directory), *PGDB]


def test_the_disk_is_full(job: Job, tmp_path: Path) -> None:
    """Temporary, home, cache and runtime directory: the session is as always."""
    variables = ("TMPDIR", "XDG_RUNTIME_DIR", "HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
    finished = run_pgdb(
        *("attach", "--batch"),
        *ex("break hit", "c", "define f", "p 1", "end", "f", "p hit_count > 0"),
        job.pid,
        changes=dict.fromkeys(variables, str(tmp_path)),
        command=on_a_full_disk(tmp_path),
    )
    assert finished.status == 0, finished.out + finished.err
    reported = finished.out + finished.err
    assert reported.count("GDB's index cache is not used, which takes longer: ") == 1, reported
    assert "[0-7] hit_count > 0 = 1" in finished.out
    assert_untouched(job.ranks)


def test_places_that_may_not_be_written_to(job: Job, tmp_path: Path) -> None:
    variables = (
        *("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"),
        *("XDG_RUNTIME_DIR", "TMPDIR"),
    )
    command = on_a_full_disk(tmp_path)
    command[4] = 'mount -t tmpfs -o ro,mode=700 tmpfs "$0" && exec "$@"'
    finished = run_pgdb(
        *("attach", "--batch"),
        *ex("break hit", "c", "p hit_count > 0"),
        job.pid,
        changes=dict.fromkeys(variables, str(tmp_path)),
        command=command,
    )
    assert finished.status == 0, finished.out + finished.err
    reported = finished.out + finished.err
    assert (
        reported.count(f"index cache is not used, which takes longer: {tmp_path} may not be") == 1
    )
    assert "[0-7] hit_count > 0 = 1" in finished.out
    assert_untouched(job.ranks)


def test_the_disk_gets_full_during_a_session(job: Job, tmp_path: Path) -> None:
    variables = ("TMPDIR", "XDG_RUNTIME_DIR", "HOME", "XDG_STATE_HOME")
    command = on_a_full_disk(tmp_path)
    # The file system is full only on request.
    command[4] = 'mount -t tmpfs -o size=4M,mode=700 tmpfs "$0" && exec "$@"'
    changes = dict.fromkeys(variables, str(tmp_path))
    with Terminal(*command, "attach", job.pid, changes=changes) as terminal:
        terminal.expect(PROMPT)
        inside = Path(f"/proc/{terminal.pid}/root{tmp_path}")
        with pytest.raises(OSError, match="No space left"), (inside / "full").open("wb") as file:
            while True:
                file.write(bytes(1 << 16))
                file.flush()
        terminal.ask("break hit", r"\[0-7\] Breakpoint 1: ")
        terminal.line("c")
        terminal.expect_ranks("Breakpoint 1, hit", "0-7")
        terminal.expect(PROMPT)
        # A definition goes to GDB through a file.
        for line in ("define f", "p 40 + 2", "end"):
            terminal.line(line)
        terminal.expect(PROMPT)
        terminal.ask("dump hit_count " + str(tmp_path / "values.npy"), "No space left")
        terminal.ask("p hit_count > 0", r"\[0-7\] hit_count > 0 = 1")
        terminal.line("quit")
        # A command has failed, as it had to.
        assert terminal.wait() == 1
    assert_untouched(job.ranks)


@pytest.mark.parametrize(
    "options",
    [
        ("--steps", 12),
        # The whole kinds that seldom come in a short one.
        ("--steps", 4, "--only", "aggregator killed during attach"),
        ("--steps", 6, "--only", "disk full", "--only", "clock set"),
    ],
    ids=["any", "attach", "places"],
)
def test_a_short_soak(options: tuple[object, ...]) -> None:
    """Random steps and faults, compared with /proc after each; bench/soak is the long form."""
    line = [sys.executable, "-m", "bench.soak", "--seed", "6", "--verbose", *options]
    finished = subprocess.run(
        list(map(str, line)),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout
