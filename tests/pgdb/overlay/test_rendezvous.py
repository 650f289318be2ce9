"""The rendezvous for all aggregators: one line, read strictly."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.overlay.credentials import make_credentials
from pgdb.overlay.rendezvous import Rendezvous

WHOLE = {
    "credentials": "secret",
    "front_end": "10.0.0.1:4711",
    "fan_out": 32,
    "count": 4,
    "grace_s": 30.0,
    "hosts": ["node1", "node2"],
}


def test_credentials_and_all_go_over_one_line() -> None:
    credentials = make_credentials().decode("ascii")
    rendezvous = Rendezvous(
        credentials=credentials,
        front_end="",
        fan_out=2,
        count=3,
        grace_s=1.5,
        hosts=("node1", "nöde2"),
    )
    line = rendezvous.dump()
    assert "\n" in credentials and "\n" not in line
    for text in (line, line + "\n", line.encode("ascii")):
        assert Rendezvous.parse(text) == rendezvous


@given(
    st.builds(
        Rendezvous,
        credentials=st.text(st.characters(codec="ascii")),
        front_end=st.text(st.characters(codec="ascii")),
        fan_out=st.integers(1, 1 << 20),
        count=st.integers(1, 1 << 20),
        grace_s=st.floats(0, 1e9),
        hosts=st.lists(st.text(st.characters(codec="ascii"))).map(tuple),
    )
)
def test_what_is_dumped_is_read_again(rendezvous: Rendezvous) -> None:
    line = rendezvous.dump()
    assert line.isascii() and len(line.splitlines()) == 1
    assert Rendezvous.parse(line) == rendezvous


def test_the_hosts_may_be_left_out() -> None:
    bare = {name: value for name, value in WHOLE.items() if name != "hosts"}
    assert Rendezvous.parse(json.dumps(bare)).hosts == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        "Welcome to node1",
        json.dumps(WHOLE)[:-5],
        json.dumps(WHOLE | {"more": 1}),
        json.dumps(WHOLE | {"fan_out": "32"}),
        json.dumps(WHOLE | {"hosts": "node1"}),
        json.dumps({name: value for name, value in WHOLE.items() if name != "credentials"}),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        Rendezvous.parse(text)
