"""The options of a session: what is refused, and what follows from them."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.api.options import SESSION_SETTINGS, WIRE_UPS, SessionOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aggregators": 0}, "--aggregators 0: at least 1 is needed"),
        ({"aggregators": -3}, "--aggregators -3: "),
        ({"fan_out": 0}, "--fan-out 0: at least 1 is needed"),
        ({"timeout_s": 0.0}, "timeout_s 0 is no time; 0.001 s to 1e9 s is one"),
        ({"timeout_s": float("nan")}, "timeout_s nan is no time"),
        ({"timeout_s": float("inf")}, "timeout_s inf is no time"),
        ({"timeout_s": 1.1e9}, "timeout_s 1.1e"),
        ({"aggregators": 257}, "--aggregators 257: at most 256 on each host"),
        ({"start_timeout_s": -1.0}, "start_timeout_s -1 is no time"),
        ({"grace_s": 0.0}, "grace_s 0 is no time"),
        ({"wire_up": "pmix"}, "wire-up 'pmix' is none of auto, mpi, direct"),
        ({"listen": "eth0", "connect": True}, "--listen and --connect exclude each other"),
        ({"listen": "eth0", "host": "far"}, "--listen and --host exclude each other"),
        ({"ssh": ()}, "--ssh names no command"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{message}"):
        SessionOptions(**options)


@pytest.mark.parametrize("key", [each.key for each in SESSION_SETTINGS])
def test_values_of_another_kind_are_refused_by_the_name_of_the_option(key: str) -> None:
    with pytest.raises(UsageError, match=rf"^{key}|^{key.replace('_', '-')}") as error:
        SessionOptions().changed(**{key: object()})
    assert re.search("not (a|True)|neither a|none of", str(error.value))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("stop_before_death", "maybe", "stop_before_death is 'maybe', and not True or False"),
        ("stop_on_error", 7, "stop_on_error is 7, and not True or False"),
        ("timeout_s", "x", "timeout_s is 'x', and not a number"),
        ("ranks", "0-3", "ranks is '0-3', and neither a RankSet nor None"),
        (
            "gdb_commands",
            "set x",
            "gdb_commands is 'set x', and not a sequence of texts, such as ['a', 'b']",
        ),
        ("stop_mode", 3, "stop-mode 3 is none of rank, focus, all"),
    ],
)
def test_the_allowed_values_are_named(key: str, value: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        SessionOptions(**{key: value})
    assert str(error.value) == message


def test_a_path_and_a_list_stand_for_a_text_and_a_tuple(tmp_path: Path) -> None:
    given: dict[str, Any] = {"log": tmp_path, "ssh": ["ssh", "-q"], "timeout_s": 30}
    options = SessionOptions(**given)
    assert (options.log, options.ssh) == (str(tmp_path), ("ssh", "-q"))
    assert options == SessionOptions(log=str(tmp_path), ssh=("ssh", "-q"), timeout_s=30.0)


@pytest.mark.parametrize("wire_up", WIRE_UPS)
def test_every_way_to_wire_up_may_be_chosen(wire_up: str) -> None:
    assert SessionOptions(wire_up=wire_up).wire_up == wire_up


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ({}, False),
        ({"listen": "eth0"}, False),
        ({"connect": True}, True),
        ({"host": "far"}, True),
        ({"host": "far", "connect": True}, True),
    ],
)
def test_the_front_end_calls_where_it_cannot_be_reached(
    options: dict[str, Any], calls: bool
) -> None:
    assert SessionOptions(**options).calls is calls


def test_a_change_leaves_all_else_as_it_was() -> None:
    before = SessionOptions(host="far", ssh=("ssh", "-q"), fan_out=3, ship=True)
    assert before.changed() == before
    after = before.changed(timeout_s=7.0, stop_on_error=False)
    assert (after.timeout_s, after.stop_on_error) == (7.0, False)
    same = {each.name for each in fields(before)} - {"timeout_s", "stop_on_error"}
    assert all(getattr(after, name) == getattr(before, name) for name in same)
    with pytest.raises(UsageError):
        before.changed(timeout_s=0.0)


def test_a_cache_matters_where_it_is_used() -> None:
    # PGDB_SBD_CACHE is set for all sessions.
    assert not SessionOptions(sbd_cache="here").sbd
    with pytest.raises(UsageError, match=r"here \(or PGDB_SBD_CACHE\): a path that begins with /"):
        SessionOptions(sbd=True, sbd_cache="here")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sbd_wait_s": 1.0}, r"--sbd-wait \(sbd_wait_s\) needs --sbd"),
        ({"sbd_cache_bytes": 1}, r"--sbd-cache-size \(sbd_cache_bytes\) needs --sbd"),
        (
            {"sbd": True, "gdb_commands": (" set sysroot /x",)},
            "'set sysroot /x' exclude each other",
        ),
        (
            {"gdb_commands": ("set detach-on-fork off",)},
            "--gdb-command 'set detach-on-fork off': .*a rank is one process",
        ),
    ],
)
def test_what_would_be_without_effect_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SessionOptions(**given)
    assert SessionOptions(gdb_commands=("set sysroot /x",)).gdb_commands


@pytest.mark.parametrize("path", ["/a:b", '/a"b', "/a\\b", "/a\nb"])
def test_a_cache_that_gdb_would_not_find_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="no colon, quote, backslash or control"):
        SessionOptions(sbd=True, sbd_cache=path)
