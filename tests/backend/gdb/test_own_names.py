"""PGDB's own variables and functions in GDB's lists."""

from __future__ import annotations

import pytest

from pgdb.backend.gdb.own_names import without_own_names


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("$_rank = 0\n$_pgdb_report = 0\n$mine = 1\n", "$_rank = 0\n$mine = 1\n"),
        ("$a = 1\n$_pgdb_part_1 = {\n  x = 1\n}\n$b = 2\n", "$a = 1\n$b = 2\n"),
        ("$_pgdb_part_1 = {\n  x = 1\n}", ""),
        ("$_pgdb_a = 1\n$_pgdb_b = 2\n$c = 3\n", "$c = 3\n"),
        ("function _element -- E.\nfunction _pgdb_x -- X.\n", "function _element -- E.\n"),
        ("p $_pgdb_death\np $_pid\n", "p $_pid\n"),
        ("help function _pgdb_x\nhelp function _regex", "help function _regex"),
        ("hook-kill -- _pgdb_guard\nhook-next -- User-defined.\n", "hook-next -- User-defined.\n"),
        ("hook-step -- _pgdb_guard\n_pgdb_stay -- This command is not documented.\n", ""),
        ("_pgdb_stay\nhook-step\n", "hook-step\n"),
        ('User command "hook-step":\n  _pgdb_stay step\n\n', ""),
        ("hook-kill\ntarget hook-remote\nhook-next\n", "hook-next\n"),
        (
            'User command "hook-run":\n  if $_pgdb_refuse("run")\n  end\n\n'
            'User command "mine":\n  run\n\n'
            'User command "target hook-core":\n  if $_pgdb_refuse("target core")\n  end\n',
            'User command "mine":\n  run\n\n',
        ),
        # A condition stays.
        ("\tstop only if $_pgdb_python_hit(1, 2)\n", "\tstop only if $_pgdb_python_hit(1, 2)\n"),
    ],
)
def test_own_names_are_in_no_list(text: str, shown: str) -> None:
    assert without_own_names(text) == shown
