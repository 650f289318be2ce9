"""The arguments of user-defined commands are divided and put in their places as GDB does."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.errors import CommandError
from pgdb.frontend.commands.user_commands import with_arguments
from tests.support.real_gdb import ask_gdb

_TEXTS = st.text(alphabet="ab1 \t'\"\\$", max_size=14)
_LINES = ("$argc", "<$arg0>", "<$arg1$arg0>", "[$arg*]", "$arg2x", "$argx $arg", "$arg10", "$$arg0")
_ASK = """
import gdb, json
with open({cases!r}) as file:
    cases = json.load(file)
said = []
class Note(gdb.Command):
    def invoke(self, argument, from_tty):
        said.append(argument)
Note("note", gdb.COMMAND_USER)
answers = []
for line, text in cases:
    with open({script!r}, "w") as file:
        file.write("define foo\\nnote x" + line + "x\\nend\\n")
    gdb.execute("source " + {script!r})
    said.clear()
    try:
        gdb.execute("foo " + text)
        answers.append(said[0])
    except gdb.error as error:
        answers.append(None)
with open({answer!r}, "w") as file:
    json.dump(answers, file)
"""


@pytest.mark.gdb
def test_arguments_are_those_of_gdb(tmp_path: Path) -> None:
    cases: list[tuple[str, str]] = []

    @given(st.sampled_from(_LINES), _TEXTS)
    def collect(line: str, text: str) -> None:
        # GDB cuts the blanks at the end of a line before it looks for the command.
        cases.append((line, text.strip(" \t")))

    collect()
    cases += [(line, text) for line in _LINES for text in ("", "a", "a b", "'a b' c d", r"a\ b c")]
    answers = ask_gdb(tmp_path, _ASK, cases)

    def ours(line: str, text: str) -> str | None:
        try:
            return with_arguments(f"x{line}x", text)
        except CommandError:
            return None

    wrong = [
        (case, answer, ours(*case))
        for case, answer in zip(cases, answers, strict=True)
        if ours(*case) != answer
    ]
    assert wrong == [], wrong
    assert answers.count(None) > 5 and len(answers) - answers.count(None) > 50
