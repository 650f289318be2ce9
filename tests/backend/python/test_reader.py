"""py-spy's output becomes threads; each way in which it can fail has one line with the way out."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from pgdb.backend.python import reader
from pgdb.backend.python.reader import Reader, Reading, decoded

FRAME = {
    "name": "solve",
    "filename": "/job/solve.py",
    "module": None,
    "short_filename": "solve.py",
    "line": 7,
    "locals": [{"name": "n", "addr": 4096, "arg": True, "repr": "3"}],
    "is_entry": True,
    "is_shim_entry": False,
}


def output(**changes: object) -> bytes:
    thread = {
        "pid": 1,
        "thread_id": 0x7F00,
        "thread_name": "MainThread",
        "os_thread_id": 41,
        "active": True,
        "owns_gil": True,
        "frames": [FRAME],
        "process_info": None,
    }
    return json.dumps([thread | changes]).encode()


def read(
    program: Path, monkeypatch: pytest.MonkeyPatch, deadline_s: float = 60.0, pid: int = 1
) -> Reading:
    reader.program.cache_clear()
    monkeypatch.setenv("PGDB_PYSPY", str(program))
    try:
        return asyncio.run(Reader(deadline_s=deadline_s).read(pid))
    finally:
        reader.program.cache_clear()


def script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(("#!/bin/sh", *lines)) + "\n")
    path.chmod(0o755)
    return path


def test_a_thread_has_its_frames_name_and_lock() -> None:
    (thread,) = decoded(output()).threads
    assert thread.words == "MainThread, holds the GIL"
    (frame,) = thread.frames
    assert (frame.name, frame.line, frame.ends_run) == ("solve", 7, True)
    assert frame.locals is not None
    assert frame.locals[0].repr == "3"


def test_threads_are_found_by_the_kernels_number_or_by_their_descriptor() -> None:
    reading = decoded(output())
    assert reading.thread(41, 0) is reading.threads[0]
    assert reading.thread(42, 0x7F00) is None
    old = decoded(output(os_thread_id=None))
    assert old.thread(42, 0x7F00) is old.threads[0]
    assert old.thread(42, 0) is None


def test_a_relative_name_begins_in_the_ranks_directory() -> None:
    frame = FRAME | {"filename": "solve.py"}
    (thread,) = decoded(output(frames=[frame]), "/job").threads
    assert thread.frames[0].filename == "/job/solve.py"


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b'[{"frames": 3}]', b'[{"frames": []}]'])
def test_output_that_is_none_is_refused(data: bytes) -> None:
    assert "cannot be read" in decoded(data).why


def test_an_old_py_spy_is_named() -> None:
    old = {name: value for name, value in FRAME.items() if not name.startswith("is_")}
    assert "too old" in decoded(output(frames=[old])).why


def test_without_py_spy_one_line_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.program.cache_clear()
    monkeypatch.delenv("PGDB_PYSPY", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    try:
        why = asyncio.run(Reader().read(1)).why
    finally:
        reader.program.cache_clear()
    assert "pip install 'pgdb-mpi[python]'" in why
    assert "\n" not in why


def test_a_py_spy_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"
    hanging = script(
        tmp_path / "py-spy", f"echo $$ > {pid}.new; mv {pid}.new {pid}", "exec sleep 3600"
    )

    async def go() -> Reading:
        monkeypatch.setenv("PGDB_PYSPY", str(hanging))
        reader.program.cache_clear()
        own = Reader(deadline_s=0.5)
        return await own.read(1)

    reading = asyncio.run(go())
    reader.program.cache_clear()
    assert "has not answered" in reading.why
    if pid.exists():  # a loaded machine may not have begun the script
        assert not Path(f"/proc/{pid.read_text().strip()}").exists()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("Failed to find a python interpreter in the .data section", "not initialized"),
        ("error: Found argument '--locals' which wasn't expected", "too old"),
        ("Error: Permission denied (os error 13)", "py-spy: Permission denied (os error 13)"),
    ],
)
def test_failures_of_py_spy(
    error: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = script(tmp_path / "py-spy", f'echo "{error}" >&2', "exit 1")
    assert expected in read(failing, monkeypatch).why


def test_a_program_that_cannot_be_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No such file" in read(tmp_path / "absent", monkeypatch).why


def test_a_decorated_function_that_begins_is_at_its_def(tmp_path: Path) -> None:
    source = tmp_path / "solve.py"
    source.write_text(
        "@timed(\n    n=1,\n)\ndef solve(n):\n    return n\nclass A:\n  @p\n  def b(): 1\n"
    )
    agent = FRAME | {"name": "stop", "filename": "<pgdb>"}
    begins = FRAME | {"filename": str(source), "line": 1}
    of_class = begins | {"name": "A", "line": 7}
    within = begins | {"line": 5}
    found = {}
    for name, frames in {
        "begins": [agent, begins, begins],
        "class": [of_class],
        "within": [within],
    }.items():
        written = tmp_path / f"{name}.json"
        written.write_bytes(output(frames=frames))
        program = script(tmp_path / name, f"cat {written}")
        with pytest.MonkeyPatch.context() as patched:
            reading = read(program, patched, pid=os.getpid())
        found[name] = [each.line for each in reading.threads[0].frames]
    assert found == {"begins": [7, 4, 1], "class": [7], "within": [5]}
