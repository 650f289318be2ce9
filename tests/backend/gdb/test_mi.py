"""MI lines are cut into their parts, and commands are quoted for GDB."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pygdbmi import gdbmiparser
from pygdbmi.gdbescapes import unescape

from pgdb.backend.gdb import decode, mi, mi_lines
from pgdb.backend.gdb.mi import Line, Result, console, cut, quote, without_records
from pgdb.backend.gdb.mi_lines import BIG_LINE_BYTES, Lines, cut_pieces
from pgdb.records import Exit

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "transcripts"


def parse(text: str) -> dict[str, Any] | None:
    """Return the payload in *text*, None if it is malformed."""
    return mi._parse(text)[0]


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
    # GDB's Python can print past MI (os.system, os.write): a line that ended the reader would hide
    # the results after it.
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


# -- our own reader beside pygdbmi, which is the reference -------------------------------------

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,6}", fullmatch=True)
ADDRESSES = st.integers(0, 2**64 - 1).map(hex)
TEXTS = st.one_of(
    st.text(max_size=12),
    ADDRESSES,
    st.builds("<{} sym+{}>".format, ADDRESSES, st.integers(0, 99)),
    st.builds("Thread {} (LWP {})".format, ADDRESSES, st.integers(1, 99999)),
)


def mi_string(text: str) -> str:
    """Return a c-string as GDB writes it: other than printable ASCII, byte by byte in octal."""
    pieces = []
    for letter in text:
        if letter in '"\\':
            pieces.append(f"\\{letter}")
        elif " " <= letter <= "~":
            pieces.append(letter)
        else:
            pieces += [f"\\{byte:03o}" for byte in letter.encode("utf-8", "replace")]
    return f'"{"".join(pieces)}"'


STRINGS = TEXTS.map(mi_string)


def _results(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    result = st.builds("{}={}".format, NAMES, values)
    return st.lists(result, max_size=5).map(",".join)


VALUES = st.recursive(
    STRINGS,
    lambda values: st.one_of(
        _results(values).map("{{{}}}".format),
        _results(values).map("[{}]".format),
        st.lists(values, max_size=4).map(",".join).map("[{}]".format),
    ),
    max_leaves=12,
)
RECORDS = st.builds(
    "{}{}{}".format, st.sampled_from(["^done", "*stopped", "=x"]), st.just(","), _results(VALUES)
)


def reference(line: str) -> tuple[str, dict[str, object]]:
    """Return a record as parsed by pygdbmi: its name and its payload."""
    record = gdbmiparser.parse_response(line)
    return record["message"], record["payload"] or {}


@pytest.mark.slow
@given(RECORDS, st.sampled_from(["", "7"]))
@example('*stopped,wpt={number="1",exp="x"},wpt={number="2",exp="0x7fff"}', "")
@example('^done,a="\\0330x41",b="0x1"', "7")
@example('^done,a="\\0010x41"', "7")
@example('^done,a0x0="\\001"', "")
def test_a_record_says_what_it_says_to_pygdbmi(record: str, token: str) -> None:
    found = cut(token + record)
    assert (found.name, found.payload) == reference(record)
    assert found.token == (int(token) if token else None)


@given(MI_LIKE.map("^done,{}".format))
@example('^done,a="1"b="2"')
@example('^done,a={b="1"]')
@example('^done,a="1",')
@example('^done,{a="1"}')
def test_what_is_no_record_is_not_taken_for_one(line: str) -> None:
    taken = parse(line[len("^done,") :])
    if taken is not None:
        assert taken == reference(line)[1]


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*.mi")), ids=lambda path: path.stem)
def test_recorded_records_say_what_they_say_to_pygdbmi(path: Path) -> None:
    for line in path.read_text("utf-8").splitlines():
        part = cut(line)
        if part.kind in ("^", "*", "=") and "script=" not in line:
            assert (part.name, part.payload) == reference(line)


def test_ranks_that_differ_by_addresses_share_what_is_parsed() -> None:
    def line(rank: int) -> Line:
        return cut(f'{rank}^done,stack=[frame={{addr="{0x7F00 + rank:#x}",func="shared"}}]')

    one, other = line(1), line(2)
    assert one.shape is not None and one.shape is other.shape
    assert one.payload == {"stack": [{"addr": "0x7f01", "func": "shared"}]}
    assert other.payload == {"stack": [{"addr": "0x7f02", "func": "shared"}]}
    assert list(other.varying) == ["0x7f02"]


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=6))
def test_lines_do_not_depend_on_the_pieces_they_come_in(data: bytes, cuts: list[int]) -> None:
    lines = Lines()
    ends = sorted({min(each, len(data)) for each in cuts} | {0, len(data)})
    found = [line for a, b in pairwise(ends) for line in lines.feed(data[a:b])]
    assert found == data.split(b"\n")[:-1]


def in_pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def test_a_big_line_comes_in_its_pieces() -> None:
    lines = Lines()
    big = b'1^done,value="' + b"x" * BIG_LINE_BYTES + b'"'
    found = [line for piece in in_pieces(big + b"\n2^done\n", 65536) for line in lines.feed(piece)]
    assert isinstance(found[0], list) and b"".join(found[0]) == big
    assert found[1] == b"2^done"


@given(st.integers(5, 40), st.text(alphabet='ab"\\ä\n', min_size=0, max_size=400))
def test_a_line_in_pieces_is_the_same_line(size: int, text: str) -> None:
    for line in (f"3^done,value={mi_string(text)},more={mi_string(text)}", f"~{mi_string(text)}"):
        assert cut_pieces(in_pieces(line.encode(), size)) == cut(line)


@given(st.binary(min_size=1, max_size=300), st.integers(3, 40))
def test_long_contents_of_memory_are_bytes(data: bytes, size: int) -> None:
    line = f'1^done,memory=[{{begin="0x10",offset="0x0",end="0x20",contents="{data.hex()}"}}]'
    assert decode.memory(cut(line).payload) == data
    assert decode.memory(cut_pieces(in_pieces(line.encode(), size)).payload) == data


def test_memory_with_a_gap_is_what_comes_before_it() -> None:
    payload = cut(
        '^done,memory=[{begin="0x10",offset="0x0",contents="0102"},'
        '{begin="0x10",offset="0x8",contents="03"}]'
    ).payload
    assert decode.memory(payload) == b"\1\2"


# -- what is damaged ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer", ['^done,a=["b"', "^done,a=[", "^done,foo", '^done,a="\\q"', '^done,a={b="1"]', "^"]
)
def test_a_result_that_cannot_be_read_is_an_error(answer: str) -> None:
    # pygdbmi does not finish the first two.
    line = cut(f"7{answer}")
    assert (line.kind, line.token, line.name) == ("^", 7, "error")
    assert answer[1:] in line.payload["msg"]


@pytest.mark.parametrize("notice", ['*stopped,reason=["x"', '=x,a={b="1"', "=", "*"])
def test_a_notice_that_cannot_be_read_says_nothing(notice: str) -> None:
    assert cut(notice).payload == {}
    assert cut(notice).name in ("stopped", "x", "")


def test_what_looks_like_commands_in_a_string_stays() -> None:
    text = 'script={"a","b"}'
    assert cut(f"^done,value={mi_string(text)}").payload == {"value": text}


def test_a_line_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mi_lines, "MAX_LINE_BYTES", 1 << 20)
    for start, kept in (
        (b'5^done,value="', b'5^error,msg="GDB\'s answer is longer than 1 MiB"'),
        (b'~"', b""),
    ):
        lines = Lines()
        assert list(lines.feed(start)) == []
        for _ in range(40):
            assert list(lines.feed(b"x" * 65536)) == []
            assert sum(map(len, lines._pieces)) <= (1 << 20) + 65536
        assert list(lines.feed(b'"\n6^done\n7')) == [kept, b"6^done"]
        assert list(lines.feed(b"^done\n")) == [b"7^done"]


def test_odd_fields_are_nothing_or_0() -> None:
    exited = cut('*stopped,reason="exited",exit-code="9x"').payload
    assert decode.exit_of(exited, run=1) == Exit(code=0, run=1)
    gap = cut('^done,memory=[{begin="0x10",contents="01"},{begin="0x11",contents="0g"}]').payload
    assert decode.memory(gap) == b"\1"
    assert not decode.is_readable("/a\0b")


def test_records_of_mi_in_the_text_of_a_command_are_text() -> None:
    # GDB 18.1, "thread apply 1 info locals"
    text = 'Thread 1 (LWP 7):\n~"to = {x = 0, s = \\"a\\"}\\n"\n~"y = 2\\n"\n$1 = 3\n'
    assert without_records(text, 1) == 'Thread 1 (LWP 7):\nto = {x = 0, s = "a"}\ny = 2\n$1 = 3\n'
    assert without_records('x = ~"a\\n"\n', 1) == 'x = ~"a\\n"\n'
    # "frame apply 1 p 1<<40"
    warned = '#0  main ()\n&"warning: left shift count >= width of type\\n"\n~"$1 = 0\\n"\n'
    assert without_records(warned, 1) == (
        "#0  main ()\nwarning: left shift count >= width of type\n$1 = 0\n"
    )
    assert without_records(warned, 0) == warned
    # "thread apply 1 tfaas p 3"
    nested = '#0  main ()\n~"~\\"$1 = 3\\\\n\\"\\n"\n'
    assert without_records(nested, 2) == "#0  main ()\n$1 = 3\n"
    assert without_records(nested, 0) == nested


def test_the_warning_about_the_language_is_no_part_of_the_answer() -> None:
    warning = "Warning: the current language does not match this frame.\n"
    for text in ("5", "5\n", "5", ""):
        assert Result("done", text=text + warning).answer == text.rstrip("\n")
    assert Result("done", text=warning + "5\n").answer == warning + "5\n"
