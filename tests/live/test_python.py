"""Python frames in stacks of real interpreters, without their debug information or helpers."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pgdb.backend.python import reader
from tests.support.programs import ROOT
from tests.support.pythons import interpreters
from tests.support.terminal import ex, run_json, run_pgdb

pytestmark = [
    pytest.mark.gdb,
    pytest.mark.any_mpi,
    pytest.mark.skipif(not reader.program(), reason="py-spy is not installed"),
]
PROGRAM = ROOT / "tests" / "programs" / "python_ranks.py"
TASKS = ROOT / "tests" / "programs" / "python_tasks.py"
RANKS = 3


@contextmanager
def ranks(python: str = sys.executable, program: Path = PROGRAM) -> Iterator[str]:
    """Run the program as three ranks until they wait; yield their pids for ``--pids``."""
    line = [python, "-u", str(program)]
    processes = []
    try:
        for rank in range(RANKS):
            words = [*line, str(rank)]
            processes.append(subprocess.Popen(words, stdout=subprocess.PIPE))
        for each in processes:
            assert each.stdout is not None
            assert each.stdout.readline() == b"ready\n"
        yield ",".join(str(each.pid) for each in processes)
    finally:
        for each in processes:
            each.kill()
            each.wait()
            assert each.stdout is not None
            each.stdout.close()


def attach(pids: str, *commands: str, **changes: str) -> Any:
    return run_json("attach", "--pids", pids, *ex(*commands), changes=changes)


def named(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the function and the language of each frame, innermost first."""
    return [(each["function"], each.get("language", "")) for each in record["frames"]]


def records(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["ranks"]: each["record"] for each in answer["classes"]}


def is_qualified(python: str) -> bool:
    line = [python, "-c", "import sys; print(sys.version_info >= (3, 11))"]
    return subprocess.run(line, stdout=subprocess.PIPE, check=True).stdout.strip() == b"True"


@pytest.mark.parametrize("python", interpreters())
def test_python_frames_stand_between_the_frames_of_c(python: str) -> None:
    with ranks(python) as pids:
        done = attach(pids, "bt", "py-bt", "py-locals")
    method = "Solver.compare" if is_qualified(python) else "compare"
    outer = [("sort", "python"), ("main", "python"), ("<module>", "python")]
    stacks = records(done.answer("backtrace"))
    assert sorted(stacks) == ["0-1", "2"], done.out
    for key, record in stacks.items():
        frames = named(record)
        assert "note" not in record
        at = frames.index((method, "python"))
        inner, between = frames[:at], frames[at + 1 : -len(outer)]
        assert frames[-len(outer) :] == outer, frames
        # The C library's sort is between the callback and the function that has called it.
        assert any("qsort" in name or "msort" in name for name, _ in between), frames
        assert not any(language for _, language in between), frames
        calls = [name for name, language in inner if language]
        assert calls == (["wait_for_input"] * 4 if key == "2" else []), frames
        assert any("read" in name for name, _ in inner), frames
        assert not any("PyEval" in name or "ffi" in name for name, _ in frames), frames
    only = records(done.answer("py-bt"))
    assert named(only["0-1"]) == [(method, "python"), *outer]
    variables = records(done.answer("py-locals"))
    names = {key: [each["name"] for each in record["items"]] for key, record in variables.items()}
    assert names["0"] == ["self", "first", "second"]


def test_a_stop_is_at_the_line_of_python_and_selects_it() -> None:
    with ranks() as pids:
        done = attach(pids, "py-up", "py-locals", "up 2", "info locals", "py-list", "frame 99")
    line = next(
        number
        for number, text in enumerate(PROGRAM.read_text().splitlines(), 1)
        if text.strip() == "os.read(silent, 1)"
    )
    stop = done.of_type("stop")[0]["classes"]
    places = {each["ranks"]: (each["frame"]["function"], each["frame"]["line"]) for each in stop}
    assert places["0-1"] == ("Solver.compare", line)
    assert all(each["frame"]["language"] == "python" for each in stop)
    (moved, further, wrong) = (
        done.of_type("answer")[0],
        done.of_type("answer")[2],
        done.of_type("answer")[5],
    )
    functions = {each["record"]["frames"][0]["function"] for each in moved["classes"]}
    assert functions == {"sort", "wait_for_input"}
    variables = records(done.answer("py-locals"))
    values = {
        key: {each["name"]: each["value"] for each in record["items"]}
        for key, record in variables.items()
    }
    assert values["0"]["label"] == "'first'"
    assert (values["0"]["count"], values["1"]["count"]) == ("2", "3")
    assert values["0"]["scale"] == "2.5"
    assert further["classes"]
    assert all("No frame at level 99" in each["record"]["message"] for each in wrong["classes"])


def test_threads_have_their_names_in_python() -> None:
    with ranks() as pids:
        done = attach(pids, "bt -threads", "tree --threads")
    (record,) = (
        each["record"]
        for each in done.answer("thread apply all backtrace")["classes"]
        if each["ranks"] == "0-1"
    )
    names = {each["stack"].get("thread") for each in record["stacks"]}
    assert names == {"MainThread", "receiver", "reporter"}
    tree = done.of_type("tree")[0]
    languages = {
        (frame["function"], frame.get("language", ""))
        for node in tree["nodes"]
        for frame in node["frames"]
    }
    assert ("receive", "python") in languages


def test_tasks_of_asyncio_are_merged_over_the_ranks() -> None:
    with ranks(program=TASKS) as pids:
        done = attach(pids, "py-tasks", "py-tasks 1", "tree --tasks", "py-bt")
    stacks = {
        key: {each["stack"]["thread"]: each.get("count", 1) for each in record["stacks"]}
        for key, record in records(done.answer("py-tasks")).items()
    }
    assert sorted(stacks) == ["0-1", "2"], done.out
    waits = "Task (Source.take), awaits a Future"
    assert (stacks["0-1"][waits], stacks["2"][waits]) == (1, 2)
    assert "Task (joins), awaits holder" in stacks["2"]
    (short, *_) = records(done.answer("py-tasks 1")).values()
    assert {len(each["stack"]["frames"]) for each in short["stacks"]} == {1}
    (tree,) = done.of_type("tree")
    names = {frame["function"] for node in tree["nodes"] for frame in node["frames"]}
    assert {"Source.take", "fetch", "holds", "joins"} <= names
    assert not any("PyEval" in name or "select" in name for name in names)
    (note,) = {each["record"]["note"] for each in done.answer("py-bt")["classes"]}
    assert "py-tasks" in note


def test_variables_of_enclosing_functions_come_before_globals() -> None:
    line = [sys.executable, "-u", str(ROOT / "tests" / "programs" / "python_scopes.py")]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdin=pipe, stdout=pipe) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            done = attach(str(process.pid), "py-up 2", "py-locals", "py-print hidden")
        finally:
            process.kill()
    (listed,) = records(done.answer("py-locals")).values()
    values = {each["name"]: each["value"] for each in listed["items"]}
    assert values.pop("innermost").startswith("<function outer.<locals>.inner")
    assert values == {
        "own": "'argument'",
        "hidden": "'outer'",
        "later": "['taken']",
        "taken": "'taken'",
    }
    assert records(done.answer("print py:hidden"))["0"]["text"] == "'outer'"


def test_a_rank_without_tasks_says_so() -> None:
    with ranks() as pids:
        done = attach(pids, "py-tasks")
    (failed,) = records(done.answer("py-tasks")).values()
    assert failed["message"] == "The rank has no asyncio tasks."


def test_threads_of_other_interpreters_are_honest_about_their_frames() -> None:
    python = next((each for each in interpreters() if has_interpreters(each)), None)
    if python is None:
        pytest.skip("no Python of 3.12 or newer is here, which can make further interpreters")
    line = [python, "-u", str(ROOT / "tests" / "programs" / "python_interpreters.py")]
    with subprocess.Popen(line, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            # Each interpreter writes a line, and one may write within that of the other.
            said = process.stdout.read(2 * len("ready\n"))
            assert said.count(b"ready") == 2, said
            done = attach(str(process.pid), "bt -threads")
        finally:
            process.kill()
    (record,) = records(done.answer("thread apply all backtrace")).values()
    stacks = [each["stack"] for each in record["stacks"]]
    assert len(stacks) == 2
    for stack in stacks:
        languages = {frame.get("language", "") for frame in stack["frames"]}
        # py-spy reads the newest interpreter alone.
        assert "unknown" in languages or "py-spy has none" in stack["note"], done.out


def has_interpreters(python: str) -> bool:
    line = [python, "-c", "import sys; print(sys.version_info >= (3, 12))"]
    return subprocess.run(line, stdout=subprocess.PIPE, check=True).stdout.strip() == b"True"


def test_rules_of_the_user_fold_further_frames() -> None:
    with ranks() as pids:
        done = attach(pids, "bt", PGDB_PYTHON_GLUE="qsort|msort")
    for record in records(done.answer("backtrace")).values():
        assert not any("sort" in name for name, language in named(record) if not language)


def test_without_py_spy_c_frames_stay_and_one_line_says_why(tmp_path: Path) -> None:
    with ranks() as pids:
        done = attach(pids, "bt", "py-bt", PGDB_PYSPY=str(tmp_path / "py-spy"))
    for each in done.of_type("stop")[0]["classes"]:
        assert "pip install 'pgdb-mpi[python]'" in each["detail"]
    for record in records(done.answer("backtrace")).values():
        assert "pip install 'pgdb-mpi[python]'" in record["note"]
        assert not any(language for _, language in named(record))
        assert any("PyEval" in name for name, _ in named(record))
    (failed,) = records(done.answer("py-bt")).values()
    assert "pip install 'pgdb-mpi[python]'" in failed["message"]


def test_a_script_that_is_gone_or_changed_is_named(tmp_path: Path) -> None:
    program = tmp_path / "ranks.py"
    program.write_text(PROGRAM.read_text())
    with ranks(program=program) as pids:
        program.unlink()
        done = attach(pids, "py-list", "py-bt")
        (gone,) = {each["record"]["message"] for each in done.of_type("answer")[0]["classes"]}
        assert gone == f"{program}: No such file or directory"
        assert all(record["frames"] for record in records(done.answer("py-bt")).values())


def test_listed_lines_of_python_have_the_ranks_that_stand_there() -> None:
    with ranks() as pids:
        done = attach(pids, "py-list", "proc 2 py-up", "py-list", "py-list 1,3")
        shown = run_pgdb("attach", "--pids", pids, "--batch", *ex("py-list"))
    source = PROGRAM.read_text("utf-8").splitlines()
    whole, moved, head = (each for each in done.of_type("answer") if "source" in each["command"])
    marks = {each["ranks"]: each["line"] for each in whole["marks"]}
    reads = {number for number, text in enumerate(source, 1) if "os.read(" in text}
    assert set("".join(marks)) == set("0-12"), done.out
    assert set(marks.values()) <= reads
    assert len(moved["marks"]) == len(marks) + ("0-2" in marks)
    (first,) = head["classes"]
    assert first["record"]["text"] == "\n".join(
        f"{number}\t{text}" for number, text in enumerate(source[:3], 1)
    )
    for where, line in marks.items():
        assert f"▶ [{where}]" in shown.out and f"{line}\t{source[line - 1]}" in shown.out


def test_values_of_python_in_other_commands(tmp_path: Path) -> None:
    file = tmp_path / "history.npz"
    with ranks() as pids:
        done = attach(
            pids,
            "proc 0-1 py-print self.history",
            "proc 0-1 print py:self.size * 2 + py:LIMIT",
            "assert py:OPTIONS['name'] same",
            "proc 0-1 assert py:self.tolerance < 1",
            # An object is the same only if its attributes are.
            "proc 0-1 assert py:self same",
            "proc 0-1 stat py:self.history",
            f"proc 0-1 dump py:self.history {file}",
            "py-print RANK",
            "print py:OPTIONS + 1",
            "print py:OPTIONS[0, -1]",
            "py-print self.size()",
        )
        compared = run_pgdb(
            "attach", "--batch", "--pids", pids, *ex("proc 0-1 compare py:self.samples 0 with 1")
        )
    assert re.search(r"\[250\] +\[0\] 0 .*\n +\[1\] 1 ", compared.out), compared.out
    values = records(done.answer("print py:self.history"))
    assert {key: each["text"] for key, each in values.items()} == {"0": "[0.5, 0]", "1": "[0.5, 1]"}
    numbers = records(done.answer("print py:self.size * 2 + py:LIMIT"))
    assert {key: each["text"] for key, each in numbers.items()} == {"0-1": "11.5"}
    checks = [(each["ok"], each["passed"]) for each in done.of_type("assert")]
    assert checks == [(True, "0-2"), (True, "0-1"), (False, "")]
    assert file.exists()
    ranks_ = records(done.answer("print py:RANK"))
    assert {key: each["text"] for key, each in ranks_.items()} == {"0": "0", "1": "1", "2": "2"}
    (refused,) = records(done.answer("print py:OPTIONS + 1")).values()
    assert "is no number" in refused["message"]
    (indexed,) = records(done.answer("print py:OPTIONS[0, -1]")).values()
    assert indexed["message"] == "the dict has no key (0, -1)"
    (called,) = records(done.answer("print py:self.size()")).values()
    assert "executes no code" in called["message"]


def test_a_verdict_does_not_judge_objects_of_which_only_the_type_was_read() -> None:
    with ranks() as pids:
        done = attach(
            pids,
            "proc 0-1 assert py:HELD same",
            "proc 0-1 compare py:HELD 0 with 1",
            "proc 0-1 assert py:HELD[1] same",
        )
    checks = [(each["ok"], each["passed"]) for each in done.of_type("assert")]
    assert checks == [(False, "")] * 2, done.out
    assert done.out.count("the same but for <property at …>, of which PGDB cannot read all") == 2
    assert "equal but for <property at …>, of which PGDB cannot read all" in done.out


def test_places_in_tuples_sets_and_dictionaries_are_expressions_of_python() -> None:
    with ranks() as pids:
        lines = run_pgdb(
            "attach",
            "--batch",
            "--pids",
            pids,
            *ex(
                "print py:SIZES",
                "print py:SIZES[1][0]",
                "print py:BY_PAIR",
                "print py:BY_PAIR[1, 'x'][0]",
                "print py:MARKS",
            ),
        ).out.splitlines()
    text = "\n".join(lines)
    assert "py:SIZES = (1, (…, 'text'))" in text
    assert re.search(r"^ +\[1\]\[0\]  \[0\] 0", text, re.M), text
    assert "[1] py:SIZES[1][0] = 1" in text
    assert re.search(r"^ +\[\(1, 'x'\)\]\[0\]  \[0\] 0", text, re.M), text
    assert "[2] py:BY_PAIR[1, 'x'][0] = 2" in text
    # A set has no index.
    assert "[1] py:MARKS = {1, 11}" in text
