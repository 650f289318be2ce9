"""Comparing and checking on real ranks: save, compare, assert, stat, expand, sets by condition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pgdb
from pgdb.errors import CommandError
from pgdb.ranks import RankSet
from tests.conftest import Build, StartJob
from tests.support.programs import Mpi
from tests.support.terminal import Finished, assert_untouched, ex, run_json, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]


def printed(finished: Finished) -> str:
    """Return what PGDB itself has said."""
    return "".join(each["text"] for each in finished.of_type("output") if each["stream"] == "pgdb")


def asserted(finished: Finished, condition: str) -> dict[str, Any]:
    (found,) = [each for each in finished.of_type("assert") if each["condition"] == condition]
    return found


def compared(finished: Finished, expression: str, before: str) -> dict[str, Any]:
    (found,) = [
        each
        for each in finished.of_type("compare")
        if (each["expression"], each["before"]) == (expression, before)
    ]
    return found


def test_comparing_and_checking(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("ring.c")
    file = tmp_path / "ring.json"
    commands = (
        "tbreak exchange",
        "c",
        "up",
        # Some checks hold, others fail.
        "assert size",
        "assert local increasing",
        "assert local in 0..4.5",
        "assert rank >= 0 && size == 4",
        "assert local == 1.5 * rank",
        "assert particle->id in 0..2",
        "assert data[0]@8 < 30",
        "assert rank / 3 same",
        "proc 0-1 assert nosuch > 0",
        # Sets by condition.
        "defset late if local > 2",
        "proc @late print rank",
        "defset @none if size == 5",
        "defset error if size",
        "proc 1 defset late if nosuch",
        "print @1",
        # Between rank sets.
        "compare size 0-1 with 2-3",
        "compare *particle 0-1 with 2-3 --pairwise",
        "compare local 0-1 with 2-3",
        # Between now and then.
        "save then *particle",
        "save there local",
        f"save there -o {file}",
        "save nothing nosuch",
        "saved",
        "proc 2 set var particle->x[1] = 0.0/0.0",
        "compare *particle with then",
        "compare with then",
        "compare local with there",
        "compare local with nowhere",
        # Summed up.
        "stat local",
        "proc 1-2 stat data[0]@8",
        "stat particle->x[1]",
        "expand",
        # In full.
        "print particle",
        "expand",
        "expand [2]",
        "ranks 1-2",
        "delete",
        "proc 3 c &",
        "assert size == 4",
        "assert size == 4 --ranks-missing-ok",
        "defset awake if size == 4",
        "proc @awake print size",
    )
    finished = run_json("launch", *ex(*commands), *mpi.line(4, program))
    # Worse than a check that fails: rank 3 did not answer the last ones.
    assert finished.status == 4, finished.out
    assert not [each for each in finished.of_type("stop") if "signal" in each], finished.out

    for condition in (
        "size is the same on all ranks",
        "local is increasing from rank to rank",
        "local is in 0..4.5",
        "rank >= 0 && size == 4",
        "local == 1.5 * rank",
    ):
        found = asserted(finished, condition)
        assert found["ok"], found
        assert found["passed"] == "0-3"
    over = asserted(finished, "particle->id is in 0..2")
    assert (over["ok"], over["passed"]) == (False, "0-2")
    assert over["failing"] == [{"ranks": "3", "value": "3"}]
    array = asserted(finished, "data[0]@8 < 30")
    assert (array["passed"], array["failing"][0]["ranks"]) == ("0-2", "3")
    assert array["failing"][0]["value"] == "[0] = 30"
    odd = asserted(finished, "rank / 3 is the same on all ranks")
    assert (odd["common"], odd["passed"]) == ("0", "0-2")
    assert odd["failing"] == [{"ranks": "3", "value": "1"}]
    unknown = asserted(finished, "nosuch > 0")
    assert [(each["ranks"], each["error"]) for each in unknown["failing"]] == [("0-1", True)]

    said = printed(finished)
    assert "@late is [2-3]: 2 of 4 ranks, on which 'local > 2' is true now" in said
    assert "@none is empty" in said
    errors = [each["message"] for each in finished.of_type("error")]
    assert any("@error is a set of PGDB's own" in each for each in errors), errors
    assert any("'nosuch' failed on [1]: No symbol" in each for each in errors), errors
    assert any("'print particle->x[1]' shows every value" in each for each in errors), errors
    assert any("no answer is saved as 'nowhere' (then, there)" in each for each in errors), errors
    # A condition that failed has left the set as it was.
    assert finished.answers("print rank")[0]["ranks"] == "2-3"

    same = compared(finished, "size", "[0-1]")
    assert (same["same"], same["equal"], same["equal_others"]) == (True, "0-1", "2-3")
    pairs = compared(finished, "*particle", "[0-1]")
    parts = {
        each["ranks"]: [part["path"] for part in each["parts"]] for each in pairs["differences"]
    }
    assert parts == {"0": [".x[2]", ".id"], "1": [".x[2]", ".id"]}
    assert {each["others"] for each in pairs["differences"]} == {"2", "3"}
    lone = compared(finished, "local", "[0-1]")
    assert [each["value"] for each in lone["only_before"]] == [0, 1.5]
    assert [each["value"] for each in lone["only_after"]] == [3, 4.5]

    for expression in ("*particle", "print *particle"):
        changed = compared(finished, expression, "then")
        assert changed["equal"] == "0-1,3"
        (difference,) = changed["differences"]
        assert difference["ranks"] == "2"
        (part,) = difference["parts"]
        assert part["path"] == ".x[1]"
        assert "nan" in part["after"]
    assert compared(finished, "local", "there")["same"]
    assert "nothing:" not in said

    local, data, nan = finished.of_type("stat")
    assert (local["count"], local["low"], local["high"]) == (4, 0, 4.5)
    assert (local["at_low"], local["at_high"], local["mean"]) == ("0", "3", 2.25)
    assert sum(each["count"] for each in local["bins"]) == 4
    assert (data["ranks"], data["count"], data["mean"]) == ("1-2", 16, 18.5)
    assert (nan["nan"], nan["count"]) == ("2", 3)

    whole, second = finished.answers("print particle")[1:]
    addresses = [each["record"]["text"] for each in whole["classes"]]
    assert len(set(addresses)) == 4
    assert all("0x" in each for each in addresses)
    assert [each["record"]["text"] for each in second["classes"]] == [addresses[2]]

    (places,) = finished.of_type("ranks")
    assert [each["ranks"] for each in places["places"]] == ["1-2"]
    assert len(places["places"][0]["pids"]) == 2
    assert places["places"][0]["state"] == "stopped"
    assert [each["ranks"] for each in places["stops"]] == ["1-2"]
    assert places["sets"] == {"late": "2-3", "none": ""}

    strict, lenient = (
        each for each in finished.of_type("assert") if each["condition"] == "size == 4"
    )
    assert (strict["ok"], lenient["ok"]) == (False, True)
    assert strict["missing"]["running"] == lenient["missing"]["running"] == "3"
    assert "@awake is [0-2]" in said
    assert finished.answers("print size")[-1]["ranks"] == "0-2"

    # Another session, of one rank more, with what the first one has written. A check that fails
    # is all that goes wrong in it.
    commands = (
        "tbreak exchange",
        "c",
        "up",
        f"compare local with {file}",
        "assert local < 9",
        "assert size > 7",
    )
    other = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(5, program))
    assert other.status == 1, other.out
    assert f"local, {file} -> now: nothing differs in what could be compared" in other.out
    assert "[0-3] equal" in other.out
    assert "not compared: not asked" in other.out
    assert "local < 9: passed on [0-4]" in other.out
    assert "size > 7: FAILED on [0-4] (5 of 5)\n[0-4] size = 5" in other.out


def test_python_api(mpi: Mpi, build: Build) -> None:
    program = build("ring.c")
    with pgdb.launch(mpi.line(3, program)) as one, pgdb.launch(mpi.line(3, program)) as two:
        for session in (one, two):
            session.break_at("exchange")
            session.continue_(timeout_s=120).check()
        assert one.where("local > 1") == RankSet([1, 2])
        assert one[0:2].where("local > 1") == RankSet([1])
        with pytest.raises(CommandError, match="No symbol"):
            one.where("nosuch")
        assert one.check_that("local increasing").ok
        check = one.check_that("rank == 1")
        assert (check.ok, check.passed, check.failed) == (False, RankSet([1]), RankSet([0, 2]))
        assert {str(each.ranks): each.value for each in check.failing} == {"0": "0", "2": "2"}

        assert one.compare("local", two).same
        then = one.evaluate("local")
        two[1].execute("set var local = 1.25").check()
        (difference,) = one.compare("local", two).differences
        assert (difference.ranks, difference.absolute) == (RankSet([1]), 0.25)
        (difference,) = two.compare("local", then).differences
        assert [(part.before, part.after) for part in difference.parts] == [("1.5", "1.25")]
        assert two.compare("local", then, absolute_tolerance=0.25).same
        pairs = one[0:2].compare("rank", one[1:3], by="position")
        assert [each.others for each in pairs.differences] == [RankSet([1]), RankSet([2])]
        assert one[0:2].compare("rank", one[1:3]).equal == RankSet([1])


def test_what_only_looks_changes_and_calls_nothing(
    build: Build, start_job: StartJob, tmp_path: Path
) -> None:
    """In C, where ``/=`` assigns, and GDB calls malloc for the address of a string."""
    file, other = tmp_path / "ours.json", tmp_path / "theirs.json"
    with start_job(2, build("storm.c")) as job:
        assert run_json("attach", *ex(f"save a hit_count -o {file}"), job.pid).status == 0
        written = json.loads(file.read_text())
        other.write_text(json.dumps(written | {"command": 'print &"abc"'}))
        file.write_text(json.dumps(written | {"command": "print hit_count /= 2"}))
        commands = (
            "print hit_count",
            f"compare with {file}",
            "defset big if hit_count /= 2",
            "assert hit_count /= 2",
            f"compare with {other}",
            "show may-call-functions",
            "print hit_count",
        )
        finished = run_json("attach", *ex(*commands), job.pid)
        before, behind = finished.answers("print hit_count")
        assert before["classes"] == behind["classes"], "nothing runs, and nothing was changed"
        refused, defined = (each["message"] for each in finished.of_type("error"))
        assert "may do more than look" in refused and "'/=' would change" in defined
        assert not asserted(finished, "hit_count /= 2")["passed"]
        found = compared(finished, 'print &"abc"', str(other))
        assert "may-call-functions is off" in found["differences"][0]["after"]["message"]
        (shown,) = finished.answer("show may-call-functions")["classes"]
        assert shown["record"]["text"].endswith(" is on.")
        assert_untouched(job.ranks)
