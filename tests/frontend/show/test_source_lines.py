"""Lines of source files: readable files, and files that hang."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from typing import BinaryIO

import pytest

from pgdb.frontend.show import source_lines
from pgdb.frontend.show.source_lines import Sources
from tests.support.processes import wait_until


def test_only_files_of_a_moderate_size_are_read_for_a_line(
    tmp_path: Path,
) -> None:
    source_line = Sources().line
    source = tmp_path / "a.c"
    source.write_bytes(b"one\n\ntwo \xe9\n")
    assert [source_line(str(source), line) for line in (0, 1, 2, 3, 4)] == [
        None, "one", None, "two \ufffd", None
    ]  # fmt: skip
    source = tmp_path / "b.c"
    source.write_bytes(b"one\n\ftwo\r\nthree \x0b \x1c \xc2\x85 \xe2\x80\xa8 \nfour")
    assert [source_line(str(source), line) for line in (1, 2, 3, 4, 5)] == [
        "one", "\ftwo", "three \x0b \x1c \x85 \u2028 ", "four", None
    ]  # fmt: skip
    os.mkfifo(tmp_path / "pipe.c")
    for path in (
        str(tmp_path / "pipe.c"),
        str(tmp_path),
        "/proc/self/status",
        "/dev/shm/../null",
        "a.c",
        "",
        "/no",
    ):
        assert source_line(path, 1) is None
    large = tmp_path / "large.c"
    large.write_bytes(b"one\n")
    os.truncate(large, 1 << 40)
    assert source_line(str(large), 1) is None


def test_a_file_system_that_hangs_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, begun = threading.Event(), list[str]()

    def hang(path: str) -> BinaryIO:
        begun.append(path)
        assert goes_on.wait(60)
        return open(path, "rb")

    monkeypatch.setattr(source_lines, "open_regular", hang)
    monkeypatch.setattr(source_lines, "PATIENCE_S", 0.01)
    paths = [str(tmp_path / f"{number}.c") for number in range(9)]
    for path in paths:
        Path(path).write_text("first\nsecond\n")
    read = Sources()
    assert [read.line(path, 2) for path in [*paths, *paths]] == [None] * 18
    assert begun == paths[:4], "no more hang at a time, and each is begun once"
    goes_on.set()
    # A line that arrives late is available at the next request.
    wait_until(lambda: [read.line(path, 2) for path in paths] == ["second"] * 9, "all are read")
    assert len(begun) == len(set(begun))


def test_the_last_files_are_kept(tmp_path: Path) -> None:
    read = Sources()
    for number in range(40):
        (tmp_path / f"{number}.c").write_text(f"{number}\n")
        assert read.line(str(tmp_path / f"{number}.c"), 1) == str(number)
    for number in (39, 0):
        (tmp_path / f"{number}.c").write_text("changed\n")
    assert read.line(str(tmp_path / "39.c"), 1) == "39"
    assert read.line(str(tmp_path / "0.c"), 1) == "changed"


def test_files_in_shared_memory_are_files() -> None:
    with tempfile.NamedTemporaryFile("w", dir="/dev/shm", suffix=".c") as file:
        file.write("one\n")
        file.flush()
        assert Sources().line(file.name, 1) == "one"
