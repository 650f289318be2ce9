"""GDB's language on ranks that run, and in a GDB that complains about itself."""

from __future__ import annotations

from typing import Any

import pytest

from pgdb.ranks import RankSet
from tests.conftest import Build
from tests.support.programs import Mpi
from tests.support.terminal import Finished, ex, run_json

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

# Each needs the frame of a rank, and is carried out by GDB as it is typed.
_ABOUT_FRAMES = (
    "info frame",
    "with language c -- print i",
    "faas print i",
    "thread apply all -q print i",
    "whatis i",
    "seen",
)


def records(finished: Finished, command: str) -> dict[str, Any]:
    """Return the record of each rank set in the last answer to a command."""
    answer = finished.answers(command)[-1]
    return {each["ranks"]: each["record"] for each in answer["classes"]}


def test_a_rank_that_runs_has_no_frame_to_look_at(mpi: Mpi, build: Build) -> None:
    finished = run_json(
        "launch",
        *ex("define seen", "print i", "end", "break hit", "continue"),
        *ex("proc 1 delete", "proc 1 continue &", *_ABOUT_FRAMES, "ptype struct nosuch", "kill"),
        *mpi.line(2, build("storm.c")),
    )
    for command in _ABOUT_FRAMES:
        (answer,) = finished.answers(command)
        assert [each["ranks"] for each in answer["classes"]] == ["0"], command
        assert answer["missing"]["running"] == "1", command
    # Only names without a frame are another matter while it runs.
    found = records(finished, "ptype struct nosuch")
    assert found == {"0-1": {"kind": "error", "message": "No struct type named nosuch."}}


def test_a_warning_about_gdb_itself_does_not_end_it(mpi: Mpi, build: Build) -> None:
    warnings = ("maint internal-warning odd", "maint demangler-warning odder")
    finished = run_json(
        "launch", *ex(*warnings, "print 40 + 2", "kill"), *mpi.line(2, build("bodies.c"))
    )
    for command, word in zip(warnings, ("odd", "odder"), strict=True):
        found = records(finished, command.replace("maint", "maintenance"))
        assert f"warning: {word}\n" in found["0-1"]["text"]
    assert records(finished, "print 40 + 2")["0-1"]["text"] == "42"


def test_with_carries_out_the_last_command_again(mpi: Mpi, build: Build) -> None:
    finished = run_json(
        "launch",
        *ex('print "abcdef"', "with print elements 3", "with print elements 2"),
        *ex("with print elements 3 -- proc 0 print 1", "kill"),
        *mpi.line(2, build("bodies.c")),
    )
    for count, text in ((3, '"abc"...'), (2, '"ab"...')):
        # PGDB gives the setting to 'print', whose values it compares.
        found = records(finished, f'print -elements {count} -- "abcdef"')
        assert found["0-1"]["text"] == text
    assert "'proc' is a command of PGDB's" in finished.out


def test_an_error_of_gdb_at_a_stop_is_a_stop(mpi: Mpi, build: Build) -> None:
    finished = run_json(
        "launch",
        *ex('dprintf work,"%d\\n", nosuch', "continue", "print round", "delete", "continue"),
        *mpi.line(2, build("bodies.c")),
    )
    assert finished.status == 0, finished.out
    # Not the answer to dprintf itself, which has the expression too.
    said = [*finished.of_type("output"), *finished.of_type("stop")]
    assert any("nosuch" in str(each) for each in said), finished.out
    stopped = finished.answers("continue")[0]["classes"]
    assert RankSet.union(RankSet.parse(each["ranks"]) for each in stopped) == RankSet([0, 1])
    assert {each["record"]["frame"]["function"] for each in stopped} == {"work"}
    assert records(finished, "print round")["0-1"]["text"] == "0"
    assert "rank 0 sum 100 args 1" in finished.out


def test_an_error_of_gdb_at_a_stop_stops_threads_that_block_the_interrupt(
    mpi: Mpi, build: Build
) -> None:
    # The threads of Open MPI run on at the error, and let no signal through.
    finished = run_json(
        "launch",
        *ex("tbreak work", "continue", 'dprintf twice,"%d"', "continue", "print value"),
        *ex(
            "info threads", "show scheduler-locking", "delete", "tbreak mirror", "continue", "kill"
        ),
        *mpi.line(2, build("language.c")),
    )
    assert "Wrong number of arguments" in finished.out
    for number, function in ((1, "twice"), (2, "mirror")):
        stopped = finished.answers("continue")[number]["classes"]
        assert RankSet.union(RankSet.parse(each["ranks"]) for each in stopped) == RankSet([0, 1])
        assert {each["record"]["frame"]["function"] for each in stopped} == {function}
    assert records(finished, "print value")["0-1"]["text"] == "0"
    (threads,) = finished.answers("info threads")
    assert "(running)" not in str(threads)
    assert "replay" in records(finished, "show scheduler-locking")["0-1"]["text"]
