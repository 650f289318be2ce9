"""Breakpoints and steps at lines of Python, on interpreters of this machine.

GDB calls a function in ranks with Python before 3.14. Where it cannot, a breakpoint is refused and
the rank stays as it is; that is what the tests check there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pgdb.backend.python import reader
from pgdb.ranks import RankSet
from tests.support.programs import Mpi
from tests.support.python_jobs import (
    DOUBLED,
    FILE,
    FIRST,
    RANKS,
    SECOND,
    can_arm,
    job,
    require_arming,
    version,
)
from tests.support.pythons import interpreters
from tests.support.terminal import Finished, ex, run_json

pytestmark = [
    pytest.mark.gdb,
    pytest.mark.any_mpi,
    pytest.mark.skipif(not reader.program(), reason="py-spy is not installed"),
]


def stops(done: Finished) -> list[dict[str, Any]]:
    """Return the stops of rank 0 without the first one; those of all ranks are at equal places.

    Ranks come to a place at moments of their own, so that a line may have the stops of one only.
    """
    found: dict[int, list[dict[str, Any]]] = {rank: [] for rank in range(RANKS)}
    for line in done.of_type("stop"):
        for each in line["classes"]:
            for rank in RankSet.parse(each["ranks"]):
                found[rank].append(each)
    at = [[(e["frame"]["function"], e["frame"]["line"]) for e in found[r][1:]] for r in found]
    assert all(each == at[0] for each in at), done.out
    return found[0][1:]


def places(done: Finished) -> list[tuple[str, int]]:
    return [(each["frame"]["function"], each["frame"]["line"]) for each in stops(done)]


def named(name: str, python: str = sys.executable) -> str:
    """Return the name of a method as the interpreter has it."""
    return name if version(python) >= (3, 11) else name.rpartition(".")[2]


@pytest.mark.parametrize("python", interpreters())
def test_ranks_stop_at_a_line_and_have_nothing_left_at_the_end(python: str) -> None:
    commands: tuple[str, ...] = (f"break {FILE}:{FIRST} if count % 7 == 3",)
    if can_arm(python):
        commands += ("continue", "info breakpoints", "bt", "p py:count % 7", "continue", "delete 1")
    commands += ("detach",)
    with job(python) as ranks:
        done = ranks.attach(*commands)
        assert ranks.left() == ["[]"] * RANKS
        assert all(each.poll() is None for each in ranks.processes)
    if not can_arm(python):
        assert "GDB must call a function in it, since its Python is older than 3.14" in done.out
        return
    assert places(done) == [("update", FIRST)] * 2
    assert {each["breakpoint"] for each in stops(done)} == {1}
    (listed,) = done.answer("info breakpoints")["classes"]
    (made,) = listed["record"]["breakpoints"]
    assert (made["function"], made["file"], made["line"]) == ("update", FILE, FIRST)
    assert made["condition"] == "count % 7 == 3" and made["times"] == 1
    (stack,) = done.answer("backtrace")["classes"]
    frames = [each["function"] for each in stack["record"]["frames"]]
    assert frames == ["update", "main", "<module>"]
    (value,) = done.answer("print py:count % 7")["classes"]
    assert value["record"]["text"] == "3"


@pytest.mark.mpi
def test_a_launched_interpreter_takes_breakpoints_before_its_first_line(
    mpi: Mpi, tmp_path: Path
) -> None:
    python = sys.executable
    require_arming(python)
    script = tmp_path / "begins.py"
    script.write_text("import sys\nstep = 3\nsys.exit(step)\n")
    line = mpi.line(RANKS, python, str(script))
    done = run_json("launch", *ex("break begins.py:3 if step == 3", "c", "p py:step", "c"), *line)
    first = done.of_type("stop")[0]["classes"][0]
    assert (first["ranks"], first["frame"]["function"]) == ("0-1", "Py_RunMain")
    assert set(places(done)) == {("<module>", 3)}
    (value,) = done.answer("print py:step")["classes"]
    assert value["record"]["text"] == "3"


@pytest.mark.mpi
def test_exceptions_of_threads_and_atexit_handlers_say_where_they_are(
    mpi: Mpi, tmp_path: Path
) -> None:
    python = sys.executable
    require_arming(python)
    script = tmp_path / "leaves.py"
    script.write_text(
        "import atexit, threading\n"
        "def save(step=3):\n"
        "    raise ValueError('no space')\n"
        "atexit.register(save)\n"
        "worker = threading.Thread(target=save, args=(4,))\n"
        "worker.start()\n"
        "worker.join()\n"
    )
    line = mpi.line(RANKS, python, str(script))
    commands = ("tbreak leaves.py:5", "c", "catch py-exception", "c", "p py:step", "bt -threads")
    commands += ("c", "p py:step", "bt -threads")
    done = run_json("launch", *ex(*commands, "c"), *line, has_tracebacks=True)
    assert [each["event"] for each in stops(done) if each.get("event")] == [
        "uncaught ValueError in a thread",
        "uncaught ValueError in an atexit handler",
    ]
    answers = [each for each in done.of_type("answer") if each["command"] == "print py:step"]
    assert [each["classes"][0]["record"]["text"] for each in answers] == ["4", "3"]
    stacks = [each for each in done.of_type("answer") if each["command"].endswith("all backtrace")]
    assert len(stacks) == 2
    assert all('"save"' in json.dumps(each) for each in stacks)
    assert not any("<pgdb>" in json.dumps(each) for each in stacks)


def of_rank(done: Finished, rank: int) -> list[dict[str, Any]]:
    """Return the stops of one rank without the first one."""
    return [
        each
        for line in done.of_type("stop")
        for each in line["classes"]
        if rank in RankSet.parse(each["ranks"])
    ][1:]


@pytest.mark.parametrize("python", interpreters())
def test_steps_go_by_lines_of_python(python: str) -> None:
    require_arming(python)
    inner = named("Grid.inner", python)
    with job(python) as ranks:
        done = ranks.attach(
            f"break {FILE}:{SECOND}",
            "continue",
            "delete 1",
            "step",
            "next",
            "finish",
            "next",
            f"advance {FILE}:{FIRST}",
            "detach",
        )
        assert ranks.left() == ["[]"] * RANKS
    assert places(done) == [
        ("update", SECOND),
        (inner, DOUBLED),
        (inner, DOUBLED + 1),
        (inner, DOUBLED + 1),
        ("update", SECOND + 1),
        ("update", SECOND + 1),
    ]


@pytest.mark.parametrize("python", interpreters())
def test_an_uncaught_exception_stops_its_ranks_as_one_class(python: str) -> None:
    require_arming(python)
    fails = named("Grid.fails", python)
    with job(python) as ranks:
        ranks.say("fail")
        ranks.left()
        done = ranks.attach("catch py-exception", "continue", "py-bt", "p py:level", "detach")
        for each in ranks.processes:
            assert each.wait() == 1
    for rank in range(RANKS):
        (stop,) = of_rank(done, rank)
        assert stop["event"] == "uncaught ValueError"
        assert (stop["frame"]["function"], stop["hit"]) == (fails, "Catchpoint")
    (stack,) = done.answer("py-bt")["classes"]
    assert [each["function"] for each in stack["record"]["frames"]] == [fails, "main", "<module>"]
    (value,) = done.answer("print py:level")["classes"]
    assert (value["ranks"], value["record"]["text"]) == (f"0-{RANKS - 1}", "3")


def test_a_bare_line_is_one_of_the_selected_python_frame() -> None:
    require_arming(sys.executable)
    commands = (
        f"tbreak {FILE}:{FIRST}",
        "continue",
        f"tbreak {SECOND}",
        f"break +{SECOND - FIRST} if count < 0",
        "info breakpoints",
        "continue",
        f"advance {FIRST}",
        "delete",
    )
    with job(sys.executable) as ranks:
        done = ranks.attach(*commands)
    (listed,) = done.answer("info breakpoints")["classes"]
    made = listed["record"]["breakpoints"]
    assert all(str(SECOND) in str(each) and FILE in str(each) for each in made), made
    assert len(made) == 2
    assert places(done)[:2] == [("update", FIRST), ("update", SECOND)]
