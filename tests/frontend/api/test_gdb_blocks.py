"""The lines of a multi-line command end where GDB's do, and are read into a tree."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.errors import UsageError
from pgdb.frontend.api.gdb_blocks import Block, Line, Nesting, parse, reads_lines, whole
from tests.support.real_gdb import ask_gdb

_OPENERS = ("define foo", "document foo", "python", "if 0", "while 0", "commands", "guile")
_LINES = (
    "end", "end", "end", "  end ", "if 0", "if(0)", "  while 0", "python", "py",
    "python if 1: pass",
    "document bar", "docu bar", "define bar", "defin bar", "defi bar", "commands", "comma 1",
    "ws 3",
    "while-stepping", "stepping", "compile", "compile code", "expression", "expr", "guile", "gu",
    "# if 0", "print 1", "", "ifx", "end x", "actions", "define-prefix x", "whi 0"
)  # fmt: skip
_BLOCKS = st.tuples(st.sampled_from(_OPENERS), st.lists(st.sampled_from(_LINES), max_size=12))

# GDB names the line of an unknown command outside of all blocks, and of no other.
_BEFORE = 3
_ASK = """
import gdb, json
with open({cases!r}) as file:
    cases = json.load(file)
answers = []
for lines in cases:
    with open({script!r}, "w") as file:
        file.write("\\n".join(["define foo", "end", "break *0", *lines]) + "\\n")
    try:
        gdb.execute("source " + {script!r}, to_string=True)
        answers.append("")
    except gdb.error as error:
        answers.append(str(error))
with open({answer!r}, "w") as file:
    json.dump(answers, file)
"""


def _finished(opener: str, lines: list[str]) -> list[str]:
    """Return the lines of the block alone, with the ends that it needs.

    GDB 13.1 has an internal error where a file ends inside a block.
    """
    nesting, found = Nesting(opener), []
    for line in (*lines, *["end"] * len(_LINES)):
        found.append(line)
        if nesting.take(line):
            return found
    raise AssertionError(lines)


@pytest.mark.gdb
def test_blocks_end_where_gdbs_end(tmp_path: Path) -> None:
    found: list[tuple[str, list[str]]] = []

    @given(_BLOCKS)
    def collect(block: tuple[str, list[str]]) -> None:
        found.append(block)

    collect()
    found += [("define foo", [line, "end"]) for line in _LINES]
    found += [("define foo", [line, "end", "end"]) for line in _LINES]
    found += [("python", [line, "end"]) for line in _LINES]
    found += [("document foo", [line, "end"]) for line in _LINES]
    cases = [[opener, *_finished(opener, lines), "qqq"] for opener, lines in found]
    answers = ask_gdb(tmp_path, _ASK, cases)
    wrong = [
        (case, answer)
        for case, answer in zip(cases, answers, strict=True)
        # Text of Python and Guile is carried out at its end, which ends the file.
        if 'Undefined command: "qqq"' not in answer
        and f":{_BEFORE + len(case) - 1}: " not in answer
    ]
    assert wrong == []
    assert sum('"qqq"' in answer for answer in answers) > 60


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("python", True),
        ("py", True),
        ("python print(1)", False),
        ("python if 1: pass", False),
        ("compile", True),
        ("compile code", True),
        ("compile code -r", True),
        ("compile print /x", True),
        ("compile code int x;", False),
        ("expression", True),
        ("expr 1", False),
        ("if x > 1", True),
        ("if(x)", True),
        ("commands", True),
        ("actions 1", True),
        ("document x", True),
        ("define-prefix x", False),
        ("while-stepping 3", False),
        ("print 1", False),
    ],
)
def test_lines_that_open_a_block(line: str, expected: bool) -> None:
    assert reads_lines(line) is expected


def test_a_tree_has_the_lines_with_their_numbers() -> None:
    block = parse(
        "define foo",
        [
            "# comment",
            "if $argc",
            "  print 1",
            "else",
            "python",
            " if 1:",
            "  x",
            "end",
            "end",
            "x",
        ],
    )
    control, last = block.body
    assert isinstance(control, Block) and last == Line(10, "x")
    assert (control.word, control.argument, control.number) == ("if", "$argc", 2)
    assert control.body == (Line(3, "print 1"),)
    (code,) = control.otherwise
    assert isinstance(code, Block) and code.is_text
    assert code.body == (Line(6, " if 1:"), Line(7, "  x"))
    assert code.raw == ("python", " if 1:", "  x", "end")
    assert block.raw[0] == "define foo" and block.raw[-1] == "end" and len(block.raw) == 12


def test_text_keeps_what_looks_like_commands() -> None:
    block = parse("document foo", ["if you want", "", "# so"])
    assert [line.text for line in block.body if isinstance(line, Line)] == [
        "if you want",
        "",
        "# so",
    ]


@pytest.mark.parametrize("lines", [["else"], ["if 1", "else", "else", "end"], ["while 1", "else"]])
def test_an_else_without_an_if_is_refused(lines: list[str]) -> None:
    with pytest.raises(UsageError, match="'else' belongs to no 'if'"):
        parse("define foo", lines)


def test_a_condition_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match="line 2: 'while' needs a condition"):
        parse("define foo", ["print 1", "while", "end"])


def test_lines_that_end_too_early_name_the_command() -> None:
    with pytest.raises(UsageError, match="'while' is not finished"):
        whole("while 1", iter(["print 1"]))
    assert whole("while 1", iter(["print 1", "end", "x"])) == ["print 1"]
