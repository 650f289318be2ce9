"""Ctrl-C at the edges of a command, where the prompt gives the keys back: it has its effect."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.conftest import Build
from tests.support.processes import wait_until
from tests.support.programs import Mpi
from tests.support.prompts import launched, ranks_of, wait_running
from tests.support.terminal import DEADLINE_S, PGDB, Terminal

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]
PROMPT = r"\(pgdb 0-1\)"
ROUNDS = 30
LONGEST_S = 0.02
"""Longest time between a line and the signal behind it, in seconds."""


def leave(terminal: Terminal) -> None:
    """End the job, which lives, by its session."""
    terminal.line("kill")
    terminal.expect(r"y or n")
    terminal.line("y")
    terminal.expect(r"\[0-1\] (ended by SIGKILL|killed)")
    terminal.line("quit")
    terminal.wait()


@pytest.mark.parametrize(
    "line", ["continue", "next --lockstep 1000000", "until-differ 1 --at hit --hits 1000000"]
)
def test_ctrl_c_typed_behind_a_line_is_for_that_line(mpi: Mpi, build: Build, line: str) -> None:
    """A prompt that reads both at once would keep the key for the next prompt."""
    with Terminal(*PGDB, "launch", "--settle", "600", *mpi.line(2, build("storm.c"))) as terminal:
        terminal.expect(PROMPT)
        for number in range(3):
            wait_until(lambda: not terminal.reads_lines, "the prompt reads keys", DEADLINE_S)
            # The prompt reads both at once, or the kernel has the key, and interrupts.
            terminal.send(f"{line}\r\x03")
            terminal.line(f"print 100 + {number}")
            terminal.expect(rf" = 10{number}\n")
        leave(terminal)


def test_the_quit_key_ends_no_session(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("storm.c")
    with launched(mpi, program, home=tmp_path) as terminal:
        terminal.line("continue")
        wait_running(ranks_of(terminal, program))
        wait_until(lambda: terminal.reads_lines, "the prompt has given the terminal back")
        terminal.send("\x1c")
        terminal.expect(r"Ctrl-\\ has no effect")
        # A program of the user's has the key for itself.
        terminal.control_c()
        terminal.expect(PROMPT)
        terminal.line("shell trap 'echo reported' QUIT; echo begun; read answer; echo $answer")
        terminal.expect("begun\n")
        terminal.send("\x1c")
        terminal.expect("reported\n")
        terminal.send("over\n")
        terminal.expect("over\n")
        terminal.ask("print 150 + 150", " = 300")
        assert terminal.text.count("has no effect") == 1
        leave(terminal)


def test_a_signal_between_two_commands_ends_no_session(mpi: Mpi, build: Build) -> None:
    """A second Ctrl-C often comes when the first one has had its effect."""
    chance = random.Random(27)
    with Terminal(*PGDB, "launch", *mpi.line(2, build("storm.c"))) as terminal:
        terminal.expect(PROMPT)
        for number in range(ROUNDS):
            terminal.line(f"print 100 + {number}")
            # Not a wait for anything: the moment is to be any one around the end of the command.
            time.sleep(chance.uniform(0.0, LONGEST_S))
            os.kill(terminal.pid, signal.SIGINT)
            os.kill(terminal.pid, signal.SIGINT)
        # The last signal may take a line with it, but no second one.
        for _ in range(2):
            terminal.line("print 150 + 150")
            if terminal.shows(r" = 300\n|ended", within_s=DEADLINE_S / 4):
                break
        terminal.expect(r" = 300\n")
        leave(terminal)
