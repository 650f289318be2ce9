"""Files that a rank's GDB writes: names of its own, the record of each, and their contents."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from pgdb.backend.gdb.written_files import FileNames
from pgdb.overlay.operations import ReadFile
from pgdb.records import Block, Failure, FileWritten

HOST = socket.gethostname()
FILES = FileNames(5)


@pytest.mark.parametrize(
    ("command", "own"),
    [
        ("gcore /tmp/a.{rank}", "gcore /tmp/a.5"),
        ("gcore /tmp/%h.%p.%%r", f"gcore /tmp/{HOST}.77.%r"),
        ("dump binary memory m.%r &x &y", "dump binary memory m.5 &x &y"),
        ("dump value m.%r grid%rho + n%p", "dump value m.5 grid%rho + n%p"),
        ("record save my log.{rank}", "record save my log.5"),
        ("save tracepoints d.{rank}", "save tracepoints d.5"),
        ("restore m.{rank} binary &x", "restore m.5 binary &x"),
        ('printf "%r {rank}\\n", 3', 'printf "%r {rank}\\n", 3'),
    ],
)
def test_placeholders_stand_for_the_rank(command: str, own: str) -> None:
    assert FILES.filled(command, 77) == own
    assert FILES.filled_lines(["silent", command], 77) == ("silent", own)


def test_a_written_file_is_named_for_all_ranks(tmp_path: Path) -> None:
    command = f"gcore {tmp_path}/core.{{rank}}.{{pid}}"
    watch = FILES.watch(command, 77, os.getpid())
    assert watch is not None and watch.written("Saved corefile x\n") is None
    (tmp_path / "core.5.77").write_bytes(b"core")
    assert watch.written(f"warning: a\nSaved corefile {tmp_path}/core.5.77\n") == FileWritten(
        path=f"{tmp_path}/core.{{rank}}.{{pid}}", host=HOST, process="77", text="warning: a"
    )


def test_a_file_that_gdb_could_not_fill_is_not_written(tmp_path: Path) -> None:
    watch = FILES.watch(f"dump ihex value {tmp_path}/i.{{rank}} x", 77, os.getpid())
    (tmp_path / "i.5").write_bytes(b"")
    assert watch is not None
    said = f'BFD: address out of range\nwarning: cannot close "{tmp_path}/i.5": bad value\n'
    # The same on all ranks, whose files have other names.
    assert watch.written(said) == Failure(f"{tmp_path}/i.{{rank}} is not written: bad value")


def test_restore_without_the_rank_names_the_file_of_the_rank(tmp_path: Path) -> None:
    command = f"restore {tmp_path}/m binary &x"
    failed = Failure(f"Failed to open {tmp_path}/m: No such file or directory")
    assert FILES.with_own_file(command, failed, os.getpid()) == failed
    (tmp_path / "m.5").write_bytes(b"")
    found = FILES.with_own_file(command, failed, os.getpid())
    assert found.message.endswith(
        f"; each rank has a file of its own: restore {tmp_path}/m.{{rank}} …"
    )
    other = Failure("Invalid offset")
    assert FILES.with_own_file(command, other, os.getpid()) == other
    assert FILES.with_own_file("print x", failed, os.getpid()) == failed


def test_names_are_relative_to_the_directory_of_gdb(tmp_path: Path) -> None:
    (tmp_path / "m.5").write_bytes(b"")
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        watch = FILES.watch("append value m.%r x", 77, os.getpid())
        (tmp_path / "m.5").write_bytes(b"more")
        assert watch is not None
        assert watch.written("") == FileWritten(path=f"{tmp_path}/m.{{rank}}", host=HOST)
    finally:
        os.chdir(before)


def test_a_directory_for_the_rank_is_made_beside_the_named_one(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    assert FILES.watch(f"save gdb-index {tmp_path}/index.{{rank}}", 77, os.getpid()) is not None
    assert (tmp_path / "index.5").is_dir()
    FILES.watch(f"save gdb-index {tmp_path}/none.{{rank}}", 77, os.getpid())
    assert not (tmp_path / "none.5").exists()


def test_files_are_read_in_parts(tmp_path: Path) -> None:
    (tmp_path / "f.5").write_bytes(b"0123456789")

    def read(path: str, start: int = 0, most: int = 0) -> Block | Failure:
        operation = ReadFile(path=path, start=start, most_bytes=most)
        found = FILES.read(operation, 77, os.getpid())
        assert isinstance(found, Block | Failure)
        return found

    name = f"{tmp_path}/f.{{rank}}"
    assert read(name, 4, 3) == Block(dtype="|u1", shape=(10,), data=b"456", start=4)
    assert read(name) == Block(dtype="|u1", shape=(10,), data=b"")
    missing = read(f"{tmp_path}/g")
    assert isinstance(missing, Failure) and "No such file" in missing.message
    directory = read(str(tmp_path))
    assert isinstance(directory, Failure) and "directory" in directory.message
