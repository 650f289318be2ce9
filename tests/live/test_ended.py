"""Ranks that have ended: their GDBs live on, and answer from the program's file."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import pytest

import pgdb
from pgdb.jobs import procfs
from pgdb.jobs.processes import Processes
from pgdb.jobs.thread_states import has_lost_first_thread
from tests.conftest import Build
from tests.support.processes import status, wait_until
from tests.support.programs import Mpi, Program
from tests.support.prompts import PROMPT, launched, ranks_of
from tests.support.terminal import Finished, ex, run_json, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]
_TICKS = 20
"""CPU time that shows a GDB to compute, in ticks of the kernel's clock."""


@pytest.fixture
def program(build: Build) -> Program:
    return build("leaves.c")


def errors(finished: Finished, line: str) -> dict[str, str]:
    """Return the error of each class that answered *line*."""
    return {each["ranks"]: each["record"]["message"] for each in finished.answer(line)["classes"]}


def test_all_ranks_have_ended(mpi: Mpi, program: Program) -> None:
    finished = run_json(
        "launch",
        *ex("break work", "delete 1", "continue", "print sizeof(total)", "print table"),
        *ex("print total", "ptype work", "info line main", "python print(40 + 2)", "list work"),
        *ex("varprint table", "break main", "info breakpoints", "print $_exitcode"),
        *mpi.line(2, program),
    )
    assert finished.status == 0, finished.out
    assert finished.texts("print sizeof(total)") == {"0-1": "4"}
    assert finished.texts("print table") == {"0-1": "{2, 3, 5}"}
    assert finished.texts("print total") == {"0-1": "0"}, "the file's value, as GDB says it"
    assert "void (int)" in finished.texts("ptype work")["0-1"]
    assert "leaves.c" in finished.texts("info line main")["0-1"]
    assert finished.texts("python print(40 + 2)") == {"0-1": "42"}
    assert finished.texts("print $_exitcode") == {"0-1": "0"}
    (listed,) = finished.answer("info breakpoints")["classes"]
    assert listed["ranks"] == "0-1"
    assert [each["number"] for each in listed["record"]["breakpoints"]] == [2]


def test_ranks_that_were_killed_answer_as_others_that_have_ended(
    mpi: Mpi, program: Program
) -> None:
    lines = ("print table", "info line work", "break work", "info breakpoints")
    finished = run_json("launch", *ex("break main", "kill", *lines), *mpi.line(2, program))
    assert finished.texts("print table") == {"0-1": "{2, 3, 5}"}
    assert "leaves.c" in finished.texts("info line work")["0-1"]
    (listed,) = finished.answer("info breakpoints")["classes"]
    assert listed["ranks"] == "0-1"
    assert [each["number"] for each in listed["record"]["breakpoints"]] == [1, 2]


def test_user_defined_commands_run_after_the_end(
    mpi: Mpi, program: Program, tmp_path: Path
) -> None:
    commands = tmp_path / "commands"
    commands.write_text(
        "define shape\nptype work\nprint 40 + $arg0\nend\ncontinue\nshape 2\n"
        "define later\nprint table\ninfo locals\nend\nlater\n"
        "python\nclass Own(gdb.Command):\n  def __init__(self):\n"
        "    super().__init__('own', gdb.COMMAND_USER)\n"
        "  def invoke(self, argument, from_tty):\n    print('argument', argument)\nOwn()\nend\n"
        "own 7\n",
        encoding="utf-8",
    )
    finished = run_json("launch", "-x", commands, *mpi.line(2, program))
    (shaped,) = finished.texts("shape 2").items()
    assert shaped[0] == "0-1"
    assert "void (int)" in shaped[1] and shaped[1].endswith("= 42")
    assert finished.texts("own 7") == {"0-1": "argument 7"}
    # The lines that need no process answer before the one that does.
    (later,) = finished.answer("later")["classes"]
    assert later["record"]["message"] == "No frame selected."
    assert "{2, 3, 5}" in later["record"]["output"]


def test_requests_that_need_a_process_say_so_in_gdbs_words(mpi: Mpi, program: Program) -> None:
    finished = run_json(
        "launch",
        *ex("continue", "bt", "info locals", "up", "info registers", "x/x $sp", "print work(1)"),
        *ex("next", "assert table[0] == 2"),
        *mpi.line(2, program),
    )
    assert finished.status == 4, finished.out
    assert errors(finished, "backtrace") == {"0-1": "No stack."}
    assert errors(finished, "info locals") == {"0-1": "No frame selected."}
    assert errors(finished, "up") == {"0-1": "No stack."}
    assert errors(finished, "info registers") == {"0-1": "The program has no registers now."}
    assert errors(finished, "x/x $sp") == {"0-1": "No registers."}
    said = errors(finished, "print work(1)")
    assert said == {"0-1": "You can't do that without a process to debug."}
    assert errors(finished, "next") == {"0-1": "The program is not being run."}
    (check,) = finished.of_type("assert")
    assert check["passed"] == "", check


def test_the_ended_rank_among_living_ones(mpi: Mpi, program: Program) -> None:
    line = mpi.line(2, program)
    with pgdb.launch(line) as job:
        job[0].continue_().check()
        assert str(job.named_set("exited")) == "0"
        job[1].break_at("work")
        job[1].continue_().check()
        both = job.execute("info line main")
        assert str(both.missing.lost) == "0"
        assert [str(each.ranks) for each in both.classes] == ["1"]
        assert job[1].evaluate("i").values == {1: 0}
        assert str(job.evaluate("total", of_ended=True).missing.lost) == "0"
        assert job[0].evaluate("table[2]", of_ended=True).values == {0: 5}
        assert str(job[0].evaluate("table[2]").missing.lost) == "0"
        assert "No stack." in str(job[0].backtrace().errors)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="exit has another number")
def test_a_rank_that_has_lost_its_first_thread_is_named(mpi: Mpi, build: Build) -> None:
    line = mpi.line(3, build("unattended.c"), "thread")
    with subprocess.Popen(line, stdin=subprocess.DEVNULL) as job:
        try:
            wait_until(lambda: _has_headless_rank(job.pid), "rank 0 has lost its first thread")
            finished = run_pgdb("attach", "--batch", *ex("why"), str(job.pid))
        finally:
            job.terminate()
    words = "rank 0 has lost its first thread, while others live on"
    assert f"note: {words}" in finished.err
    # It is no end: the other threads of the rank can call MPI.
    assert "Rank 0 has lost its first thread" in finished.out
    assert "has ended" not in finished.out + finished.err


def _has_headless_rank(launcher: int) -> bool:
    return any(map(has_lost_first_thread, Processes().below(launcher)))


def test_a_killed_job_is_not_being_run(mpi: Mpi, program: Program) -> None:
    finished = run_pgdb(
        "launch",
        "--batch",
        *ex("kill", "print sizeof(total)", "bt", "kill"),
        *mpi.line(2, program),
    )
    assert "[0-1] sizeof(total) = 4" in finished.out
    assert "[0-1] error: No stack." in finished.out
    assert "The program is not being run: [0-1] ended" in finished.out
    assert finished.status == 1


def test_ranks_that_were_killed_while_they_ran_answer_from_the_file(mpi: Mpi, build: Build) -> None:
    # While rank 0 loads the libraries of MPI, GDB 13 may not notice its end.
    commands = ("proc 0 continue &", "wait 1", "kill")
    finished = run_pgdb(
        "launch",
        "--batch",
        *ex(*commands, "print sizeof(int)", "info line main", "list main", "bt"),
        *mpi.line(2, build("storm.c")),
    )
    assert "[0-1] sizeof(int) = 4" in finished.out
    assert re.search(r'\n\[0-1\] Line \d+ of ".*storm.c" starts at', finished.out), finished.out
    assert "[0-1] error: No stack." in finished.out
    ended = re.findall(r"\[([-0-9]+)\] +ended by SIGKILL", finished.out)
    assert sorted("".join(ended)) in (["-", "0", "1"], ["0", "1"]), finished.out
    assert "terminated with signal" not in finished.out, finished.out
    assert finished.status == 1


def test_a_rank_that_was_killed_while_it_was_stopped_says_so_once(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    # No other test has ranks of this path.
    line = mpi.line(2, build("storm.c").copied(tmp_path / "killed"))
    # The newest process of this path is a rank: the launcher's own path is another one.
    kill = f"shell kill -9 $(pgrep -n -f '^{line[-1]}')"
    finished = run_pgdb(
        "launch", "--batch", *ex("tbreak MPI_Comm_rank", "continue", kill, "next"), "--", *line
    )
    shown = finished.out.partition(") shell kill")[2]
    # The command may come when all have ended already.
    shown = re.sub(r"^\[[-\d]+\] .*not being run.*\n", "", shown, flags=re.M)
    # MPICH's launcher kills the other rank, often in the same moment.
    (first, *others) = re.findall(r"^\[([-\d]+)\] +ended by SIGKILL", shown, re.M)
    assert first == "0-1" or first not in others, finished.out
    # GDB prints pieces of its own announcement while the rank counts as stopped.
    about = [each for each in shown.splitlines() if each.startswith(f"[{first}]")]
    assert len(about) == 1, finished.out
    assert "terminated with signal" not in finished.out


def test_ctrl_c_ends_a_computation_without_a_process(
    mpi: Mpi, program: Program, tmp_path: Path
) -> None:
    with launched(mpi, program, home=tmp_path) as terminal:
        gdbs = [int(status(pid, "TracerPid")) for pid in ranks_of(terminal, program)]
        terminal.line("continue")
        terminal.expect(r"\[0-1\] exited normally")
        terminal.expect(PROMPT)
        before = {pid: procfs.work_done(pid)[0] for pid in gdbs}
        terminal.send("\x1b[200~while 1\nset $i = 1\nend\x1b[201~\r")
        wait_until(
            lambda: all(procfs.work_done(pid)[0] > before[pid] + _TICKS for pid in gdbs),
            "the GDBs compute",
        )
        terminal.control_c()
        terminal.expect(r"\[0-1\]\s+error: interrupted(?! at)")
        terminal.expect(PROMPT)
        terminal.ask("p sizeof(total)", r"\[0-1\] sizeof\(total\) = 4")


def test_breakpoints_made_after_the_end_are_those_of_the_next_launch(
    mpi: Mpi, program: Program
) -> None:
    finished = run_json(
        "launch",
        *ex("break main", "continue", "continue", "break work", "info breakpoints", "restart"),
        *ex("continue", "bt 1", "info breakpoints"),
        *mpi.line(2, program),
    )
    assert finished.status == 0, finished.out
    lists = [
        [(each["ranks"], [one["number"] for one in each["record"]["breakpoints"]])]
        for answer in finished.answers("info breakpoints")
        for each in answer["classes"]
    ]
    assert lists == [[("0-1", [1, 2])]] * 2
    (stack,) = finished.answer("backtrace 1")["classes"]
    assert stack["record"]["frames"][0]["function"] == "work"
    hits = [
        each.get("breakpoint")
        for line in finished.of_type("stop")
        for each in line["classes"]
        if (each.get("frame") or {}).get("function") == "work"
    ]
    assert set(hits) == {2}
