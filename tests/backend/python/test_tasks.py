"""Tasks of asyncio are read from the memory of real interpreters."""

from __future__ import annotations

import pytest

from pgdb.backend.python import coroutines, runtime
from pgdb.backend.python.tasks import Task
from pgdb.process_maps import read_mappings
from tests.support.programs import ROOT
from tests.support.python_processes import running
from tests.support.pythons import interpreters

PROGRAM = ROOT / "tests" / "programs" / "python_tasks.py"
LINES = PROGRAM.read_text().splitlines()


def tasks_of(python: str) -> list[Task]:
    """Run the program until one task waits for input, and return its tasks."""
    with running(python, PROGRAM) as process:
        process.wait()
        table = runtime.tasks_address(read_mappings(process.pid), lambda path: path)
        return process.interpreter.tasks(table)


def shown(task: Task) -> list[tuple[str, str]]:
    """Return the functions of the program's own frames, and the text of their lines."""
    return [
        (each.name.rpartition(".")[2], LINES[each.line - 1].strip())
        for each in task.frames
        if each.filename == str(PROGRAM)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("python", interpreters())
def test_tasks_have_their_names_and_frames_and_say_what_they_await(python: str) -> None:
    found = sorted((each.words, shown(each)) for each in tasks_of(python))
    inner, outer = ("fetch", "await event.wait()"), ("fetch", "await fetch(event, depth - 1)")
    assert found == [
        ("Task (Source.take), awaits a Future", [
            ("rows", "await event.wait()"),
            ("take", "async for row in self.rows(event):"),
        ]),
        ("Task (fetch), awaits a Future", [inner, outer]),
        ("Task (fetch), awaits a Future", [inner, outer, outer]),
        ("Task (gathers), awaits gather of Task (fetch)", [
            ("gathers", "await asyncio.gather(fetch(event, 2), fetch(event, 1))"),
        ]),
        ("Task (holds), awaits a Future", [("holds", "async with lock:")]),
        ("Task (joins), awaits holder", [("joins", "await task")]),
        ("Task (main), awaits Task (reports)", [
            ("main", "await asyncio.ensure_future(reports())"),
        ]),
        ("Task (reports), runs", [("reports", 'os.write(1, b"ready\\n") and os.read(SILENT, 1)')]),
        ("holder, awaits a Future", [("holds", "await asyncio.sleep(3600)")]),
    ]  # fmt: skip


def test_an_instruction_has_the_line_that_the_interpreter_says() -> None:
    text = "def f(a):\n    b = [\n        a,\n        1,\n    ]\n\n    return b[\n        0]\n"
    code = compile(text, "<text>", "exec").co_consts[0]
    for start, end, line in code.co_lines():
        for offset in range(start, end, 2):
            found = coroutines.line_in_locations(code.co_linetable, 1, offset // 2)
            assert found == (line or 0), offset
