"""Jobs with further worlds, which MPI_Comm_spawn has started: named, and in the session."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

import pgdb
from pgdb.jobs import procfs
from pgdb.ranks import RankSet
from tests.support.processes import status, wait_until
from tests.support.programs import Builder, Mpi, Program, find_mpi
from tests.support.terminal import (
    DEADLINE_S,
    PGDB,
    PROMPT,
    Terminal,
    ex,
    foreign_code,
    run_json,
    run_pgdb,
)

pytestmark = pytest.mark.mpi

SIZES = (2, 2, 3)
LOSS_DEADLINE_S = 120.0
"""Of which 30 s are the grace time of the aggregators."""
SEARCH_DEADLINE_S = 400.0
"""Of which most is the pause between two searches, 50 times as long as one takes."""


# MPICH 4.0.2 of Debian 12 cannot spawn: "Error in spawn call".
MPIS = ("openmpi", "openmpi5", "mpich", "intel")


@pytest.fixture(scope="module", params=MPIS)
def spawner(request: pytest.FixtureRequest, builder: Builder) -> Iterator[subprocess.Popen[bytes]]:
    """A launcher whose 2 ranks have started 2 and 3 further ones; all of them wait."""
    mpi = find_mpi(request.param)
    line = mpi.line(2, builder.build(mpi, "spawns.c"))
    # Intel's library crashes in MPI_Comm_spawn without the variable (2021.18).
    with subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**os.environ, "I_MPI_SPAWN": "1"},
    ) as process:
        try:
            assert process.stdout is not None
            for _ in range(sum(SIZES)):
                assert process.stdout.readline().endswith(b"waits\n")
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=DEADLINE_S)


def processes_of(program: Program) -> list[int]:
    path = str(program.path)
    return [pid for pid in procfs.all_pids() if procfs.executable(pid) == path]


def test_worlds_are_named_and_can_be_in_the_session(spawner: subprocess.Popen[bytes]) -> None:
    def listed() -> dict[str, Any]:
        (job,) = (
            each
            for line in run_pgdb("jobs", "--json").out.splitlines()
            for each in (json.loads(line),)
            if each["target"] == str(spawner.pid)
        )
        return job  # type: ignore[no-any-return]

    jobs: list[dict[str, Any]] = []

    def is_counted() -> bool:
        jobs[:] = [listed()]
        return jobs[0]["ranks"] is not None

    # PGDB counts the ranks of as many jobs of the machine as it can in a moment.
    wait_until(is_counted, "the ranks are counted")
    (job,) = jobs
    assert (job["ranks"], *job["spawned"]) == SIZES
    parents = run_pgdb("attach", "--batch", *ex("print rank"), spawner.pid)
    assert "world 1 has 2 ranks (pids " in parents.out, parents.out
    assert "'worlds add 1'" in parents.out
    pids = parents.out.partition("world 2 has 3 ranks (pids ")[2].partition(")")[0].split(", ")
    assert len(pids) == 3
    # A child's pid means its world, as the number does.
    for words in ((pids[1],), ("--world", "2", spawner.pid)):
        child = run_json("attach", *ex("print rank", "print $_world"), *words)
        assert [each["value"] for each in child.answer("print $_world")["classes"]] == [2]
        assert child.of_type("hello")[0]["ranks"] == "0-2"
        values = {each["ranks"]: each["value"] for each in child.answer("print rank")["classes"]}
        assert values == {"0": 0, "1": 1, "2": 2}
    commands = ex("proc 2.1-2 print rank", "proc @world1 print rank", "print $_world")
    everything = run_json("attach", *commands, "--world", "all", spawner.pid)
    assert everything.of_type("hello")[0]["ranks"] == "0-6"
    answers = [
        {each["ranks"]: each["value"] for each in answer["classes"]}
        for answer in everything.answers("print rank")
    ]
    assert answers == [{"5": 1, "6": 2}, {"2": 0, "3": 1}]
    worlds = everything.answer("print $_world")["classes"]
    assert {each["ranks"]: each["value"] for each in worlds} == {"0-1": 0, "2-3": 1, "4-6": 2}
    wrong = run_pgdb("attach", "--batch", "--world", "3", spawner.pid)
    assert wrong.status == 3 and "it has worlds 0 to 2" in wrong.err


def test_worlds_join_a_session_with_all_that_it_has(
    builder: Builder, spawner: subprocess.Popen[bytes]
) -> None:
    wait = builder.build(find_mpi("openmpi"), "spawns.c").at("waiting")
    commands = ex(
        "worlds",
        f"break {wait} if rank >= 0",
        "proc 1 tbreak main",
        "display rank",
        "set print pretty on",
        "worlds add 2",
        "info breakpoints",
        "proc @world2 show print pretty",
        "proc 2.0-1 info display",
        "continue",
        "worlds add 1",
        "print $_world",
        "print rank",
        "worlds add 1",
        "worlds add 9",
    )
    done = run_json("attach", *commands, spawner.pid)
    listed, second, first = (each["worlds"] for each in done.of_type("worlds"))
    assert [each["size"] for each in listed] == list(SIZES)
    assert [each.get("ranks") for each in listed] == ["0-1", None, None]
    assert [len(each["pids"]) for world in listed for each in world["hosts"]] == list(SIZES)
    # The ranks are numbered in the order in which they have joined.
    assert [(each["world"], each["ranks"]) for each in (*second, *first)] == [
        (2, "2-4"),
        (1, "5-6"),
    ]
    texts = [each["text"] for each in done.answer("info breakpoints")["classes"]]
    ranks = [each["ranks"] for each in done.answer("info breakpoints")["classes"]]
    assert set(ranks) == {"0,2-4", "1"}, texts
    assert all("rank >= 0" in each for each in texts), texts
    (pretty,) = done.answer("show print pretty")["classes"]
    assert pretty["ranks"] == "2-4" and "is on" in pretty["text"]
    (display,) = done.answer("info display")["classes"]
    assert display["ranks"] == "2-3" and "rank" in display["text"]
    # The focus on all ranks has grown: all of them have come to the breakpoint.
    hits = [
        each["ranks"]
        for line in done.of_type("stop")
        for each in line["classes"]
        if each.get("breakpoint") == 1
    ]
    assert RankSet.union(map(RankSet.parse, hits)) == RankSet(range(5))
    worlds = done.answer("print $_world")["classes"]
    assert {each["ranks"]: each["value"] for each in worlds} == {"0-1": 0, "2-4": 2, "5-6": 1}
    values = {each["ranks"]: each["value"] for each in done.answer("print rank")["classes"]}
    assert values == {"0,2,5": 0, "1,3,6": 1, "4": 2}
    errors = [each["message"] for each in done.of_type("error")]
    assert errors == [
        "world 1 is in the session: [5-6]",
        "there is no world '9' to attach to; no further world is there",
    ]


def wait_for_parents(job: subprocess.Popen[bytes], program: Program) -> None:
    """Wait until the children are there, and the parents have left MPI_Comm_spawn behind."""
    signs = ("world 1 has 3 ranks", program.at("receive"), program.at("barrier"))

    def have_come() -> bool:
        out = run_pgdb("attach", "--batch", *ex("info proc"), job.pid).out
        return all(sign in out for sign in signs)

    wait_until(have_come, "the parents wait behind MPI_Comm_spawn")


def test_why_distinguishes_the_ranks_of_two_worlds(builder: Builder) -> None:
    mpi = find_mpi("openmpi")
    program = builder.build(mpi, "two_worlds.c")
    line = mpi.line(2, program)
    with subprocess.Popen(line, stdin=subprocess.DEVNULL) as job:
        try:
            wait_for_parents(job, program)
            alone = run_json("attach", *ex("why"), job.pid).of_type("why")[0]
            both = run_json("attach", *ex("why"), "--world", "all", job.pid).of_type("why")[0]
        finally:
            job.terminate()
            job.wait(DEADLINE_S)
    (found,) = alone["verdicts"]
    assert (found["kind"], found["ranks"], found["victims"]) == ("unknown", "0", "1")
    assert "a process of another world; PGDB does not know which" in found["text"]
    # The children number their ranks from 0, too.
    places = {each["ranks"]: (each["call"], each["members"]) for each in both["waits"]}
    assert places["1"] == ("MPI_Barrier", "0-1")
    assert places["2-3"] == ("MPI_Barrier", "2-4")
    (found,) = both["verdicts"]
    assert (found["ranks"], found["victims"]) == ("0,4", "1-3")


@pytest.mark.parametrize("name", MPIS)
def test_why_advises_to_add_worlds_while_one_is_not_in_the_session(
    name: str, builder: Builder
) -> None:
    mpi = find_mpi(name)
    program = builder.build(mpi, "two_worlds.c")
    line = mpi.line(2, program, "silent")
    environment = {**os.environ, "I_MPI_SPAWN": "1"}  # as above, for Intel's library
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, env=environment) as job:
        try:
            wait_for_parents(job, program)
            alone = run_json("attach", *ex("why"), job.pid).of_type("why")[0]
            both = run_json("attach", *ex("why"), "--world", "all", job.pid).of_type("why")[0]
        finally:
            job.terminate()
            job.wait(DEADLINE_S)
    (found,) = alone["verdicts"]
    assert "'worlds add' attaches" in found["decides"], found
    (found,) = both["verdicts"]
    assert found["ranks"] == "0" and "worlds add" not in found["decides"], found
    assert "all worlds of the job are in the session" in found["decides"]


def test_worlds_that_appear_while_a_launched_job_runs_are_named(builder: Builder) -> None:
    mpi: Mpi = find_mpi("openmpi")
    program = builder.build(mpi, "spawns.c")
    notes: list[str] = []

    def listen(notification: pgdb.Notification) -> None:
        if notification.kind == "notice":
            notes.append(notification.text)

    with pgdb.launch(mpi.line(2, program), on_event=listen) as session:
        session.execute(f"tbreak {program.at('wait')}")
        session.continue_()
        wait_until(lambda: any("world 2 has 3 ranks" in each for each in notes), "the note")


@pytest.mark.parametrize("name", MPIS)
def test_spawned_ranks_are_attached_to_when_ranks_stop(
    builder: Builder, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The parents stop of themselves, between two MPI_Comm_spawn and behind both."""
    mpi: Mpi = find_mpi(name)
    program = builder.build(mpi, "spawns.c")
    monkeypatch.setenv("I_MPI_SPAWN", "1")
    joined: dict[int, RankSet] = {}
    notes: list[str] = []

    def listen(notification: pgdb.Notification) -> None:
        if notification.kind == "world":
            joined[notification.world.number] = notification.ranks
        elif notification.kind == "notice":
            notes.append(notification.text)

    spawn, wait = program.at("spawn"), program.at("waiting")
    with pgdb.launch(mpi.line(2, program), on_event=listen, spawned="attach") as session:
        session.execute(f"break {wait}")
        session.execute(f"tbreak {spawn} if count == 3")
        session.continue_()
        wait_until(lambda: 1 in joined, "world 1 joins")
        assert str(session.set) == "0-3"
        session.continue_(wait=False)
        wait_until(lambda: 2 in joined, "world 2 joins", SEARCH_DEADLINE_S)
        # Its ranks may be stopped within MPI_Init, where the parents wait for them. Ranks that
        # were behind the breakpoint when PGDB saw them come to it once more.
        session.ranks("@world2").continue_(wait=False)
        session.wait()
        assert str(session.set) == "0-6" and session.worlds.keys() == {0, 1, 2}
        assert not [each for each in notes if "not in the session" in each], notes
        lines = {each.record.frames[-1].line for each in session.backtrace().classes}
        assert lines == {program.line("waiting")}
        values = session.evaluate("rank").values
        assert values == {0: 0, 1: 1, 2: 0, 3: 1, 4: 0, 5: 1, 6: 2}


def test_ranks_that_wait_for_a_stopped_world_are_said_to(builder: Builder) -> None:
    """The children are attached to before their MPI_Init, and the parents wait for them."""
    mpi = find_mpi("openmpi")
    program = builder.build(mpi, "spawns.c", "-DLATE")
    notes: list[str] = []

    def listen(notification: pgdb.Notification) -> None:
        if notification.kind == "notice":
            notes.append(notification.text)

    expected = (
        "[2-3] stopped: ranks that wait for them, as in MPI_Comm_spawn, go on when they run "
        "('proc @world1 continue')"
    )
    before = {*processes_of(program)}
    with pgdb.launch(mpi.line(2, program), on_event=listen, spawned="attach") as session:
        session.execute(f"break {program.at('waiting')}")
        session.execute(f"tbreak {program.at('spawn')} if count == 3")
        session.continue_(wait=False)
        wait_until(lambda: len({*processes_of(program)} - before) == 4, "the children are there")
        session.ranks("1").interrupt()
        wait_until(lambda: expected in notes, "the note", SEARCH_DEADLINE_S)
        session.ranks("1").continue_(wait=False)
        session.ranks("@world1").execute("set variable late = 0")
        session.ranks("@world1").continue_(wait=False)
        session.wait()
        lines = {
            str(each.ranks): each.record.frames[-1].line for each in session.backtrace().classes
        }
        assert lines == {"0-1": program.line("spawn"), "2-3": program.line("waiting")}


@pytest.mark.parametrize("name", ["openmpi", "openmpi5"])
def test_spawned_ranks_are_held_before_main(builder: Builder, name: str) -> None:
    mpi: Mpi = find_mpi(name)
    program = builder.build(mpi, "spawns.c")
    joined: list[RankSet] = []

    def listen(notification: pgdb.Notification) -> None:
        if notification.kind == "world":
            joined.append(notification.ranks)

    def functions(session: pgdb.Session, which: str) -> set[str]:
        classes = session.ranks(which).backtrace().classes
        return {each.record.frames[0].function for each in classes}

    with pgdb.launch(mpi.line(2, program), on_event=listen, spawned="hold") as session:
        session.execute(f"break {program.at('wait')}")
        session.continue_(wait=False)
        for number, count in ((1, 2), (2, 3)):
            wait_until(lambda: len(joined) >= number, f"world {number} joins")  # noqa: B023
            which = f"@world{number}"
            assert len(session.ranks(which).set) == count
            assert functions(session, which) == {"main"}
            session.ranks(which).continue_(wait=False)
        session.wait()
        assert str(session.set) == "0-6" and {0, 1, 2} == session.worlds.keys()
        lines = {each.record.frames[-1].line for each in session.backtrace().classes}
        assert lines == {program.line("wait")}


def test_spawned_ranks_run_on_when_the_session_that_holds_them_is_killed(
    builder: Builder,
) -> None:
    mpi: Mpi = find_mpi("openmpi")
    program = builder.build(mpi, "spawns.c")
    before = {*processes_of(program)}
    with Terminal(*PGDB, "launch", "--spawned", "hold", *mpi.line(2, program)) as terminal:
        terminal.expect(PROMPT)
        terminal.line("continue &")
        terminal.expect(r"\[2-3\] are in the session now: 1\.0-1")
        os.kill(terminal.pid, signal.SIGKILL)
        # All aggregators detach, and nothing holds the ranks of the next MPI_Comm_spawn.
        wait_until(
            lambda: (
                len({*processes_of(program)} - before) == sum(SIZES)
                and all(
                    status(pid, "TracerPid") == "0" for pid in {*processes_of(program)} - before
                )
            ),
            "all ranks run free",
            LOSS_DEADLINE_S,
        )
        assert all(not foreign_code(pid) for pid in {*processes_of(program)} - before)
