"""Control characters that can drive a terminal do not get through."""

from __future__ import annotations

import json
import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.controls import HarmlessFormatter, OutputFilter, harmless, harmless_json

COLOUR = re.compile(r"\x1b\[[\d;:]*m")
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)

# Titles, answers typed at the prompt, clipboards, other screens, cursors, keys, links.
ATTACKS = [
    "\x1b]0;title\x07",
    "\x1b]52;c;cm0gLXJmIC8K\x07",
    "\x1b[6n",
    "\x1b[c",
    "\x1b[21t",
    "\x1bP$q q\x1b\\",
    "\x1b[?1049h",
    "\x1b[2J\x1b[H",
    "\x1b[1;1H",
    "\x1b[A\x1b[2K",
    "\x1bc",
    "\x1b]8;;http://example.org\x1b\\",
    "\x1b[?1000h",
    "\x1b[4h",
    "\x1b(0",
    "\x9b2J",
    "\x90q\x9c",
    "\x08\x08\x08",
    "\x0e",
    "\x7f",
    "\x05",
    "abc\u202etxt.exe",
    "\u2028",
]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("at", [0, 1, 2, 3, 4])
def test_no_sequence_gets_through_however_it_is_cut(attack: str, at: int) -> None:
    assert not FORBIDDEN.search(harmless(attack))
    data = f"<{attack}>".encode()
    made = OutputFilter()
    shown = made.feed(data[:at]) + made.feed(data[at:]) + made.end()
    assert not FORBIDDEN.search(COLOUR.sub("", shown))
    assert shown.startswith("<") and shown.endswith(">"), "nothing of the text is lost"


@pytest.mark.parametrize("attack", ATTACKS)
def test_json_means_the_same_and_drives_no_terminal(attack: str) -> None:
    text = harmless_json(json.dumps([attack], ensure_ascii=False))
    assert not FORBIDDEN.search(text)
    assert json.loads(text) == [attack]


@given(st.lists(st.binary(max_size=12)))
def test_whatever_comes_is_fit_for_a_terminal(pieces: list[bytes]) -> None:
    made = OutputFilter()
    shown = "".join(map(made.feed, pieces)) + made.end()
    assert not FORBIDDEN.search(COLOUR.sub("", shown))
    shown.encode("utf-8")


@given(st.text(st.characters(exclude_categories=("C", "Zl")), max_size=40), st.data())
def test_plain_text_comes_as_it_is(text: str, data: st.DataObject) -> None:
    sent = text.encode("utf-8")
    at = data.draw(st.integers(0, len(sent)))
    made = OutputFilter()
    assert made.feed(sent[:at]) + made.feed(sent[at:]) + made.end() == text
    assert harmless(text) == text


def test_colours_and_progress_stay_and_end_with_their_piece() -> None:
    made = OutputFilter()
    assert made.feed(b"10 %\r20 %\r\n\tx") == "10 %\r20 %\r\n\tx"
    assert made.feed(b"\x1b[1;31mred\x1b[0m") == "\x1b[1;31mred\x1b[0m\x1b[0m"
    assert made.feed(b"\x1b[8mhidden\n") == "\x1b[8mhidden\x1b[0m\n"
    assert made.feed(b"\x1b[3") == ""
    assert made.feed(b"2mgreen") == "\x1b[32mgreen\x1b[0m"


def test_what_only_looks_like_a_colour_is_shown() -> None:
    made = OutputFilter()
    endless = b"\x1b[" + b"1" * 60
    assert made.feed(endless) + made.feed(b"m") == r"\033[" + "1" * 60 + "m"
    assert made.feed(b"a\x1b[") == "a"
    assert made.end() == r"\033["


def test_bytes_that_are_no_text_are_shown_by_their_value() -> None:
    assert harmless("gr\udcfcn") == r"gr\374n"
    made = OutputFilter()
    assert made.feed(b"gr\xfcn ") == r"gr\374n "
    assert made.feed(b"\xe2\x82") == "" and made.feed(b"\xac") == "€"


def test_logs_are_harmless_traces_included(caplog: pytest.LogCaptureFixture) -> None:
    formatter = HarmlessFormatter("pgdb: %(message)s")
    try:
        raise ValueError("\x1b]0;x\x07")
    except ValueError as error:
        record = logging.LogRecord(
            "x", logging.ERROR, "f", 1, "host %s", ("\x1b[2J",), (type(error), error, None)
        )
    text = formatter.format(record)
    assert text.startswith(r"pgdb: host \033[2J") and r"\033]0;x\007" in text
    assert "\x1b" not in text
