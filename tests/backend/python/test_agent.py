"""The agent in a Python rank, on all interpreters of this machine, with a caller in GDB's place."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pgdb.backend.python import agent_points, injection
from tests.support.programs import ROOT
from tests.support.python_jobs import version
from tests.support.pythons import interpreters

# Each test starts processes of its own.
pytestmark = pytest.mark.slow

DRIVER = ROOT / "tests" / "programs" / "python_agent_driver.py"
LINES = DRIVER.read_text().splitlines()
FILE = DRIVER.name
EVERY_PYTHON = pytest.mark.parametrize("python", interpreters())


WALK = ROOT / "tests" / "programs" / "python_walk.py"
RESULT_OF_WALK = [4, 4, 3, None, 10, 12, ["1", [1]], True, [0, 1]]


def line_of(text: str, lines: Sequence[str] = LINES) -> int:
    return next(number for number, line in enumerate(lines, 1) if line.strip().startswith(text))


FIRST, SECOND = line_of("first = value + 1"), line_of("second = first * 2")
RETURN = line_of("return second")
ADD, SQUARES = line_of("total += leaf(each)"), line_of("total += Thing().twice(total)") - 1
FOR = line_of("for each in range(count):")


def order(
    generation: int, points: dict[str, dict[str, Any]], step: Any = None, **more: Any
) -> dict[str, Any]:
    return {"generation": generation, "points": points, "step": step, "catch": False, **more}


def step(number: int, kind: str, *, count: int = 1, depth: int = 0) -> dict[str, Any]:
    return {"number": number, "kind": kind, "count": count, "depth": depth}


def at(line: int, **more: Any) -> dict[str, Any]:
    return {"file": FILE, "line": line, **more}


def run(
    python: str, folder: Path, *orders: dict[str, Any], words: Sequence[str] = ()
) -> dict[str, Any]:
    """Run the driver with orders; return what it has printed."""
    source, shared = folder / "source.py", folder / "shared"
    source.write_text(injection.source())
    shared.mkdir()
    done = subprocess.run(
        [python, str(DRIVER), str(source), str(shared), *words],
        input=json.dumps(orders),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["result"] == (RESULT_OF_WALK if words else 39)
    assert found["left"] == []
    return found


def places(found: dict[str, Any]) -> list[tuple[Sequence[int], str, int]]:
    return [(tuple(each["slots"]), each["function"], each["line"]) for each in found["hits"]]


@EVERY_PYTHON
def test_a_line_is_hit_each_time_and_by_threads_that_begin_later(
    python: str, tmp_path: Path
) -> None:
    found = run(python, tmp_path, order(1, {"2": at(SECOND)}))
    assert places(found) == [((2,), "leaf", SECOND)] * 5
    report = ast.literal_eval(found["report"])
    assert report["generation"] == 1
    assert report["places"] == {2: (str(DRIVER), SECOND, "leaf")}


@EVERY_PYTHON
def test_a_rank_is_traced_no_longer_than_it_has_breakpoints(python: str, tmp_path: Path) -> None:
    """Tracing costs each call, before Python 3.12, which has no other way."""
    is_old = version(python) < (3, 12)
    folders = [tmp_path / each for each in ("kept", "deleted", "again")]
    for each in folders:
        each.mkdir()
    there = order(1, {"2": at(SECOND)})
    kept = run(python, folders[0], there, there)
    assert (len(kept["hits"]), kept["is_traced"]) == (5, is_old)
    deleted = run(python, folders[1], there, order(2, {}))
    assert (len(deleted["hits"]), deleted["is_traced"]) == (1, False)
    # A step begins where the breakpoint is deleted, and ends at the next line.
    stepped = run(python, folders[2], there, order(2, {}, step(1, "next")), order(3, {}))
    assert places(stepped) == [((2,), "leaf", SECOND), ((0,), "leaf", RETURN)]
    assert not stepped["is_traced"]


@EVERY_PYTHON
def test_conditions_decide_and_those_that_fail_stop_with_their_error(
    python: str, tmp_path: Path
) -> None:
    points = {
        "2": at(SECOND, condition="first == 2"),
        "40": at(SECOND, condition="frist == 2 or any(each for each in (first, value))"),
        "41": at(SECOND, condition="any(each == first for each in [6])"),
    }
    found = run(python, tmp_path, order(1, points))
    slots = [each["slots"] for each in found["hits"]]
    # One call for each page of slots.
    assert slots == [[40], [2], [40], [40], [40, 41], [40]]
    events = [ast.literal_eval(each["report"])["event"] for each in found["hits"]]
    assert all(each["kind"] == "condition" and each["slot"] == 40 for each in events)
    assert "NameError" in events[0]["text"] and "frist" in events[0]["text"]


@EVERY_PYTHON
def test_a_function_is_hit_at_its_begin_once_per_call(python: str, tmp_path: Path) -> None:
    points = {
        "2": {"function": "__main__.leaf"},
        "3": {"function": f"{DRIVER.stem}.Thing.twice"},
        "4": {"function": "__main__.numbers"},
        "5": {"function": "json.never"},
    }
    found = run(python, tmp_path, order(1, points))
    hits = [(slots, function) for slots, function, _ in places(found)]
    leafs = [((2,), "leaf")]
    assert hits == leafs * 3 + [((3,), "twice")] + leafs + [((4,), "numbers")] + leafs
    assert set(ast.literal_eval(found["report"])["places"]) == {2, 3, 4}


@EVERY_PYTHON
def test_a_decorated_function_is_hit_in_place_of_what_wraps_it(python: str, tmp_path: Path) -> None:
    """The wrapper of ``wrapped`` does not say what it wraps."""
    wrapped, height = line_of("def wrapped(value):"), line_of("def height(self):")
    points = {
        "2": {"function": "__main__.wrapped"},
        "3": at(wrapped),
        "4": {"function": f"{DRIVER.stem}.Later.height"},
        "5": {"function": "__main__.Later.twice"},
    }
    found = run(python, tmp_path, order(1, points))
    hits = [(slots, function) for slots, function, _ in places(found)]
    assert hits[0] == ((5,), "twice")
    assert hits[1:] == [((4,), "height"), ((2, 3), "wrapped")]
    known = ast.literal_eval(found["report"])["places"]
    assert [known[each][1] for each in (2, 3, 4)] == [wrapped, wrapped, height]


@EVERY_PYTHON
def test_a_place_that_is_nowhere_is_reported_with_what_is_missing(
    python: str, tmp_path: Path
) -> None:
    points = {
        "2": {"function": "__main__.nothing"},
        "3": {"function": f"{DRIVER.stem}.Thing.thrice"},
        "4": {"function": "nowhere.run"},
        "5": {"function": "__main__.Thing"},
        "6": {"function": "__main__.fails"},
        "7": {"file": "nowhere.py", "line": 3},
        "8": {"function": "__main__.outer"},
        "9": {"function": "os.getpid"},
    }
    found = run(python, tmp_path, order(1, points))
    report = ast.literal_eval(found["report"])
    assert set(report["places"]) == {6, 8}
    assert report["absences"] == {
        2: "'__main__' had no 'nothing'",
        3: f"'{DRIVER.stem}.Thing' had no 'thrice'",
        4: "no module 'nowhere' was loaded",
        5: "'__main__.Thing' was a class; name a function of it, such as __main__.Thing.__init__",
        7: "no module of a file nowhere.py was loaded",
        9: "'os.getpid' was no function of Python",
    }


@EVERY_PYTHON
def test_the_line_of_def_is_the_function_and_a_line_without_code_the_next_one(
    python: str, tmp_path: Path
) -> None:
    points = {"2": at(line_of("def leaf(value):")), "3": at(SQUARES - 3), "4": at(9999)}
    found = run(python, tmp_path, order(1, points))
    assert [each[0] for each in places(found)].count((2,)) == 5
    report = ast.literal_eval(found["report"])
    assert "has no code at line 9999" in report["problems"][4]
    assert 4 not in report["places"]


@EVERY_PYTHON
def test_a_comprehension_belongs_to_the_line_around_it(python: str, tmp_path: Path) -> None:
    found = run(python, tmp_path, order(1, {"2": at(SQUARES)}))
    assert places(found) == [((2,), "outer", SQUARES)]


@EVERY_PYTHON
def test_steps_go_over_calls_into_calls_and_out_of_them(python: str, tmp_path: Path) -> None:
    points = {"2": at(ADD, condition="each == 1")}
    found = run(
        python,
        tmp_path,
        order(1, points),
        order(1, points, step(1, "step")),
        order(1, points, step(2, "next")),
        order(1, points, step(3, "finish")),
        order(1, points, step(4, "next")),
        order(1, points, step(5, "next", count=2)),
        order(1, points, step(6, "until")),
        order(2, {}),
    )
    assert places(found) == [
        ((2,), "outer", ADD),
        ((0,), "leaf", FIRST),
        ((0,), "leaf", SECOND),
        ((0,), "leaf", RETURN),
        ((0,), "outer", FOR),
        ((0,), "outer", FOR),
        ((0,), "outer", SQUARES),
    ]
    event = ast.literal_eval(found["hits"][3]["report"])["event"]
    assert (event["kind"], event["text"]) == ("finish", "4")


@EVERY_PYTHON
def test_finish_of_an_outer_frame_returns_from_there(python: str, tmp_path: Path) -> None:
    points = {"2": at(SECOND)}
    found = run(
        python, tmp_path, order(1, points), order(2, {}, step(1, "finish", depth=1)), order(3, {})
    )
    hits = places(found)
    assert [each[1] for each in hits] == ["leaf", "outer"]
    assert ast.literal_eval(found["hits"][1]["report"])["event"]["text"] == "39"


@EVERY_PYTHON
def test_a_later_breakpoint_is_armed_in_a_function_that_has_run_before(
    python: str, tmp_path: Path
) -> None:
    before = {"2": at(ADD, condition="each == 1")}
    found = run(python, tmp_path, order(1, before), order(2, {"3": at(FIRST)}))
    assert places(found) == [((2,), "outer", ADD), *[((3,), "leaf", FIRST)] * 4]


@EVERY_PYTHON
def test_deleted_breakpoints_cost_nothing_more(python: str, tmp_path: Path) -> None:
    found = run(python, tmp_path, order(1, {"2": at(FIRST)}), order(2, {}))
    assert len(found["hits"]) == 1


@EVERY_PYTHON
def test_the_agent_goes_when_it_is_asked_to(python: str, tmp_path: Path) -> None:
    ends = order(2, {}, ends=True)
    found = run(python, tmp_path, order(1, {"2": at(FIRST)}), ends)
    assert len(found["hits"]) == 1
    assert found["report"] is None
    assert not (tmp_path / "shared").exists()


@EVERY_PYTHON
def test_uncaught_exceptions_stop_with_their_traceback(python: str, tmp_path: Path) -> None:
    found = run(python, tmp_path, order(1, {}, catch=True))
    assert all(each["slots"] == [1] for each in found["hits"])
    events = [ast.literal_eval(each["report"])["event"] for each in found["hits"]]
    assert {each["text"] for each in events} == {"ValueError: no value"}
    # Python 3.8 and 3.9 call no hook for an atexit handler.
    at_exit = ["in an atexit handler"] if version(python) >= (3, 10) else []
    assert [each["where"] for each in events] == ["", "in a thread", *at_exit]
    functions = [[frame["name"] for frame in each["frames"]] for each in events]
    assert functions[0] == ["fails", "<module>"]
    assert [each[0] for each in functions] == ["fails"] * len(events)
    assert found["left"] == []


@EVERY_PYTHON
def test_steps_stay_with_the_function_that_yields_awaits_or_raises(
    python: str, tmp_path: Path
) -> None:
    """The walk goes on in the function, whatever else the thread executes meanwhile."""
    lines = WALK.read_text().splitlines()
    walks = (
        ("before = len", "next step next", "result = function|more = value|return more"),
        ("squares =", "next next", "for each in range(count): sq|return len(sq"),
        ("left = count", "finish next", 'return "no number|return total'),
        (
            "for _ in numbers",
            "step next next next finish",
            "left = count|while left|yield left|pass|for _ in numbers",
        ),
        (
            "first = await",
            "next step next next",
            "second = await|await asyncio.sleep(0.001)|return value * 2|return second",
        ),
        ("first = await", "until finish", "second = await|return second"),
        (
            "fails(value)",
            "step next finish next next next next",
            "if value|raise Value|raise Value|except Value|text =|done =|return text",
        ),
        ("with context", "next", "seen = opened"),
        ("async for", "next next", "found.append|async for"),
        ("yield each", "next next", "found.append|async for"),
    )
    orders, wanted, number = [], [], 0
    for slot, (begin, kinds, ends) in enumerate(walks, 2):
        at_begin = {"file": WALK.name, "line": line_of(begin, lines)}
        orders.append(order(2 * slot, {str(slot): at_begin}))
        wanted += [line_of(each, lines) for each in (begin, *ends.split("|"))]
        for kind in kinds.split():
            number += 1
            orders.append(order(2 * slot + 1, {}, step(number, kind)))
    found = run(python, tmp_path, *orders, order(99, {}), words=["walk"])
    assert [each["line"] for each in found["hits"]] == wanted
    events = [ast.literal_eval(each["report"])["event"] for each in found["hits"]]
    values = [each["text"] for each in events if each.get("kind") == "finish"]
    assert values == ["'no number is left'", "None", "12", "! ValueError: 1"]


def test_a_module_is_missing_before_the_program_has_a_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    wanted = agent_points.Point(2, {"function": "nowhere.run"})
    assert wanted.absence() == "no module 'nowhere' was loaded"
