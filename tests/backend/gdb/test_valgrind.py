"""The way to a program that Valgrind interprets."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdb.backend.gdb.valgrind import Guest, guest_of
from pgdb.jobs import procfs

PID = 4711


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Provide a process of Valgrind's, by what /proc says of it, and the directory of its files."""
    vgdb = tmp_path / "bin" / "vgdb"
    vgdb.parent.mkdir()
    vgdb.write_text("#!/bin/sh\n")
    vgdb.chmod(0o755)
    words = ["/usr/bin/valgrind.bin", "-q", "--leak-check=full", "./solver", "--vgdb-prefix=no"]
    tool = f"{tmp_path}/libexec/valgrind/memcheck-amd64-linux"
    mapped = frozenset({tool, "/data/solver", "/usr/lib/libc.so.6"})
    monkeypatch.setattr(procfs, "command_line", lambda pid: words)
    monkeypatch.setattr(procfs, "environment", lambda pid: {"TMPDIR": str(tmp_path)})
    monkeypatch.setattr(procfs, "executable", lambda pid: tool)
    monkeypatch.setattr(procfs, "mapped_files", lambda pid: mapped)
    return tmp_path


def test_the_program_is_the_mapped_file_that_the_command_line_names(rank: Path) -> None:
    (rank / f"vgdb-pipe-from-vgdb-to-{PID}-by-me-on-host").touch()
    guest = guest_of(PID)
    assert isinstance(guest, Guest)
    assert guest.program == "/data/solver"
    prefix = f"--vgdb-prefix={rank}/vgdb-pipe"
    assert guest.command == f"{rank}/bin/vgdb --pid={PID} {prefix}"


def test_valgrinds_own_prefix_wins(rank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["valgrind", f"--vgdb-prefix={rank}/own [1]", "./solver", "--vgdb-prefix=/no"]
    monkeypatch.setattr(procfs, "command_line", lambda pid: words)
    (rank / f"own [1]-from-vgdb-to-{PID}-by-me-on-host").touch()
    guest = guest_of(PID)
    assert isinstance(guest, Guest)
    assert guest.command.endswith(f"'--vgdb-prefix={rank}/own [1]'")


def test_without_pipes_the_reason_is_named(rank: Path) -> None:
    (rank / f"vgdb-pipe-from-vgdb-to-{PID}9-by-me-on-host").touch()
    assert "--vgdb=no" in str(guest_of(PID))


def test_without_vgdb_the_reason_is_named(rank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (rank / "bin" / "vgdb").unlink()
    monkeypatch.setenv("PATH", str(rank))
    assert "no vgdb" in str(guest_of(PID))


def test_an_unknown_program_is_left_to_gdb(rank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (rank / f"vgdb-pipe-from-vgdb-to-{PID}-by-me-on-host").touch()
    monkeypatch.setattr(procfs, "mapped_files", lambda pid: frozenset())
    guest = guest_of(PID)
    assert isinstance(guest, Guest)
    assert guest.program == ""
