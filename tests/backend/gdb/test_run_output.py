"""Text that GDB prints during a run, without its announcements, as GDB 13.1 writes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pgdb.backend.gdb.run_output import RunOutput

THREADS = "[New Thread 0x7fd2da1ff6c0 (LWP 29414)]\n[Switching to Thread 0x7fd2da1ff6c0 (LWP 1)]\n"
USR1 = 'Thread 1 "sig" received signal SIGUSR1, User defined signal 1.'
SEGV = 'Thread 1 "sig" received signal SIGSEGV, Segmentation fault.'
HIT = '\nThread 1 "sig" hit Breakpoint 2, place (i=10) at sig.c:9\n9\t  return i + 1;\n'
WATCHED = "\nHardware watchpoint 3: x\n\nOld value = 1\nNew value = 2\n"


class Said:
    """The lines shown, and the questions to GDB that wait for an answer."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.asked: list[Callable[[], None]] = []
        self.output = RunOutput(self.asked.append, self.lines.append)

    def answer(self) -> None:
        asked, self.asked[:] = [*self.asked], []
        for each in asked:
            each()


def at_stop(text: str, *, is_signal: bool = False, shows_displays: bool = False) -> list[str]:
    said = Said()
    for line in text.splitlines(keepends=True):
        said.output.take(line)
    said.output.stop(is_signal=is_signal, shows_displays=shows_displays)
    return said.lines


def test_the_announcement_of_an_end_by_a_signal_is_none_of_the_output() -> None:
    end = "\nProgram terminated with signal SIGKILL, Killed.\nThe program no longer exists.\n"
    assert at_stop(f"mine\n{end}", is_signal=True) == ["mine"]
    # A program can say the same.
    assert at_stop(f"{end}mine\n{end}", is_signal=True)[-1] == "mine"


def test_text_is_shown_once_gdb_answers_that_no_stop_came_with_it() -> None:
    said = Said()
    for piece in (THREADS, "at place ", "1", " of rank 0\n", f"\n{USR1}\n", "half"):
        said.output.take(piece)
    assert not said.lines
    assert len(said.asked) == 1, "one question for all text"
    said.answer()
    assert said.lines == ["at place 1 of rank 0", USR1]
    said.output.take(" a line\n")
    said.answer()
    assert said.lines[2:] == ["half a line"]


def test_no_lines_wait_once_the_stop_has_come() -> None:
    said = Said()
    said.output.take(HIT)
    assert said.output.has_lines
    said.output.stop(is_signal=False, shows_displays=False)
    assert not said.output.has_lines, "the question is not needed"
    said.answer()
    assert not said.lines
    said.output.take("of the next run\n")
    assert len(said.asked) == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (HIT, []),
        ("mine\n0x00005555555551f5\t72\t    array[1] = local;\n", ["mine"]),
        (f"hook here\n{THREADS}{HIT}", ["hook here"]),
        (f"at place 10\n{HIT}", ["at place 10"]),
        (
            f"{HIT}at place 1\nhook here\n{HIT}",
            [*HIT.strip().split("\n"), "at place 1", "hook here"],
        ),
        (f"hook here\n{WATCHED}main () at a.c:3\n3\t  x = 2;\n", ["hook here"]),
        (
            "\nWatchpoint 3 deleted because the program has left the block in\n"
            "which its expression is valid.\n0x00007f in main () from /lib/libc.so.6\n",
            [],
        ),
        ("hook here\n3\t  x = 2;\n", ["hook here"]),
        ("hook here\nmain (argc=1, argv=0x7ff) at a.c:3\n3\t  x = 2;\n", ["hook here"]),
        ("hook here\n0x000055 in plain () from /usr/lib/libx.so\n", ["hook here"]),
        (
            "Run till exit from #0  place (i=2) at a.c:9\n0x0055 in main () at a.c:14\n14\t  }\n",
            [],
        ),
        ("\nCatchpoint 4 (forked process 77), 0x00 in fork () from /lib/libc.so.6\n", []),
        (
            "hook here\nCatchpoint 1 (signal SIGUSR2), \n"
            'Thread 1 "t" hit Catchpoint 1 (signal SIGUSR2), main () at a.c:3\n3\t  x = 2;\n',
            ["hook here"],
        ),
        ("bye\n[Inferior 1 (process 4711) exited normally]\n", ["bye"]),
    ],
)
def test_the_announcement_of_the_stop_is_left_out(text: str, shown: list[str]) -> None:
    assert at_stop(text) == shown


@pytest.mark.parametrize("hook", ["", "hook here\n"])
def test_a_signal_that_stops_is_announced_and_one_before_it_is_shown(hook: str) -> None:
    text = f"\n{USR1}\n\n{SEGV}\n{hook}main () at sig.c:20\n20\t  *target = 0;\n"
    assert at_stop(text, is_signal=True) == [USR1, *hook.splitlines()]


def test_values_of_displays_belong_to_the_announcement() -> None:
    text = f"hook here\n{HIT}1: i = 10\n2: point = {{\n  x = 1\n}}\n"
    assert at_stop(text, shows_displays=True) == ["hook here"]


def test_an_array_of_fortran_is_no_frame() -> None:
    """GDB's step of MI has its place elsewhere, and "(…)" behind a name looks like arguments."""
    displays = "1: n = 2\n2: a = (1, 2)\n3: words = ('a', 'b')\n4: z = (1,2)\n"
    for text in (displays, f"main () at a.f90:3\n3\t  n = 1\n{displays}"):
        assert at_stop(f"mine\n{text}", shows_displays=True) == ["mine"]


@pytest.mark.parametrize(
    "displays",
    [
        "1: i = 10\n",
        "1: i = 10\n2: point = {\n  x = 1\n}\n",
        "2: /x i = 0xa\n3: x/i $pc\n=> 0x401136 <main+4>:\tnop\n7: q = <error: no memory>\n",
    ],
)
def test_values_of_displays_come_without_an_announcement_after_a_step(displays: str) -> None:
    before = ["8: text = of dprintf", "a line of it"]
    assert at_stop("\n".join((*before, displays)), shows_displays=True) == before
    assert at_stop(displays) == displays.splitlines()


def test_text_of_python_behind_the_announcement_is_shown() -> None:
    assert at_stop(f"{HIT}from a stop handler\n") == ["from a stop handler"]


def test_nothing_of_one_run_is_left_for_the_next() -> None:
    said = Said()
    said.output.take("half")
    said.output.stop(is_signal=False, shows_displays=False)
    said.output.take("next\n")
    said.answer()
    assert said.lines == ["half", "next"]
