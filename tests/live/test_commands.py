"""Commands on real ranks: all or some, breakpoints under one number, run commands and looking."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Build, StartJob
from tests.support.programs import Mpi
from tests.support.terminal import Finished, assert_untouched, ex, run_json, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]


def ranks(classes: Iterable[dict[str, Any]]) -> list[str]:
    """Return the sets of ranks of classes."""
    return [each["ranks"] for each in classes]


def only(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the record of an answer that all ranks of the job agree in."""
    assert ranks(answer["classes"]) == [answer["ranks"]], json.dumps(answer)
    record: dict[str, Any] = answer["classes"][0]["record"]
    return record


def stops(finished: Finished, command: str) -> list[dict[str, Any]]:
    """Return the records of the answers to a run command that all ranks agree in."""
    return [only(each) for each in finished.answers(command)]


def test_breakpoints_have_one_number_for_the_job(mpi: Mpi, build: Build) -> None:
    program = build("storm.c")
    commands = (
        "proc 0 break nosuch.c:1",
        "proc 0 break main",
        "break pause_briefly",
        "c",
        "info breakpoints",
        "condition 2 hit_count == 3",
        "c",
        "p hit_count",
        "ignore 2 5",
        "condition 2",
        "c",
        "p $bpnum > 0",
        "disable 2",
        "tbreak hit",
        "c",
        "info breakpoints 3",
        "enable 2",
        "proc 1-2 delete 2",
        f"break {program.at('hit')}",
        "c",
        "proc @bp2 p 22",
        "proc @bp4 p 44",
        "delete",
        "info breakpoints",
    )
    finished = run_json("launch", *ex(*commands), *mpi.line(3, program))
    numbers = {each["number"]: each["ranks"] for each in finished.of_type("breakpoint")}
    shift = 1 if "0" == numbers.get(1) and 2 in numbers and numbers[2] == "0-2" else 0
    assert numbers[1 + shift - 1] in ("0", "0-2")
    hits = [only(each).get("breakpoint") for each in finished.answers("continue")[:4]]
    assert hits == [2, 2, 2, 3], numbers
    assert {each["value"] for each in finished.answer("print hit_count")["classes"]} == {3}
    # Rank 0 stops at 2, the rest, where that was deleted, at the next one.
    last = {
        each["ranks"]: each["record"]["breakpoint"]
        for each in finished.answers("continue")[4]["classes"]
    }
    assert last in ({"0": 2, "1-2": 4}, {"0-2": 4}), last
    listed = finished.answers("info breakpoints")
    assert listed[-1]["classes"][0]["record"].get("breakpoints", []) == []


def test_stepping(mpi: Mpi, build: Build) -> None:
    program = build("storm.c")
    commands = (
        "tbreak hit",
        "c",
        "next",
        "stepi",
        "nexti",
        "finish",
        f"until {program.line('loop')}",
        "advance pause_briefly",
        "step",
        "info line",
    )
    finished = run_json("launch", *ex(*commands), *mpi.line(3, program))
    assert finished.status == 0, finished.out
    assert only(finished.answer("continue"))["frame"]["function"] == "hit"
    assert only(finished.answer("next"))["reason"] == "end-stepping-range"
    assert only(finished.answer("next"))["frame"]["line"] == program.line("hit") + 1
    for command in ("stepi", "nexti", "step"):
        assert only(finished.answer(command))["reason"] == "end-stepping-range", command
    assert only(finished.answer("finish"))["reason"] == "function-finished"
    assert only(finished.answer("finish"))["frame"]["function"] == "main"
    advanced = only(finished.answer("advance pause_briefly"))
    assert (advanced["reason"], advanced["frame"]["function"]) == (
        "location-reached",
        "pause_briefly",
    )


@pytest.mark.parametrize("setting", ["off", "on"])
def test_steps_of_no_instruction_show_the_place_as_gdb_does(
    setting: str, mpi: Mpi, build: Build
) -> None:
    commands = (
        f"set disassemble-next-line {setting}",
        "tbreak hit",
        "c",
        "stepi 0",
        "nexti 0",
        "stepi",
        "stepi 0",
        "nexti",
    )
    out = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(2, build("storm.c"))).out
    shown = {
        command: text.count("=> ")
        for command, text in re.findall(r"^\(pgdb 0-1\) (.*)\n((?:(?!\(pgdb ).*\n)*)", out, re.M)
    }
    # GDB prints the instructions of the line, and the present one among them.
    at_none = 1 if setting == "on" else 0
    assert shown["stepi 0"] == shown["nexti 0"] == at_none, out
    assert shown["stepi"] == shown["nexti"] == 1, out


def test_watchpoints_displays_and_commands_of_breakpoints(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    program = build("storm.c")
    script = tmp_path / "commands"
    script.write_text(
        "# what follows belongs to breakpoint 1\n"
        "break hit\n"
        "commands\n"
        'printf "hit %d\\n", i\n'
        "end\n"
        "display hit_count\n"
        "c\n"
        "undisplay 1\n"
        "delete 1\n"
        "watch hit_count\n"
        "c\n"
        "info breakpoints\n"
        "define twice\n"
        "print $arg0 * 2\n"
        "end\n"
        "twice 21\n"
        "python\n"
        "print(6 * 7 * 10)\n"
        "end\n"
    )
    finished = run_json("launch", "-x", script, *mpi.line(2, program))
    assert finished.status == 0, finished.out
    first, second = stops(finished, "continue")
    assert first["breakpoint"] == 1
    assert (second["reason"], second["breakpoint"]) == ("watchpoint-trigger", 2)
    assert second["detail"] == "hit_count: 0 -> 1"
    shown = "".join(each["text"] for each in finished.of_type("output") if each["stream"] == "gdb")
    assert "hit 0" in shown
    assert "hit_count = 0" in shown
    assert "= 42" in only(finished.answer("twice 21"))["text"]
    assert only(finished.answer("python"))["text"] == "420"


def test_looking(mpi: Mpi, build: Build) -> None:
    program = build("ring.c")
    commands = (
        f"break {program.at('recv')}",
        "c",
        "bt",
        "up",
        "info locals",
        "p *particle",
        "p particle->id",
        "p/x 255",
        "p local",
        "p particle->name",
        "ptype particle",
        "x/2dw &particle->id",
        "frame 2",
        "info args",
        "down",
        "list 1,5",
        "info threads",
        "thread 1",
        "info source",
        "info sharedlibrary",
        "set var local = 7.25",
        "p local",
        "whatis local",
        "bt 1",
        "print",
        "echo hi\\n",
    )
    finished = run_json("launch", *ex(*commands), *mpi.line(4, program, "1"))
    assert finished.status == 0, [
        each for each in finished.of_type("answer") if "error" in str(each)
    ]
    frames = only(finished.answer("backtrace"))["frames"]
    assert [each["function"] for each in frames] == ["exchange", "advance", "main"]
    before, after = finished.answers("print local")
    assert {each["ranks"]: each["value"] for each in before["classes"]} == {
        str(rank): 1.5 * rank for rank in range(4)
    }
    assert (ranks(after["classes"]), after["classes"][0]["value"]) == (["0-3"], 7.25)
    names = {
        each["ranks"]: each["text"] for each in finished.answer("print particle->name")["classes"]
    }
    assert '"even"' in names["0,2"] and '"odd"' in names["1,3"]
    ids = finished.answer("print particle->id")["classes"]
    assert {each["ranks"]: each["value"] for each in ids} == {str(r): r for r in range(4)}
    assert only(finished.answer("print/x 255"))["text"] == "0xff"
    assert "struct particle" in only(finished.answer("ptype particle"))["text"]
    assert len(finished.answer("x/2dw &particle->id")["classes"]) == 4
    assert "ring: pass a value" in finished.answer("list 1,5")["classes"][0]["text"]
    assert [each["name"] for each in only(finished.answer("info args"))["items"]] == [
        "argc",
        "argv",
    ]
    assert len(only(finished.answer("backtrace 1"))["frames"]) == 1


def test_focus_sets_and_proc(mpi: Mpi, build: Build) -> None:
    commands = (
        "focus 0-3!1",
        "p 1",
        "proc 1 p 2",
        "focus",
        "defset odd 1..3/2",
        "proc @odd p 3",
        "proc all p 4",
        "proc @odd,0 & all p 5",
        "focus @odd ^ 0-1",
        "p 6",
        "focus all",
        "break pause_step",
        "proc 1 c",
        "proc @bp1 p 7",
        "proc @stopped p 8",
        "proc 2 c &",
        "undefset odd",
        "ranks",
    )
    finished = run_json("launch", *ex(*commands), *mpi.line(4, build("nompi.c")))
    assert finished.status == 0, finished.out
    wanted = ["0,2-3", "1", "1,3", "0-3", "0-1,3", "0,3", "1", "0-3"]
    for number, which in enumerate(wanted, start=1):
        assert finished.answer(f"print {number}")["ranks"] == which, number


def test_run_rules_in_batch(build: Build, start_job: StartJob) -> None:
    with start_job(3, build("storm.c")) as job:
        commands = (
            "proc 0-1 break hit",
            "c",
            "proc @running p 1",
            "p 2",
            "proc @running interrupt",
            "p 3",
            "proc 2 c &",
            "proc 2 wait 1",
        )
        finished = run_json("attach", "--timeout", "10", *ex(*commands), job.pid)
        assert finished.status == 4
        answer = finished.answer("continue") if len(finished.answers("continue")) == 1 else (
            finished.answers("continue")[0]
        )  # fmt: skip
        assert answer["missing"]["running"] == "2"
        assert ranks(answer["classes"]) == ["0-1"]
        assert finished.answer("print 1")["missing"]["running"] == "2"
        assert finished.answer("print 2")["missing"]["running"] == "2"
        assert ranks(finished.answer("print 2")["classes"]) == ["0-1"]
        interrupted = only(finished.answer("interrupt"))
        assert (finished.answer("interrupt")["ranks"], interrupted["reason"]) == (
            "2",
            "interrupted",
        )
        assert ranks(finished.answer("print 3")["classes"]) == ["0-2"]
        assert finished.answer("wait")["missing"]["running"] == "2"
        assert_untouched(job.ranks)


def test_runs_with_a_count_a_place_or_a_signal_can_be_interrupted(
    build: Build, start_job: StartJob
) -> None:
    runs = ("continue 3", "step 3000000", "next 3000000", "stepi 3000000", "nexti 3000000",
            "until 1", "signal 0", "continue 3 &")  # fmt: skip
    with start_job(2, build("storm.c")) as job:
        commands = [each for run in runs for each in (f"timeout 0.3 {run}", "interrupt", "p 1")]
        finished = run_json("attach", "--timeout", "20", *ex(*commands), job.pid)
        assert len(finished.answers("print 1")) == len(runs)
        for answer in (*finished.answers("print 1"), *finished.answers("interrupt")):
            assert not answer["missing"]["late"] + answer["missing"]["running"], answer
        assert_untouched(job.ranks)
        # They are interrupted for the session's end, too, with a breakpoint that is hit.
        for last in (
            ("break hit", "c", "continue 3000000"),
            ("break hit if hit_count < 0", "step 3000000"),
        ):
            ended = run_pgdb("attach", "--batch", "--timeout", "1", *ex(*last), job.pid)
            assert ended.status == 4, ended.out + ended.err
            assert_untouched(job.ranks)


def test_a_breakpoint_that_cannot_be_put_in_leaves_the_ranks_stopped(
    build: Build, start_job: StartJob
) -> None:
    with start_job(2, build("storm.c")) as job:
        finished = run_pgdb(
            "attach", "--batch", "--timeout", "20",
            *ex("break *0", "c", "p 1", "delete", "break hit if *(int *)0", "c", "detach"), job.pid,
        )  # fmt: skip
        assert finished.status == 0, finished.out + finished.err
        why = "it cannot run: Cannot insert breakpoint 1. Cannot access memory at address 0x0"
        assert why in finished.out and "[0-1] 1 = 1\n" in finished.out
        # GDB 18 writes "Error in testing condition for breakpoint 1:", and the reason below it.
        assert "Error in testing" in finished.out and "Cannot access memory" in finished.out
        assert_untouched(job.ranks)


def test_settle_gives_the_rule_of_the_prompt(build: Build, start_job: StartJob) -> None:
    with start_job(2, build("storm.c")) as job:
        finished = run_json(
            # Nothing else ends the waiting: without the rule it would be found not to end at all.
            "attach", "--settle", "0.5", "--timeout", "1000",
            *ex("proc 0 break hit", "c", "p 1"), job.pid,
        )  # fmt: skip
        answer = finished.answer("continue")
        assert answer["missing"]["running"] == "1"
        assert [each["ranks"] for each in answer["classes"]] == ["0"]
        assert_untouched(job.ranks)


def test_what_would_break_the_session_is_refused(mpi: Mpi, build: Build) -> None:
    refused = (
        "with print pretty on -- detach",
        "attach 1",
        "target native",
        "with print pretty on -- shell true",
        "interpreter-exec mi x",
        "tui enable",
        # GDB kills the rank for it.
        "record full restore /nosuch",
        # GDB 13.1 does not survive it in the background.
        "advance",
        "advance &",
    )
    finished = run_json("launch", *ex(*refused, "p 1"), *mpi.line(2, build("nompi.c")))
    assert [each["command"] for each in finished.of_type("error")] == list(refused)
    assert finished.answer("print 1")["ranks"] == "0-1"


def test_threads(mpi: Mpi, build: Build) -> None:
    program = build("threads.c")
    finished = run_json(
        "launch",
        *ex(f"break {program.at('wait')}", "c", "delete", "thread apply all bt 3", "finish"),
        *ex("info threads"),
        *mpi.line(2, program, "1"),
    )
    assert only(finished.answers("continue")[0])["frame"]["function"] == "wait_for_work"
    text = "".join(each["text"] for each in finished.answer("info threads")["classes"])
    assert "wait_for_work" in text or "work" in text


def test_a_rank_with_several_threads_is_not_recorded(mpi: Mpi, build: Build) -> None:
    program = build("threads.c")
    finished = run_json(
        "launch",
        *ex(f"break {program.at('wait')}", "c", "record", "record full", "print 6 * 7"),
        *mpi.line(2, program, "1"),
    )
    for command in ("record", "record full"):
        message = only(finished.answer(command))["message"]
        assert message.startswith("'record' is refused: the rank has several threads")
    assert only(finished.answer("print 6 * 7"))["text"] == "42"


def test_a_rank_with_one_thread_is_recorded(mpi: Mpi, build: Build) -> None:
    program = build("nompi.c")
    finished = run_json(
        "launch",
        *ex("record", "next", "info record", "record stop"),
        *mpi.line(2, program, "-", "5"),
    )
    assert only(finished.answers("next")[0])["frame"]["function"] == "main"
    assert "Active record target: record-full" in only(finished.answer("info record"))["text"]
    assert "Process record is stopped" in only(finished.answer("record stop"))["text"]
