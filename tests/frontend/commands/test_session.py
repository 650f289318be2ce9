"""help, apropos and quit with an exit status."""

from __future__ import annotations

import pytest

from pgdb.frontend.commands.dispatch import Quit
from tests.support.typed_lines import Typed


@pytest.fixture
def typed() -> Typed:
    return Typed()


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("help info line", "[0] help info line"),
        ("help set print elements", "[0] help set print elements"),
        ("help x", "[0] help x"),
        ("h user-defined", "[0] help user-defined"),
        ("apropos watch", "[0] apropos watch"),
    ],
)
def test_one_gdb_is_asked_for_the_help_of_gdbs_commands(
    typed: Typed, line: str, asked: str
) -> None:
    assert typed(line) == [asked]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("help tree", "tree "),
        ("help proc 0", "proc SET COMMAND"),
        ("help set settle", "settle SECONDS"),
        ("help info barr", "info [TOPIC]"),
        ("help catch death", "catch EVENT"),
        ("help list features", "list [LOCATION]"),
    ],
)
def test_the_help_of_ours_is_shown(typed: Typed, line: str, shown: str) -> None:
    assert typed(line) == []
    assert shown in typed.errors


def test_the_help_of_a_command_of_gdbs_has_its_subcommands_behind_ours(typed: Typed) -> None:
    gdbs = "About things.\n\nList of info subcommands:\n\ninfo args -- All arguments.\n"
    typed.session.texts["help info"] = gdbs
    assert typed("help info") == ["[0] help info"]
    assert typed.errors.startswith("info [TOPIC]")
    assert typed.errors.endswith("List of info subcommands:\n\ninfo args -- All arguments.\n")
    assert "About things" not in typed.errors


def test_apropos_finds_commands_of_ours(typed: Typed) -> None:
    typed("apropos call tree")
    assert "tree -- " in typed.errors
    typed("apropos [")
    assert "apropos [: unterminated character set" in typed.errors


def test_apropos_finds_the_options_that_we_give_gdbs_commands(typed: Typed) -> None:
    typed.session.texts["apropos lockstep"] = "finish, fin -- Execute until it returns."
    typed("apropos lockstep")
    found = {line.partition(" -- ")[0] for line in typed.errors.split("\n")}
    assert {"step", "next", "until", "until-diverge"} <= found
    assert "finish" not in found  # GDB lists it


def test_apropos_finds_commands_and_aliases_of_the_user(typed: Typed) -> None:
    typed("define foo\nproc 0 ptype x\nend\ndocument foo\nShow x.\nThe other words.\nend")
    typed("alias ones = proc 1 print")
    typed("apropos other words")
    assert "foo -- Show x.\nThe other words." in typed.errors
    typed("apropos proc 1")
    assert "alias ones = proc 1 print" in typed.errors


def test_complete_lists_commands_of_ours_and_of_the_user(typed: Typed) -> None:
    typed("define foo\nproc 0 ptype x\nend\nalias fox = proc 1 print")
    assert typed("complete fo") == ["complete fo"]
    assert "focus\nfoo\nfox" in typed.errors
    assert typed("complete layout s") == []
    assert "layout split\nlayout src" in typed.errors


def test_user_defined_commands_of_ours_are_listed(typed: Typed) -> None:
    typed("define foo\nproc 0 ptype x\nend\ndocument foo\nShow x.\nMore.\nend\nhelp user-defined")
    assert "foo -- Show x." in typed.errors


def test_aliases_that_gdb_does_not_have_have_their_help(typed: Typed) -> None:
    typed("alias mygo = continue 2\nhelp mygo")
    assert "alias mygo = continue 2" in typed.errors and "continue the ranks" in typed.errors
    typed("define foo\nproc 0 ptype x\nend\ndocument foo\nShow x.\nend\nalias bar = foo\nhelp bar")
    assert "alias bar = foo\nShow x." in typed.errors
    assert typed("help aliases") == ["[0] help aliases"]
    assert "alias bar = foo\nalias mygo = continue 2\n" in typed.errors


def test_help_of_an_alias_that_gdb_has_is_gdbs(typed: Typed) -> None:
    assert typed("alias spr = ptype -o\nhelp spr") == ["alias spr = ptype -o", "[0] help spr"]


@pytest.mark.parametrize(
    ("line", "value", "status"),
    [("quit 3", "", 3), ("exit 259", "", 3), ("q $code", "7", 7), ("quit -1", "-1", 255)],
)
def test_quit_has_an_exit_status(typed: Typed, line: str, value: str, status: int) -> None:
    typed.session.values = {line.split()[1]: [{"0-3": value}]}
    with pytest.raises(Quit):
        typed(line)
    assert typed.dispatcher.chosen_status == status


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"0-1": "1", "2-3": "2"}, "no whole number in common; 'proc 0 quit x'"),
        ({"0-3": "2.5"}, "no whole number"),
        ({}, "no rank has answered"),
    ],
)
def test_quit_stays_without_a_status(typed: Typed, values: dict[str, str], says: str) -> None:
    typed.session.values = {"x": [values]}
    typed("quit x")
    assert says in typed.errors


@pytest.mark.parametrize(
    "line", ["set environment A b", "set env A", "set cwd /tmp", "set disable-randomization off"]
)
def test_settings_of_programs_that_gdb_starts_say_that_they_do_nothing(
    typed: Typed, line: str
) -> None:
    assert typed(line) == [line]
    assert "has no effect on the job" in typed.session.notes[0]


@pytest.mark.parametrize("line", ["set multiple-symbols ask", "set mult cancel"])
def test_the_setting_of_overloads_says_that_breakpoints_are_for_all_of_them(
    typed: Typed, line: str
) -> None:
    assert typed(line) == [line]
    assert "has no effect on breakpoints: 'break NAME' stops in all" in typed.session.notes[0]


@pytest.mark.parametrize(
    "line",
    [
        *("set print pretty on", "set env = 3", "set cw=1", "set var x = 1"),
        *("set multiple-symbols all", "set m = 3"),
    ],
)
def test_other_settings_say_nothing(typed: Typed, line: str) -> None:
    assert typed(line) == [line]
    assert typed.session.notes == []


def test_ranks_are_held_from_the_next_launch_on(typed: Typed) -> None:
    typed("set spawned attach")
    assert typed.session.notes == []
    typed("set spawned hold")
    (note,) = typed.session.notes
    assert note.startswith("'spawned hold' is for a launch") and "when it sees them" in note
    typed("set spawned hold")
    assert typed.session.notes == [note]
