"""Tasks of asyncio are read from the memory of real interpreters."""

from __future__ import annotations

import subprocess

import pytest

from pgdb.backend.gdb.process_memory import read_some
from pgdb.backend.python import coroutines, runtime, values
from pgdb.backend.python.tasks import Task
from pgdb.process_maps import read_mappings
from tests.support.programs import ROOT
from tests.support.pythons import interpreters

PROGRAM = ROOT / "tests" / "programs" / "python_tasks.py"
LINES = PROGRAM.read_text().splitlines()


def tasks_of(python: str) -> list[Task]:
    """Run the program until one task waits for input, and return its tasks."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([python, str(PROGRAM)], stdin=pipe, stdout=pipe)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        pid = process.pid

        def memory(address: int, size_bytes: int) -> bytes:
            return read_some(pid, address, size_bytes)

        mappings = read_mappings(pid)
        at = runtime.runtime_address(mappings, lambda path: path)
        minor = values.minor_of(memory, at, [each.path for each in mappings])
        table = runtime.tasks_address(mappings, lambda path: path)
        return values.Interpreter(memory, at, minor).tasks(table)
    finally:
        process.kill()
        process.communicate()


def shown(task: Task) -> list[tuple[str, str]]:
    """Return the functions of the program's own frames, and the text of their lines."""
    return [
        (each.name.rpartition(".")[2], LINES[each.line - 1].strip())
        for each in task.frames
        if each.filename == str(PROGRAM)
    ]


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
