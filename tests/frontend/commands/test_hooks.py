"""Hooks of commands run around them."""

from __future__ import annotations

import pytest

from pgdb.ranks import RankSet
from tests.support.typed_lines import Typed


def test_hooks_run_around_commands_that_pgdb_carries_out(typed: Typed) -> None:
    typed("define hook-ptype\nwhatis before\nend\ndefine hookpost-ptype\nwhatis after\nend")
    assert typed("ptype x") == ["whatis before", "ptype x", "whatis after"]
    typed("define hook-whatis\nwhatis inner\nend")
    assert typed("whatis x") == ["whatis inner", "whatis x"]


def test_a_command_that_fails_has_no_hook_behind_it_and_ends_the_body(typed: Typed) -> None:
    typed("define hookpost-ptype\nwhatis after\nend")
    typed.session.failing = {"ptype bad": RankSet.parse("0-3"), "ptype half": RankSet.parse("2-3")}
    assert typed("ptype bad") == ["ptype bad"]
    assert typed("ptype half") == ["ptype half", "[0-1] whatis after"]
    assert typed.errors.count("it fails") == 2, "each error is shown once"
    # Without the error the loop would have no end.
    typed.session.values = {"1": [{"0-3": "1"}]}
    typed("while 1\nproc 0-3 whatis x\nptype bad\nend")
    assert typed.session.lines[-3:] == ["= 1", "whatis x", "ptype bad"]
    assert "line 2 of 'while': 'ptype bad' has failed" in typed.errors
    assert typed("if 1\nproc 0-3 whatis x\nptype half\nptype rest\nend")[-3:] == [
        "[0-1] whatis after",
        "[0-1] ptype rest",
        "[0-1] whatis after",
    ]


def test_hooks_of_a_prefix_do_not_run_around_its_subcommands(typed: Typed) -> None:
    typed("define hook-info\nwhatis before\nend")
    assert typed("info line f") == ["info line f"]
    assert typed("info") == ["whatis before", "info"]


@pytest.mark.parametrize("name", ["hook-nosuch", "hookpost-nosuch", "hook-p", "hookpost-prin"])
def test_a_hook_of_no_command_is_warned_of(typed: Typed, name: str) -> None:
    assert typed(f"define {name}\nptype x\nend") == []
    (warning,) = typed.session.notes
    assert warning == f"warning: Your new `{name}' command does not hook any existing command."


@pytest.mark.parametrize("word", ["print", "tree", "quit", "mine", "run"])
def test_a_hook_of_a_command_is_not_warned_of(typed: Typed, word: str) -> None:
    typed(f"define mine\nptype x\nend\ndefine hook-{word}\nptype x\nend")
    assert typed.session.notes == []


def test_hooks_of_user_defined_commands_run(typed: Typed) -> None:
    typed("define mine\nptype x\nend\ndefine hook-mine\nwhatis before\nend")
    assert typed("mine") == ["whatis before", "mine"]
