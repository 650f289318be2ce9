"""GDB's ``list``, ``clear``, ``display`` and ``info args`` where a Python frame is selected."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from pgdb.backend.python import reader
from tests.support.programs import Mpi
from tests.support.python_jobs import (
    DOUBLED,
    FILE,
    FIRST,
    LINES,
    RANKS,
    SECOND,
    job,
    line_of,
    require_arming,
)
from tests.support.terminal import Finished, ex, run_json

pytestmark = [
    pytest.mark.gdb,
    pytest.mark.any_mpi,
    pytest.mark.skipif(not reader.program(), reason="py-spy is not installed"),
]


def record(done: Finished, command: str, at: int = 0) -> dict[str, Any]:
    """Return the one record of an answer."""
    (found,) = done.answers(command)[at]["classes"]
    record: dict[str, Any] = found["record"]
    return record


def listed(done: Finished, command: str, at: int = 0) -> list[int]:
    """Return the numbers of the listed lines, whose texts are those of the file."""
    lines = [each.partition("\t")[::2] for each in record(done, command, at)["text"].split("\n")]
    assert all(LINES[int(number) - 1] == text for number, text in lines)
    return [int(number) for number, _ in lines]


def test_source_lines_are_those_of_the_selected_python_frame() -> None:
    require_arming(sys.executable)
    with job() as ranks:
        done = ranks.attach(
            f"break {FILE}:{DOUBLED}", "continue", "list", "list", "list -", "list 20",
            "list 5,7", "list ,12", "list Grid.fails", f"list {FILE}:3", "list 9999",
            "info source", "list main", "up", "list", "delete", "detach",
        )  # fmt: skip
    around = list(range(DOUBLED - 5, DOUBLED + 5))
    assert listed(done, "list") == around
    assert listed(done, "list", 1) == [each + 10 for each in around]
    assert listed(done, "list -") == around
    assert listed(done, "list 20") == list(range(15, 25))
    assert listed(done, "list 5,7") == [5, 6, 7]
    assert listed(done, "list ,12") == list(range(3, 13))
    fails = line_of("def fails(self, level):")
    assert listed(done, "list Grid.fails") == list(range(fails - 5, fails + 5))
    assert listed(done, f"list {FILE}:3") == list(range(1, 11))
    assert "out of range" in record(done, "list 9999")["message"]
    assert f"Current source file is {FILE}" in record(done, "info source")["text"]
    main = line_of("def main():")
    assert listed(done, "list main") == list(range(main - 5, main + 5))
    assert listed(done, "list", 2) == list(range(SECOND - 5, SECOND + 5))


def test_the_mark_of_a_breakpoint_stands_at_its_line_of_python() -> None:
    require_arming(sys.executable)
    with job() as ranks:
        done = ranks.attach(f"break {FILE}:{FIRST}", "continue", "list", "delete", "detach")
    marks = done.answer("list")["marks"]
    assert [(each["line"], each["ranks"], each["breakpoints"]) for each in marks] == [
        (FIRST, "0-1", [1])
    ]


def test_clear_deletes_breakpoints_at_a_place_of_python() -> None:
    require_arming(sys.executable)
    places = (f"{FILE}:{FIRST}", str(SECOND), "python_steps.Grid.inner", f"{FILE}:{DOUBLED}")
    with job() as ranks:
        done = ranks.attach(
            f"break {places[0]}", "continue", *(f"break {each}" for each in places[1:]),
            "clear 3", f"clear {FILE}:3", "clear", f"clear {places[1]}", f"clear {places[2]}",
            "info breakpoints", f"clear {places[3]}", "detach",
        )  # fmt: skip
        assert ranks.left() == ["[]"] * RANKS
    assert record(done, "clear 3")["message"].endswith(f"{FILE}:3.")
    assert record(done, f"clear {FILE}:3")["message"] == f"No breakpoint at {FILE}:3."
    deleted = [record(done, f"clear {each}".strip())["text"] for each in ("", *places[1:])]
    assert deleted == [f"Deleted breakpoint {number}" for number in (1, 2, 3, 4)]
    (left,) = record(done, "info breakpoints")["breakpoints"]
    assert left["number"] == 4


def test_a_value_of_python_is_displayed_at_each_stop_in_its_function() -> None:
    require_arming(sys.executable)
    with job() as ranks:
        done = ranks.attach(
            f"break {FILE}:{SECOND}", "continue", "display py:first - py:count",
            "display py:nosuch", "display/x py:RANK", "next", "delete 1",
            f"tbreak {FILE}:{DOUBLED}", "continue", "info display", "undisplay 1",
            "info display", "delete", "detach",
        )  # fmt: skip
    assert record(done, "display py:first - py:count")["text"] == "1: py:first - py:count = 1"
    assert "No Python variable 'nosuch'" in record(done, "display py:nosuch")["message"]
    shown = {each["ranks"]: each["text"] for each in done.answer("display/x py:RANK")["classes"]}
    assert shown == {"0": "2: /x py:RANK = 0x0", "1": "2: /x py:RANK = 0x1"}
    texts = [each["text"] for each in done.of_type("output") if each.get("ranks") == "0"]
    at_stops = [each for each in texts if "py:RANK" in each]
    whole = "1: py:first - py:count = 1\n2: /x py:RANK = 0x0"
    # The line that follows is in the same function, the place of the second breakpoint is not.
    assert at_stops == [whole, "2: /x py:RANK = 0x0"]
    first, second = (record(done, "info display", at)["text"] for at in (0, 1))
    assert "1:   y  py:first - py:count" in first and "2:   y  /x py:RANK" in first
    assert "py:first" not in second


@pytest.mark.mpi
def test_finish_shows_the_value_of_an_object(mpi: Mpi, tmp_path: Path) -> None:
    require_arming(sys.executable)
    script = tmp_path / "gives.py"
    lines = ("import array", "")
    pair = ("def pair(n):", "    return {'n': n, 'm': [7]}")
    many = ("def many(n):", "    return array.array('d', [n] * 2)")
    plain = ("class Plain: pass", "def gives():", "    return Plain()")
    calls = ("pair(3)", "many(1.5)", "gives()")
    script.write_text("\n".join((*lines, *pair, *many, *plain, *calls)))
    done = run_json(
        "launch",
        *ex("break gives.py:4", "break gives.py:6", "break gives.py:9"),
        *ex(*("continue", "finish") * 3, "kill"),
        *mpi.line(RANKS, sys.executable, str(script)),
    )
    said = {
        each["detail"]
        for line in done.of_type("stop")
        for each in line["classes"]
        if "value returned" in each.get("detail", "")
    }
    words = " ".join(sorted(said))
    assert "value returned: {'n': 3, 'm': [7]}" in words
    assert "value returned: array.array of float64, shape (2,) = {1.5, 1.5}" in words
    assert "value returned: <Plain object at " in words


@pytest.mark.mpi
def test_a_display_of_python_begins_again_after_a_restart(mpi: Mpi, tmp_path: Path) -> None:
    require_arming(sys.executable)
    script = tmp_path / "twice.py"
    script.write_text("def work(step):\n    half = step // 2\n    return half\n\n\nwork(8)\n")
    done = run_json(
        "launch",
        *ex("break twice.py:3", "continue", "display py:half", "restart", "continue", "display"),
        *ex("kill"),
        *mpi.line(RANKS, sys.executable, str(script)),
    )
    assert "'display py:half' begins where its variables are known" in done.out
    assert record(done, "display")["text"] == "1: py:half = 4"


@pytest.mark.mpi
def test_a_display_that_is_to_begin_after_a_restart_can_be_deleted(
    mpi: Mpi, tmp_path: Path
) -> None:
    require_arming(sys.executable)
    script = tmp_path / "twice.py"
    script.write_text("def work(step):\n    half = step // 2\n    return half\n\n\nwork(8)\n")
    done = run_json(
        "launch",
        *ex("break twice.py:3", "continue", "display py:half", "display py:step", "restart"),
        *ex("undisplay 1", "undisplay 7", "continue", "info display", "kill"),
        *mpi.line(RANKS, sys.executable, str(script)),
    )
    assert record(done, "undisplay 1").get("text", "") == ""
    assert record(done, "undisplay 7")["text"] == "No display number 7."
    shown = record(done, "info display")["text"]
    assert "py:step" in shown and "py:half" not in shown


def test_python_of_ended_ranks_is_answered_with_their_end(mpi: Mpi, tmp_path: Path) -> None:
    script = tmp_path / "short.py"
    script.write_text("from mpi4py import MPI\nloss = 1.5\nMPI.COMM_WORLD.Barrier()\n")
    line = mpi.line(2, Path(sys.executable), str(script))
    asked = ("print py:loss", "py-locals", "py-bt")
    done = run_json("launch", *ex("continue", *asked, "list 1"), "--", *line)
    texts = {each: record(done, each).get("message", "") for each in asked}
    assert texts == {
        "print py:loss": "The program has ended on this rank.",
        "py-locals": "The program has ended on this rank.",
        "py-bt": "No stack.",
    }


def test_a_frame_of_python_is_selected_by_its_function() -> None:
    with job() as ranks:
        done = ranks.attach("frame function main", "py-up", "frame function no_such", "detach")
    assert record(done, "frame function main")["frames"][0]["function"] == "main"
    assert record(done, "py-up")["frames"][0]["function"] == "<module>"
    assert "not defined" in record(done, "frame function no_such")["message"]


def test_verdicts_about_a_name_of_python_and_of_compiled_code_are_refused() -> None:
    """GDB's value is the function, which is the same on all ranks."""
    require_arming(sys.executable)
    with job() as ranks:
        at = f"--at {FILE}:{DOUBLED} --hits 1"
        done = ranks.attach(
            f"break {FILE}:{DOUBLED}", "continue", "assert signal same", "assert ::signal same",
            "print signal", "delete", f"until-differ signal {at}", f"until-differ py:signal {at}",
            "detach",
        )  # fmt: skip
    why = "'signal' is a name of Python, and of compiled code, too: py:signal is that of the Python"
    unchecked, checked = done.of_type("assert")
    assert [why in each["value"] for each in unchecked["failing"]] == [True], unchecked
    assert checked["ok"], checked
    unasked, differing = done.of_type("differ")
    assert (unasked["end"], unasked["hit"]) == ("failed", 1)
    assert why in unasked["failing"][0]["value"]
    assert (differing["end"], differing["hit"]) == ("differ", 1), done.out
    assert "signal" in record(done, "print signal")["text"]


def test_errors_name_the_python_frame_that_has_a_variable() -> None:
    require_arming(sys.executable)
    with job() as ranks:
        done = ranks.attach(
            f"break {FILE}:{DOUBLED}", "continue", "info args", "print value", "print count",
            "print py:count", "break inner", "delete", "detach",
        )  # fmt: skip
    for found in done.answer("info args")["classes"]:
        assert [each["name"] for each in found["record"]["items"]] == ["self", "value"]
    assert record(done, "print value")["message"].endswith(
        "It is a variable of the Python frame: 'print py:value'."
    )
    for command in ("print count", "print py:count"):
        assert record(done, command)["message"].endswith(
            "The Python frame of update has it: frame 1."
        )
    assert record(done, "break inner")["message"].endswith(
        "A place of Python is FILE.py:LINE or MODULE.FUNCTION."
    )
