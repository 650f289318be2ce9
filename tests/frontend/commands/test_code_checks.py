"""Commands that code in Python or Guile gives to GDB are checked, and learnt."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdb.frontend.commands.bodies import executed
from tests.support.typed_lines import Typed


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('gdb.execute("run")', [(1, "run")]),
        ("x = 1\nif x:\n  gdb.execute('detach', to_string=True)", [(3, "detach")]),
        ("gdb.execute(text)", []),
        ('gdb.set_parameter("detach-on-fork", False)', [(1, "set detach-on-fork off")]),
        ("gdb.set_parameter('follow-fork-mode', 'child')", [(1, "set follow-fork-mode child")]),
        ("gdb.set_parameter(name, True)", []),
        ("not python (", []),
        ("print(1)", []),
    ],
)
def test_commands_in_python_are_found(code: str, found: list[tuple[int, str]]) -> None:
    assert executed(code) == found


def test_python_may_not_end_ranks(typed: Typed) -> None:
    assert typed('python gdb.execute("detach")') == []
    assert "'detach' is refused" in typed.errors
    assert typed('python\nif 1:\n  gdb.execute("kill")\nend') == []
    assert "line 2 of 'python', 'kill'" in typed.errors
    assert typed('python\nif 1:\n  gdb.execute("echo hi")\nend') == [
        'python | if 1: |   gdb.execute("echo hi") | end'
    ]


@pytest.mark.parametrize(
    "code",
    [
        *("import sys; sys.exit(3)", "exit()", "quit(1)", "import os; os._exit(1)"),
        *("raise SystemExit", "raise SystemExit(3)", "if 1: exit()"),
        "def main():\n  exit()\nmain()",
        "try:\n  exit()\nexcept ValueError:\n  pass",
        "try:\n  f()\nexcept SystemExit:\n  exit()",
    ],
)
def test_python_may_not_end_gdbs(typed: Typed, tmp_path: Path, code: str) -> None:
    assert typed(f"python\n{code}\nend") == []
    assert "line " in typed.errors and "it would end the GDBs of the ranks" in typed.errors
    script = tmp_path / "ends.py"
    script.write_text(code)
    assert typed(f"source {script}") == []


@pytest.mark.parametrize(
    "code",
    [
        "def main():\n  exit()",
        "try:\n  exit()\nexcept SystemExit:\n  pass",
        "try:\n  exit()\nexcept (ValueError, BaseException):\n  pass",
        "def exit(): pass\nexit()",
        "from mine import quit\nquit()",
        "class C:\n  def invoke(self): exit()",
        "print(sys.exit)",
    ],
)
def test_python_that_only_may_end_is_carried_out(typed: Typed, code: str) -> None:
    assert len(typed(f"python\n{code}\nend")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "thread apply all python\ngdb.execute('kill')\nend",
        'guile\n(execute "kill")\nend',
        'guile (execute "kill")',
        'define foo\nguile\n(execute "kill")\nend\nend',
    ],
)
def test_code_in_other_places_may_not_end_ranks(typed: Typed, text: str) -> None:
    assert typed(text) == []
    assert "'kill' is refused" in typed.errors


def test_a_line_for_interactive_python_is_carried_out(typed: Typed) -> None:
    assert typed("pi 1 + 2") == ["python-interactive 1 + 2"]
    assert typed('pi gdb.execute("kill")') == []
    assert "'kill' is refused" in typed.errors
    assert typed("python-interactive") == []
    assert "it would wait for lines" in typed.errors


def test_commands_of_python_are_learnt(typed: Typed) -> None:
    typed.session.texts["complete "] = "print\ngo\ntree\nbreak"
    code = "python\nclass Go(gdb.Command):\n  pass\nend"
    assert typed(code)[-1] == "[0] complete "
    assert typed("go") == ["go"]
    assert typed("tree") == ["tree"]
    assert typed("python print(1)") == ["python print(1)"]
    typed("define hook-go\nwhatis before\nend\ndefine hookpost-go\nwhatis after\nend")
    assert typed("go") == ["whatis before", "go", "whatis after"]
    assert typed.session.notes == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("define made\\nprint 44\\nend", ""),
        ("if 1\\necho yes\\nelse\\necho no\\nend", ""),
        ("break f\\ncommands\\nsilent\\nprint 1\\nend\\nprint 2", ""),
        ("define made\\ndetach\\nend", "'detach' is refused"),
        ("if 1\\nkill\\nend", "'kill' is refused"),
        ("print 1\\nattach 3", "'attach' is refused"),
    ],
)
def test_scripts_inside_python_are_checked_line_by_line(typed: Typed, text: str, says: str) -> None:
    line = f'python gdb.execute("{text}")'
    sent = typed(line)
    assert (line in sent) == (not says)
    assert says in typed.errors


def test_files_of_python_are_checked(typed: Typed, tmp_path: Path) -> None:
    script = tmp_path / "ends.py"
    script.write_text("import gdb\nif True:\n    gdb.execute('detach')\n")
    assert typed(f"source {script}") == []
    assert "line 3 of " in typed.errors and "'detach' is refused" in typed.errors
    script.write_text("print(1)\n")
    assert typed(f"source -s {script}") == [f"source -s {script}"]


def test_lines_of_a_file_can_end_with_a_carriage_return(typed: Typed, tmp_path: Path) -> None:
    script = tmp_path / "lines.gdb"
    script.write_bytes(b"if 1\r\nproc 0 ptype x\r\nend\r\nptype \\\r\ny\r\n")
    typed.session.values = {"1": [{"0-3": "1"}]}
    assert typed(f"source {script}") == ["= 1", "[0] ptype x", "ptype y"]
