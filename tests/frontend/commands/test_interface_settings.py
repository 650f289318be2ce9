"""GDB's settings of its own user interface: those with an effect, and a sentence about others."""

from __future__ import annotations

import pytest

from tests.support.typed_lines import Typed


@pytest.fixture
def typed() -> Typed:
    return Typed()


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("set prompt (x)", "prompt", "(x)"),
        ("set prom {focus}>", "prompt", "{focus}>"),
        ("set style enabled off", "style", False),
        ("set style en 0", "style", False),
        ("set trace-commands on", "trace_commands", True),
        ("set confirm off", "confirm", False),
        ("set pagination off", "pagination", False),
        ("set width 80", "width", 80),
        ("set height unlimited", "height", 0),
    ],
)
def test_settings_of_the_prompt_are_the_front_ends(
    typed: Typed, line: str, field: str, value: object
) -> None:
    assert typed(line) == []
    assert getattr(typed.dispatcher.workspace.interface, field) == value


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("set history save on", "'history' lists them"),
        ("set history filename ~/x", "'history' lists them"),
        ("set style function foreground red", "'set style enabled off' turns all of them off"),
        ("set style sources off", "'set style enabled off'"),
        ("set editing off", "always edits lines"),
        ("set tui border-kind ascii", "'layout src' shows a pane"),
        ("set extended-prompt \\w", "'set prompt TEXT'"),
        ("set exec-done-display on", "'set timings on'"),
        ("show history", "'history' lists them"),
        ("show style function", "'set style enabled off'"),
    ],
)
def test_a_setting_without_effect_says_so(typed: Typed, line: str, says: str) -> None:
    assert typed(line) == []
    notes = " ".join(typed.session.notes)
    assert says in notes + typed.errors and "GDB's own user interface" in notes + typed.errors
    assert typed.dispatcher.status == 0


@pytest.mark.parametrize("line", ["set history = 3", "set print pretty on", "set editions 3"])
def test_variables_and_other_settings_are_gdbs(typed: Typed, line: str) -> None:
    assert typed(line) == [line]


def test_settings_of_the_prompt_are_shown(typed: Typed) -> None:
    typed("set style enabled off\nshow style enabled\nshow prompt\nshow trace-commands")
    assert "style: off\nprompt: (pgdb {focus})\ntrace-commands: off" in typed.errors


@pytest.mark.parametrize(
    ("line", "sent"),
    [
        ("with pagination off -- ptype x", "ptype x"),
        ("w style enabled off -- ptype x", "ptype x"),
        ("with width 10 -- ptype y", "ptype y"),
        ("with history size 3 -- ptype x", "ptype x"),
        ("with print pretty -- ptype x", "with print pretty -- ptype x"),
    ],
)
def test_with_takes_settings_of_the_prompt(typed: Typed, line: str, sent: str) -> None:
    before = typed.dispatcher.workspace.interface
    assert typed(line) == [sent]
    assert typed.dispatcher.workspace.interface == before


def test_with_repeats_the_last_command(typed: Typed) -> None:
    assert typed("with pagination off --") == []
    assert "needs a command behind --" in typed.errors
    assert typed("ptype x\nwith pagination off --") == ["ptype x", "ptype x"]


def test_with_refuses_a_wrong_value(typed: Typed) -> None:
    assert typed("with pagination maybe -- ptype x") == []
    assert "'maybe'" in typed.errors


def test_lines_are_traced_as_gdb_does(typed: Typed) -> None:
    typed("define two\nproc 0 ptype x\nptype y\nend\nset trace-commands on\ntwo\nptype z")
    lines = [line for line in typed.errors.split("\n") if line.startswith("+")]
    assert lines == ["+two", "++proc 0 ptype x", "++ptype y", "+ptype z"]
