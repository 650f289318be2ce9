"""MI lines are cut into their parts, commands quoted so that GDB reads what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pygdbmi.gdbescapes import unescape

from pgdb.backend.gdb.mi import Line, Result, console, cut, quote

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "transcripts"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("7^done", Line(kind="^", token=7, name="done")),
        ("^running", Line(kind="^", name="running")),
        ('7^done,value="3"', Line(kind="^", token=7, name="done", payload={"value": "3"})),
        ('7^error,msg="No \\"x\\"."', Line("^", 7, "error", {"msg": 'No "x".'})),
        ("*stopped", Line(kind="*", name="stopped")),
        ('*running,thread-id="all"', Line("*", None, "running", {"thread-id": "all"})),
        ('=breakpoint-deleted,id="1"', Line("=", None, "breakpoint-deleted", {"id": "1"})),
        ('~"text\\n"', Line(kind="~", text="text\n")),
        ('&"warning\\n"', Line(kind="&", text="warning\n")),
        ('@"target"', Line(kind="@", text="target")),
        ('~""', Line(kind="~", text="")),
        ('~"tab\\tquote\\"back\\\\slash"', Line(kind="~", text='tab\tquote"back\\slash')),
        ('~"n\\303\\244me"', Line(kind="~", text="näme")),
        ('~"näme"', Line(kind="~", text="näme")),
        ("(gdb) ", Line(kind="", text="(gdb) ")),
        ("", Line(kind="", text="")),
        ("printed by somebody else", Line(kind="", text="printed by somebody else")),
    ],
)
def test_lines_are_cut(line: str, expected: Line) -> None:
    assert cut(line) == expected


def test_payloads_are_nested() -> None:
    part = cut('1^done,stack=[frame={level="0",func="f"},frame={level="1",func="main"}]')
    assert part.payload == {"stack": [{"level": "0", "func": "f"}, {"level": "1", "func": "main"}]}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ('script={"silent","print x"}', ["silent", "print x"]),
        ('script={"echo \\"}\\"\\n"}', ['echo "}"\n']),
        ('script=["silent"]', ["silent"]),  # GDB 14 and later
        ('script={"one"}', ["one"]),
    ],
)
def test_commands_of_a_breakpoint_in_the_form_of_old_gdbs(script: str, expected: list[str]) -> None:
    payload = cut(f'=breakpoint-modified,bkpt={{number="1",{script},times="2"}}').payload
    assert payload["bkpt"]["number"] == "1" and payload["bkpt"]["times"] == "2"
    assert payload["bkpt"]["script"] == expected


@given(st.text())
def test_quoting_is_undone_by_unescaping(text: str) -> None:
    quoted = quote(text)
    assert quoted[0] == quoted[-1] == '"'
    assert "\n" not in quoted
    assert unescape(quoted[1:-1]) == text


def test_a_console_command_is_one_line() -> None:
    assert console('echo "a"\n') == '-interpreter-exec console "echo \\"a\\"\\n"'


MI_LIKE = st.text(alphabet='^*+=~&@0123456789abdone,{}[]"\\()= ', max_size=40)
BROKEN = (
    "^done,foo",
    "*stopped,reason=",
    '~"\\q"',
    '~"a\\x41"',
    '=x,a={b="1"',
    '^done,a=["1"',
    "~",
    '~"',
    '~"\\',
    "=",
    "*",
    "9" * 5000 + "^done",
)


@pytest.mark.parametrize(
    "line", ["^done,foo", "*stopped,reason=", '~"\\q"', '~"a\\x41"', BROKEN[-1]]
)
def test_broken_lines_are_foreign_text(line: str) -> None:
    # GDB's Python can print past MI (os.system, os.write): a line that ends the reader would
    # take the results behind it along.
    assert cut(line).kind in ("", line[0])


@given(MI_LIKE)
@example('^done,"')
def test_any_line_like_mi_is_cut(line: str) -> None:
    assert cut(line).kind in ("", *"^*+=~&@")


def test_equal_lines_are_parsed_once() -> None:
    line = '1^done,value="parsed once"'
    assert cut(line).payload is cut("2" + line[1:]).payload


def test_a_result_has_a_message_only_if_it_failed() -> None:
    assert Result(kind="error", payload={"msg": "no"}).message == "no"
    assert Result(kind="done", payload={"msg": "no"}).message == ""


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*.mi")), ids=lambda path: path.stem)
def test_nothing_in_a_recorded_session_is_foreign(path: Path) -> None:
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("#") or line == "(gdb) ":
            continue
        part = cut(line)
        assert part.kind and part.kind in "^*=~&@"
        if part.kind in "^*=":
            assert part.name
            assert bool(part.payload) == ("," in line)
