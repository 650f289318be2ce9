"""Python frames of core files: what pystack answers, and what is said where it cannot."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pgdb.backend.python.core_reader import CoreReader
from pgdb.backend.python.reader import GET, Reading

ENGINE = """
class NativeReportingMode:
    OFF = 0


class Part:
    def __init__(self, **fields):
        self.__dict__.update(fields)


def frame(name, line, is_entry, arguments, is_shim=False):
    code = Part(scope=name, filename="/a/run.py", location=Part(lineno=line))
    fields = {"code": code, "arguments": arguments, "locals": {"x": "1"}}
    return Part(is_entry=is_entry, is_shim=is_shim, **fields)


def get_process_threads_for_core(core, program, native_mode, locals):
    shim = frame("<interpreter trampoline>", 1, False, {}, is_shim=True)
    frames = [shim, frame("<module>", 9, True, {}), frame("solve", 3, False, {"n": "4"})]
    return [Part(all_frames=frames, tid=17, name=str(core), holds_the_gil=1)]
"""


def read(folder: Path, monkeypatch: pytest.MonkeyPatch, engine: str | None) -> Reading:
    """Return what is read with an engine of pystack's that is made up."""
    (folder / "pystack").mkdir()
    (folder / "pystack" / "__init__.py").touch()
    if engine is not None:
        (folder / "pystack" / "engine.py").write_text(engine)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    reader = CoreReader("/cores/core.1")
    reader.program = "/usr/bin/python3"
    return asyncio.run(reader.read(4711))


def test_frames_are_listed_innermost_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(tmp_path, monkeypatch, ENGINE)
    assert not found.why
    thread = found.thread(17, 0)
    assert thread is not None
    assert thread.words == "/cores/core.1, holds the GIL"
    assert [(each.name, each.line, each.is_entry) for each in thread.frames] == [
        ("solve", 3, False),
        ("<module>", 9, True),
    ]
    variables = thread.frames[0].locals
    assert variables is not None
    assert [(each.name, each.repr, each.arg) for each in variables] == [
        ("n", "4", True),
        ("x", "1", False),
    ]


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (None, GET),
        ("raise RuntimeError('no such core')", "pystack: RuntimeError: no such core"),
        ("import os; os.kill(os.getpid(), 11)", "pystack died of signal 11"),
    ],
)
def test_the_reason_is_said_where_there_are_no_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str | None, words: str
) -> None:
    found = read(tmp_path, monkeypatch, engine)
    assert words in found.why and not found.threads


def test_without_the_interpreters_file_there_are_no_frames() -> None:
    assert "--exe" in asyncio.run(CoreReader("/cores/core.1").read(1)).why
