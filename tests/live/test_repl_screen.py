"""The prompt's screen: pages, programs that borrow the terminal, questions, lines typed ahead."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.conftest import Build, StartJob
from tests.support.processes import processes_with, status, wait_until
from tests.support.programs import Mpi
from tests.support.prompts import PROMPT, launched, ranks_of, wait_running
from tests.support.terminal import (
    DEADLINE_S,
    MARK,
    PGDB,
    Terminal,
    assert_nothing_left,
    assert_untouched,
    run_pgdb,
)

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]
MOVES = re.compile(rb"\x1b\[[0-9;]*[A-HJKm]")
"""Sequences that move the cursor, erase, or set colours."""
MORE = "--Type <RET> for more, q to quit, c to continue without paging--"


def leave(terminal: Terminal) -> None:
    """Quit, and kill the job."""
    terminal.line("quit")
    terminal.expect(r"\(y or n\)")
    terminal.line("y")
    terminal.wait()
    assert_nothing_left(terminal.mark)


def test_long_output_has_pages(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    with launched(mpi, build("storm.c"), home=tmp_path) as terminal:
        terminal.line("help")
        terminal.expect("Ranks and sets:")
        terminal.expect(MORE)
        terminal.send(" ")
        terminal.expect(MORE)
        terminal.send("q")
        terminal.expect(PROMPT)
        assert "An empty line repeats the last command" not in terminal.text
        # The <RET> that GDB wants behind q must not show everything again.
        seen = terminal.text.count("Ranks and sets:")
        terminal.line("")
        terminal.expect(PROMPT)
        # The page can be printed above a question that is there already, which is shown again then.
        terminal.line("help")
        terminal.expect("Ranks and sets:")
        terminal.expect(MORE)
        assert terminal.text.count("Ranks and sets:") == seen + 1
        terminal.send("c")
        terminal.expect("An empty line repeats the last command")
        terminal.expect(PROMPT)
        asked = terminal.text.count(MORE)
        for line in ("set pagination off", "help"):
            terminal.ask(line)
        terminal.ask("set height 0")
        terminal.ask("set pagination on")
        terminal.ask("help", "An empty line repeats the last command")
        assert terminal.text.count(MORE) == asked
        leave(terminal)


def test_a_dumb_terminal_has_no_pages(build: Build, start_job: StartJob, tmp_path: Path) -> None:
    changes = {"XDG_STATE_HOME": str(tmp_path), "TERM": "dumb"}
    with start_job(2, build("storm.c")) as job:
        with Terminal(*PGDB, "attach", job.pid, changes=changes) as terminal:
            terminal.expect(PROMPT)
            terminal.ask("help", "An empty line repeats the last command")
            terminal.ask("p 40 + 2", r"\n\[0-1\] 40 \+ 2 = 42\n")
            assert MORE not in terminal.text and not MOVES.search(terminal.raw)
            # Output that comes while the user types has the line again below it.
            terminal.ask("b hit", "Breakpoint 1: ")
            terminal.line("c &")
            terminal.expect_ranks("Breakpoint 1, hit", "0-1")
            terminal.expect(PROMPT)
            terminal.ask("proc 0 c &", r"\(pgdb 0-1\)")
            terminal.line("quit")
            terminal.wait()
        assert_untouched(job.ranks)


def test_a_command_of_the_shell_has_the_terminal(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("storm.c")
    with launched(mpi, program, home=tmp_path) as terminal:
        terminal.line("!echo ready; read -r answer; echo got $answer")
        terminal.expect("ready\n")
        terminal.send("some words\n")
        terminal.expect("got some words")
        terminal.expect(PROMPT)
        # Ctrl-C is for the command, not for the session and not for the ranks that run.
        terminal.line("c &")
        terminal.expect(r"\(pgdb 0-1 running\)")
        terminal.line("shell echo begun; exec sleep 1000")
        terminal.expect("begun\n")
        sleeping = f"{MARK}={terminal.mark}"
        wait_until(lambda: "sleep 1000" in processes_with(sleeping).values(), "it sleeps")
        terminal.control_c()
        terminal.expect(r"\(pgdb 0-1 running\)")
        wait_running(ranks_of(terminal, program))
        terminal.line("interrupt")
        terminal.expect_ranks("interrupted", "0-1")
        terminal.expect(PROMPT)
        terminal.ask("shell exit 3")
        terminal.ask("p $_shell_exitcode", r"\[0-1\] \$_shell_exitcode = 3")
        terminal.ask("pipe p 40 + 2 | tr 42 xy", r"xy")
        leave(terminal)


def test_the_answer_to_a_line_stands_above_the_next_one_that_was_typed_ahead(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    with launched(mpi, build("storm.c"), home=tmp_path) as terminal:
        begun = len(terminal.text)
        typed = range(101, 141)
        terminal.send("".join(f"p {each}\n" for each in typed))
        terminal.expect("140 = 140")
        shown = terminal.text[begun:]
        for each in typed[:-1]:
            assert shown.index(f"{each} = {each}") < shown.index(f") p {each + 1}"), shown
        leave(terminal)


def test_the_editor_opens_the_selected_frame(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("storm.c")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nfor each; do echo "edits $each"; done\n')
    editor.chmod(0o700)
    os.environ["VISUAL"] = str(editor)
    try:
        with launched(mpi, program, home=tmp_path) as terminal:
            main = program.at("main").rpartition(":")[2]
            terminal.ask("edit", rf"edits \+{main}\n(?:.*\n)*edits /.*storm\.c")
            hit = int(program.at("hit").rpartition(":")[2])
            terminal.ask(f"edit storm.c:{hit}", rf"edits \+{hit}\n")
            terminal.ask("edit nosuch", "edit: .*nosuch")
            leave(terminal)
    finally:
        del os.environ["VISUAL"]


def test_questions_are_asked_at_a_terminal(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    with launched(mpi, build("storm.c"), home=tmp_path) as terminal:
        terminal.ask("delete")  # there is nothing to be asked about
        assert "(y or n)" not in terminal.text
        terminal.ask("b hit", "Breakpoint 1: ")
        terminal.ask("c", r"Breakpoint 1, hit")
        terminal.line("delete")
        terminal.expect(r"Delete all breakpoints.*\(y or n\)")
        terminal.line("perhaps")
        terminal.expect("Please answer y or n")
        terminal.line("n")
        terminal.expect(PROMPT)
        terminal.ask("info b", "hit")
        terminal.line("return")
        terminal.expect(r"return now\? \(y or n\)")
        terminal.line("y")
        terminal.expect(PROMPT)
        terminal.ask("bt 1", r"#0 +main")
        terminal.ask("set confirm off")
        terminal.ask("delete")
        terminal.ask("info b", "No breakpoints")
        terminal.line("quit")
        terminal.wait()
        assert_nothing_left(terminal.mark)


def press_tab_until(terminal: Terminal, completed: str) -> None:
    """Press TAB again until the line is completed: a GDB without the CPU in time is not waited for.

    Each answer that comes too late makes the rank one that can be asked again.
    """
    wait_until(
        lambda: terminal.shows(completed, within_s=2.0) or terminal.send("\t"),
        f"TAB completes {completed!r}",
        DEADLINE_S,
    )
    terminal.expect(completed)


def test_one_gdb_completes_what_is_typed(build: Build, start_job: StartJob, tmp_path: Path) -> None:
    changes = {"XDG_STATE_HOME": str(tmp_path)}
    with start_job(2, build("storm.c")) as job:
        with Terminal(*PGDB, "attach", job.pid, changes=changes) as terminal:
            terminal.expect(PROMPT)
            terminal.send("print hit_co\t")
            press_tab_until(terminal, "unt")
            terminal.line("* 0 + 7")
            terminal.expect(r"\[0-1\] hit_count +\* 0 \+ 7 = 7")
            terminal.expect(PROMPT)
            # A GDB that hangs is not waited for, and its late answer is nobody's.
            gdb = int(status(job.ranks[0], "TracerPid"))
            os.kill(gdb, signal.SIGSTOP)
            try:
                terminal.send("info au\tx")
                terminal.expect("info aux")
                terminal.send("\x15print hit_co\t")
                # Rank 1 is asked in its place.
                press_tab_until(terminal, "unt")
                terminal.send("\x15")
            finally:
                os.kill(gdb, signal.SIGCONT)
            terminal.ask("p 40 + 2", r"\[0-1\] 40 \+ 2 = 42")
            terminal.line("quit")
            terminal.wait()
        assert_untouched(job.ranks)


def test_lines_typed_during_wait_are_carried_out_afterwards(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    program = build("storm.c")
    with launched(mpi, program, home=tmp_path) as terminal:
        terminal.line("c &")
        terminal.expect(r"\(pgdb 0-1 running\)")
        terminal.line("wait")
        wait_running(ranks_of(terminal, program))
        wait_until(lambda: terminal.reads_lines, "the prompt has given the terminal back")
        terminal.send("p 11 + 11\np 12 + 12\n")
        terminal.expect(r"p 12 \+ 12")
        for pid in ranks_of(terminal, program):
            os.kill(pid, signal.SIGUSR1)
        terminal.expect(r"\[0-1\] 11 \+ 11 = 22")
        terminal.expect(r"\[0-1\] 12 \+ 12 = 24")
        terminal.expect(PROMPT)
        leave(terminal)


def test_the_transcript_has_the_session(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with launched(mpi, build("storm.c"), home=tmp_path) as terminal:
        terminal.ask(f"set logging file {log}")
        terminal.ask("set logging enabled on", "Copying output to")
        terminal.ask("p 40 + 2", "= 42")
        terminal.line("quit")
        terminal.expect(r"\(y or n\)")
        terminal.line("y")
        terminal.wait()
    text = log.read_text("utf-8")
    assert "(pgdb 0-1) p 40 + 2\n[0-1] 40 + 2 = 42\n" in text
    assert "Quit and kill the job? (y or n) y\n" in text and "killing the job" in text


def test_commands_of_the_shell_in_batch(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    commands.write_text(
        "set pagination off\nset height 0\nset confirm off\nshell echo one; exit 3\n"
    )
    line = mpi.line(2, build("storm.c"))
    options = (
        "-x",
        commands,
        "-ex",
        "p $_shell_exitcode",
        "-ex",
        "pipe p 6 * 7 | cat",
        "-ex",
        "kill",
    )
    finished = run_pgdb("launch", "--batch", *options, *line)
    assert finished.status == 0, finished.out + finished.err
    assert "one\n" in finished.out and "$_shell_exitcode = 3\n" in finished.out
    assert "[0-1] 6 * 7 = 42\n" in finished.out
    finished = run_pgdb("launch", "--json", *options, *line)
    texts = [each["text"] for each in finished.of_type("output") if each["stream"] == "pgdb"]
    assert texts[:2] == ["one\n", "[0-1] 6 * 7 = 42\n"]


def test_the_source_is_shown_above_the_prompt(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("storm.c")
    hit = program.at("hit").rpartition(":")[2]
    with launched(mpi, program, home=tmp_path) as terminal:
        terminal.ask("b hit", "Breakpoint 1: ")
        terminal.ask("c", r"Breakpoint 1, hit")
        terminal.line("layout src")
        terminal.expect(rf"storm\.c · hit · rank 0 ─+\n[\s\S]*B▶ \[0-1\] +{hit} +hit_count\+\+")
        terminal.expect(PROMPT)
        terminal.line("proc 0 up")
        terminal.expect(r"storm\.c · main · rank 0 ─[\s\S]*▶ \[0\] +\d+ +hit\(i\)")
        terminal.expect(PROMPT)
        terminal.ask("frame 0", "hit")
        # The questions for the pane do not change the lines that are listed next.
        terminal.ask("list 1", r"\[0-1\]\n1\t")
        terminal.ask("list", r"\[0-1\]\n11\t")
        terminal.ask("list", r"\[0-1\]\n21\t")
        terminal.line("layout asm")
        terminal.expect(r"instructions · rank 0 ─+\n[\s\S]*B▶ \[0-1\] +0x[0-9a-f]+ <hit\+\d+>:")
        terminal.line("layout src")
        terminal.expect(PROMPT)
        # It follows a stop that comes while the user types.
        terminal.line("c &")
        terminal.expect(rf"storm\.c · hit · rank 0 ─+\n[\s\S]*B▶ \[0-1\] +{hit} ")
        terminal.send("\x18a")
        terminal.ask("p 40 + 2", r"\[0-1\] 40 \+ 2 = 42")
        leave(terminal)
