"""Jobs with further worlds, which MPI_Comm_spawn has started: named, and in the session."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

import pgdb
from tests.support.programs import Builder, Mpi, find_mpi, wait_until
from tests.support.terminal import DEADLINE_S, ex, run_json, run_pgdb

pytestmark = pytest.mark.mpi

SIZES = (2, 2, 3)


# MPICH 4.0.2 of Debian 12 cannot spawn: "Error in spawn call".
@pytest.fixture(scope="module", params=("openmpi", "openmpi5", "mpich"))
def spawner(request: pytest.FixtureRequest, builder: Builder) -> Iterator[subprocess.Popen[bytes]]:
    """A launcher whose 2 ranks have started 2 and 3 further ones; all of them wait."""
    mpi = find_mpi(request.param)
    line = mpi.line(2, builder.build(mpi, "spawns.c"))
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            for _ in range(sum(SIZES)):
                assert process.stdout.readline().endswith(b"waits\n")
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=DEADLINE_S)


def test_worlds_are_named_and_can_be_in_the_session(spawner: subprocess.Popen[bytes]) -> None:
    (job,) = (
        each
        for line in run_pgdb("jobs", "--json").out.splitlines()
        for each in (json.loads(line),)
        if each["target"] == str(spawner.pid)
    )
    assert (job["ranks"], *job["spawned"]) == SIZES
    parents = run_pgdb("attach", "--batch", *ex("print rank"), spawner.pid)
    assert "world 1 has 2 ranks (pids " in parents.err, parents.err
    assert f"'pgdb attach --world 1 {spawner.pid}'" in parents.err
    pids = parents.err.partition("world 2 has 3 ranks (pids ")[2].partition(")")[0].split(", ")
    assert len(pids) == 3
    # A child's pid means its world, as the number does.
    for words in ((pids[1],), ("--world", "2", spawner.pid)):
        child = run_json("attach", *ex("print rank"), *words)
        assert child.of_type("hello")[0]["ranks"] == "0-2"
        values = {each["ranks"]: each["value"] for each in child.answer("print rank")["classes"]}
        assert values == {"0": 0, "1": 1, "2": 2}
    commands = ex("proc 2.1-2 print rank", "proc @world1 print rank")
    everything = run_json("attach", *commands, "--world", "all", spawner.pid)
    assert everything.of_type("hello")[0]["ranks"] == "0-6"
    answers = [
        {each["ranks"]: each["value"] for each in answer["classes"]}
        for answer in everything.answers("print rank")
    ]
    assert answers == [{"5": 1, "6": 2}, {"2": 0, "3": 1}]
    wrong = run_pgdb("attach", "--batch", "--world", "3", spawner.pid)
    assert wrong.status == 3 and "it has worlds 0 to 2" in wrong.err


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
