"""The prompt at a real (pseudo) terminal: what a user types and sees, Ctrl-C above all."""

from __future__ import annotations

import os
import shlex
import signal
import time
from pathlib import Path

import pytest

from tests.conftest import Build, StartJob
from tests.support.processes import require_calls, status
from tests.support.programs import Mpi
from tests.support.prompts import PROMPT, launched, ranks_of, wait_running
from tests.support.terminal import (
    DEADLINE_S,
    PGDB,
    Terminal,
    assert_nothing_left,
    assert_untouched,
)

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]


def test_prompt_focus_and_repeating(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("storm.c")
    with launched(mpi, program, home=tmp_path) as terminal:
        terminal.line("focus 1")
        terminal.expect(r"\(pgdb 1\)")
        terminal.line("p 40 + 2")
        terminal.expect(r"\[1\] 40 \+ 2 = 42")
        terminal.line("focus all")
        terminal.expect(PROMPT)
        terminal.line("b hit")
        terminal.expect(r"\[0-1\] Breakpoint 1: ")
        terminal.line("c")
        terminal.expect_ranks(r"Breakpoint 1, hit \(i=0\)", "0-1")
        terminal.expect(PROMPT)
        for i in (1, 2):
            terminal.line("")
            terminal.expect_ranks(rf"Breakpoint 1, hit \(i={i}\)", "0-1")
            terminal.expect(PROMPT)
        terminal.line("nosuch")
        terminal.expect(r'Undefined command: "nosuch"')
        terminal.expect(PROMPT)
        terminal.line("list hit")
        terminal.expect("void hit")
        terminal.expect(PROMPT)
        terminal.line("quit")
        terminal.expect(r"Quit and kill the job\? \(y or n\)")
        terminal.line("n")
        terminal.expect("still here")
        terminal.expect(PROMPT)
        ranks = ranks_of(terminal, program)
        assert len(ranks) == 2
        terminal.line("q")
        terminal.expect(r"\(y or n\)")
        terminal.line("y")
        terminal.expect("killing the job")
        assert terminal.wait() == 1
        assert_nothing_left(terminal.mark)
    kept = (tmp_path / "pgdb" / "history").read_text("utf-8").splitlines()
    assert "+list hit" in kept and not {"+n", "+y"} & {*kept}


def test_ctrl_c_at_a_question_is_no_yes(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("storm.c")
    with launched(mpi, program, home=tmp_path) as terminal:
        for command in ("quit", "kill", "proc 1 kill"):
            terminal.line(command)
            terminal.expect(r"\(y or n\)")
            terminal.control_c()
            terminal.expect(PROMPT)
        terminal.line("p 40 + 2")
        terminal.expect(r"\[0-1\] 40 \+ 2 = 42")
        assert len(ranks_of(terminal, program)) == 2
        # A slip, or a bug of ours, costs the command and not the job.
        terminal.line("session save ~nobody-of-that-name/x")
        terminal.expect("there is no home directory for '~nobody-of-that-name'")
        terminal.expect(PROMPT)
        terminal.line("kill")
        terminal.expect(r"\(y or n\)")
        terminal.line("y")
        terminal.expect(r"\[0-1\] (ended by SIGKILL|killed)")
        terminal.line("quit")
        terminal.wait()


def test_lines_that_are_pasted_are_carried_out_one_by_one(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    with launched(mpi, build("storm.c"), home=tmp_path) as terminal:
        lines = ("p 40 + 2", "if 1", "p 50 + 3", "end", "p 60 + 4")
        terminal.send("\x1b[200~" + "\n".join(lines) + "\x1b[201~\r")
        terminal.expect(r"\[0-1\] 40 \+ 2 = 42")
        terminal.expect(r"\[0-1\].* = 53")
        terminal.expect(r"\[0-1\] 60 \+ 4 = 64")
        terminal.expect(PROMPT)
        terminal.line("kill")
        terminal.expect(r"\(y or n\)")
        terminal.line("y")
        terminal.line("quit")
        terminal.wait()


def test_ctrl_c_interrupts_the_ranks_and_the_job_lives(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    program = build("storm.c")
    with launched(mpi, program, home=tmp_path) as terminal:
        for _ in range(3):
            terminal.line("c")
            wait_running(ranks_of(terminal, program))
            terminal.control_c()
            terminal.expect_ranks("interrupted in ", "0-1")
            terminal.expect(PROMPT)
        terminal.line("p 1 + 1")
        terminal.expect(r"\[0-1\] 1 \+ 1 = 2")
        terminal.expect(PROMPT)
        # Ctrl-C at the prompt, with nothing running, does no harm.
        terminal.send("typed")
        terminal.control_c()
        terminal.expect(PROMPT)
        terminal.line("p 2 + 2")
        terminal.expect(r"\[0-1\] 2 \+ 2 = 4")
        terminal.line("c &")
        wait_running(ranks_of(terminal, program))
        terminal.expect(r"\(pgdb 0-1 running\)")
        terminal.control_c()
        terminal.expect_ranks("interrupted in ", "0-1")
        terminal.line("detach")
        terminal.expect(r"detached; they run on")
        terminal.wait()
        ranks = ranks_of(terminal, program)
        assert len(ranks) == 2
        assert_untouched(dict(enumerate(ranks)))


def test_ctrl_c_ends_a_function_that_gdb_has_called(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    require_calls()
    program = build("storm.c")
    with launched(mpi, program, home=tmp_path) as terminal:
        terminal.line("p (int)pause()")
        wait_running(ranks_of(terminal, program))
        terminal.control_c()
        terminal.expect(r"\(interrupting what is asked; Ctrl-C again gives up waiting\)")
        terminal.expect(r"\[0-1\]\s+Program received signal SIGINT, Interrupt\.")
        terminal.expect(r"error: The program being debugged was signaled while in")
        terminal.expect(PROMPT)
        terminal.line("p 1 + 1")
        terminal.expect(r"\[0-1\] 1 \+ 1 = 2")
        terminal.line("ranks")
        terminal.expect(r"\[0-1\] stopped in main")


def test_a_second_ctrl_c_gives_the_prompt_back(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("storm.c")
    with launched(mpi, program, home=tmp_path) as terminal:
        terminal.line("c")
        wait_running(ranks_of(terminal, program))
        debuggers = [int(status(pid, "TracerPid")) for pid in ranks_of(terminal, program)]
        for pid in debuggers:
            os.kill(pid, signal.SIGSTOP)
        try:
            # Two at once may reach it as one signal: the kernel does not count them.
            end = time.monotonic() + DEADLINE_S
            while time.monotonic() < end:
                terminal.control_c()
                if terminal.shows(r"\(pgdb 0-1 running\)", within_s=2.0):
                    break
            terminal.expect(r"\(pgdb 0-1 running\)")
        finally:
            for pid in debuggers:
                os.kill(pid, signal.SIGCONT)
        terminal.expect_ranks("interrupted in ", "0-1")
        terminal.line("p 1 + 1")
        terminal.expect(r"\[0-1\] 1 \+ 1 = 2")


def test_what_is_typed_reaches_the_job(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("echo.c")
    with launched(mpi, program, home=tmp_path) as terminal:
        terminal.line("c")
        wait_running(ranks_of(terminal, program))
        terminal.send("first line\n")
        terminal.expect(r"rank 0 got: first line")
        terminal.send("second\n")
        terminal.expect(r"rank 0 got: second")
        terminal.control_c()
        terminal.expect_ranks("interrupted in ", "0-1")
        terminal.expect(PROMPT)
        # This is the prompt's again, not the job's.
        terminal.line("p 3 + 3")
        terminal.expect(r"\[0-1\] 3 \+ 3 = 6")
        terminal.expect(PROMPT)
        terminal.line("c")
        wait_running(ranks_of(terminal, program))
        terminal.send("third\n")
        terminal.expect(r"rank 0 got: third")
        terminal.send("\x04")
        # The job's words and GDB's come on ways of their own.
        terminal.expect_all(r"rank 0 got 3 lines", r"exited normally")
        terminal.line("quit")
        assert terminal.wait() == 0
        assert_nothing_left(terminal.mark)


def test_the_prompt_reads_the_terminal_where_the_job_reads_a_file(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    program = build("echo.c")
    lines = tmp_path / "lines"
    lines.write_text("from the file\nand its end")
    words = shlex.join([*PGDB, "launch", *mpi.line(2, program)])
    changes = {"XDG_STATE_HOME": str(tmp_path)}
    with Terminal("sh", "-c", f"{words} <{lines}", changes=changes) as terminal:
        terminal.expect(r"\[0-1\] stopped in main")
        terminal.expect(PROMPT)
        terminal.ask("p 3 + 3", r"\[0-1\] 3 \+ 3 = 6")
        terminal.line("c")
        terminal.expect_all(
            "rank 0 got: from the file", "rank 0 got: and its end", r"exited normally"
        )
        terminal.line("quit")
        assert terminal.wait() == 0
        assert_nothing_left(terminal.mark)


def test_a_question_is_shown_before_its_answer(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    with launched(mpi, build("question.c"), home=tmp_path) as terminal:
        terminal.line("c")
        terminal.expect(r"Enter n: $")
        terminal.send("5\n")
        terminal.expect_all(r"n is 5\n", r"exited normally")
        # The other rank may end later, and until then the job gets the line.
        terminal.expect(PROMPT)
        # The new job of 'run' gets what is typed during 'run' itself.
        terminal.line("run")
        terminal.expect(r"Enter n: $")
        terminal.send("6\n")
        terminal.expect_all(r"n is 6\n", r"exited normally")
        terminal.expect(PROMPT)
        terminal.line("quit")
        assert terminal.wait() == 0


def test_a_command_that_the_job_has_read_is_named_once(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    program = build("storm.c")
    with launched(mpi, program, home=tmp_path) as terminal:
        terminal.line("c")
        wait_running(ranks_of(terminal, program))
        terminal.send("42\nbt 3\ninfo locals\n")
        terminal.expect("note: the job reads what is typed while ranks run, and has read 'bt 3'; ")
        terminal.control_c()
        terminal.expect_ranks("interrupted in ", "0-1")
        assert terminal.text.count("note: the job reads") == 1
        terminal.line("kill")
        terminal.expect(r"\(y or n\)")
        terminal.line("y")
        terminal.expect(PROMPT)
        terminal.line("quit")
        terminal.wait()


def test_output_does_not_break_the_line_at_the_prompt(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    program = build("storm.c")
    # Some seconds, in which all that is typed here is there long before they are over.
    steps = 10000
    with launched(mpi, program, str(steps), home=tmp_path) as terminal:
        terminal.line("c &")
        terminal.expect(r"\(pgdb 0-1 running\)")
        terminal.send("p 12345")
        terminal.expect(r"p 12345")
        # The prompt is drawn again below the output, with what has been typed so far.
        terminal.expect_all(
            *(rf"rank {number} done {steps}[\s\S]*\) p 12345" for number in range(2)),
            r"\[(0|0-1)\] +exited normally",
            r"\[(1|0-1)\] +exited normally",
        )
        terminal.line(" + 1")
        terminal.expect(r"12345 \+ 1")
        terminal.line("quit")
        terminal.wait()
        for number in range(2):
            assert terminal.text.count(f"rank {number} done {steps}\n") == 1
        assert_nothing_left(terminal.mark)


def test_quit_after_attach_lets_the_job_run_on(
    build: Build, start_job: StartJob, tmp_path: Path
) -> None:
    changes = {"XDG_STATE_HOME": str(tmp_path)}
    with start_job(2, build("storm.c")) as job:
        for leave in ("quit\r", "\x04"):
            with Terminal(*PGDB, "attach", job.pid, changes=changes) as terminal:
                terminal.expect(PROMPT)
                terminal.line("b hit")
                terminal.expect("Breakpoint 1: ")
                terminal.expect(PROMPT)
                terminal.line("c")
                terminal.expect(r"Breakpoint 1, hit")
                terminal.expect(PROMPT)
                terminal.send(leave)
                terminal.expect("leaving the job running")
                assert terminal.wait() == 0
                assert_nothing_left(terminal.mark)
            assert_untouched(job.ranks)


def test_quit_after_the_job_has_ended_speaks_of_no_job(
    build: Build, start_job: StartJob, tmp_path: Path
) -> None:
    changes = {"XDG_STATE_HOME": str(tmp_path)}
    with start_job(2, build("storm.c")) as job:
        with Terminal(*PGDB, "attach", job.pid, changes=changes) as terminal:
            terminal.expect(PROMPT)
            for pid in job.ranks.values():
                os.kill(pid, signal.SIGKILL)
            terminal.expect_ranks("ended by SIGKILL", "0-1")
            terminal.line("bt")
            terminal.expect(r"\[0-1\] ended")
            terminal.line("quit")
            terminal.wait()
            assert "the job" not in terminal.text.rpartition("quit")[2]
            assert_nothing_left(terminal.mark)


def test_the_terminal_goes_away(build: Build, start_job: StartJob, tmp_path: Path) -> None:
    changes = {"XDG_STATE_HOME": str(tmp_path)}
    with start_job(2, build("storm.c")) as job:
        with Terminal(*PGDB, "attach", "--grace", "2", job.pid, changes=changes) as terminal:
            terminal.expect(PROMPT)
            terminal.line("b hit if i < 0")
            terminal.expect("Breakpoint 1: ")
            terminal.line("c")
            wait_running(list(job.ranks.values()))
            mark = terminal.mark
            terminal.hang_up()
            assert_nothing_left(mark, grace_s=2.0)
        assert_untouched(job.ranks)


def test_it_is_asked_to_end_while_a_command_waits(
    build: Build, start_job: StartJob, tmp_path: Path
) -> None:
    changes = {"XDG_STATE_HOME": str(tmp_path)}
    with start_job(2, build("storm.c")) as job:
        with Terminal(*PGDB, "attach", "--grace", "2", job.pid, changes=changes) as terminal:
            terminal.expect(PROMPT)
            terminal.ask("b hit if i < 0", "Breakpoint 1: ")
            terminal.line("c")
            wait_running(list(job.ranks.values()))
            os.kill(terminal.pid, signal.SIGTERM)
            terminal.wait()
            assert "given up waiting" not in terminal.text
            assert_nothing_left(terminal.mark)
        assert_untouched(job.ranks)
