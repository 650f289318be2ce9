"""The choice of GDB, and the message about one that does not suit."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from pgdb.errors import StartError
from pgdb.jobs import gdb_program
from pgdb.jobs.gdb_program import MINIMUM_GDB, check_gdb, find_gdb


def gdb(directory: Path, text: str, name: str = "gdb") -> Path:
    """Make a GDB whose ``--version`` runs *text*."""
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def says(version: str) -> str:
    return f"echo '{version}'; echo 'Copyright (C) 2023 Free Software Foundation, Inc. 9.9'"


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("GNU gdb (Debian 13.1-3) 13.1", "13.1"),
        ("GNU gdb (GDB) 18.1.0.20260101-git", "18.1"),
        ("GNU gdb (GDB) Red Hat Enterprise Linux 14.2-3.el9", "14.2"),
        ("GNU gdb (GDB; openSUSE Leap 15.6) 12.1", "12.1"),
        ("NVIDIA (R) cuda-gdb 12.4\nPortions Copyright (C) 2024\nBased on GNU gdb 13.2", "13.2"),
        ("NVIDIA (R) CUDA Debugger\n12.2 release\nGNU gdb (GDB) 12.1", "12.1"),
        ("GNU gdb (rocm-rel-6.2-66) 14.2", "14.2"),
        ("GNU gdb (Intel(R) Distribution for GDB* 2024.2.0) 14.2", "14.2"),
        ("Loading module gdb/13.1\nGNU gdb (GDB) 15.2", "15.2"),
    ],
)
def test_the_version_is_the_last_word_of_the_line_that_names_gdb(
    tmp_path: Path, line: str, version: str
) -> None:
    assert check_gdb(str(gdb(tmp_path, says(line)))) == version


@pytest.mark.parametrize("version", ["7.12", "12.0", "9.2"])
def test_an_old_gdb_is_refused_with_the_way_out(tmp_path: Path, version: str) -> None:
    path = gdb(tmp_path, says(f"GNU gdb (GDB) {version}"))
    wanted = ".".join(map(str, MINIMUM_GDB))
    reported = re.escape(f"{path} is GDB {version}; at least {wanted} is needed")
    with pytest.raises(StartError, match=rf"{reported} .*--gdb"):
        check_gdb(str(path))


def test_a_debugger_without_the_name_gdb_is_judged_by_its_printed_version(
    tmp_path: Path,
) -> None:
    text = 'case $1 in --version) echo "Debugger 3.2";; *) exec gdb "$@";; esac'
    assert check_gdb(str(gdb(tmp_path, text))) == check_gdb("gdb")
    derived = 'exec gdb "$@" -ex "set prompt (cuda-gdb) "'
    text = f'case $1 in --version) echo "Debugger 3.2";; *) {derived};; esac'
    assert check_gdb(str(gdb(tmp_path, text))) == check_gdb("gdb")
    silent = 'case $1 in --version) exit 3;; *) echo hello; exec gdb "$@";; esac'
    assert check_gdb(str(gdb(tmp_path, silent))) == check_gdb("gdb")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo LLDB version fifteen", "is no GDB: it calls itself 'LLDB version fifteen'"),
        ("echo 'false (GNU coreutils) 99.1'", "is no GDB: .*; --gdb names one"),
        ("exit 1", "is no GDB: it calls itself ''"),
        ("echo 'no such library' >&2; exit 127", "does not start: no such library; --gdb names"),
        ("exec yes", "is no GDB: it calls itself 'y'"),
        ("printf 'not text \\377\\n'", "is no GDB"),
    ],
)
def test_what_is_no_gdb_is_refused_by_what_it_says(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(StartError, match=message):
        check_gdb(str(gdb(tmp_path, text)))


def test_a_gdb_that_cannot_be_executed_is_reported(tmp_path: Path) -> None:
    path = gdb(tmp_path, "")
    path.write_text("#!/no/such/interpreter\n")
    with pytest.raises(StartError, match=f"{re.escape(str(path))} cannot be run: "):
        check_gdb(str(path))


def test_a_file_that_is_no_program_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "gdb"
    path.touch(mode=0o644)
    with pytest.raises(StartError, match=f"{re.escape(str(path))} cannot be run: .*--gdb"):
        check_gdb(str(path))


def test_a_gdb_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gdb_program, "DEADLINE_S", 0.2)
    with pytest.raises(StartError, match="has not printed its version within"):
        check_gdb(str(gdb(tmp_path, "exec sleep 60")))


def test_without_any_gdb_the_ways_to_get_one_are_named() -> None:
    with pytest.raises(StartError, match=r"no GDB 'no-such-gdb' in PATH; install gdb, .*--gdb"):
        check_gdb("no-such-gdb")


def test_path_comes_before_what_is_beside_our_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = gdb(tmp_path / "venv", "", "some-gdb")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_gdb("some-gdb") == str(beside)
    in_path = gdb(tmp_path / "bin", "", "some-gdb")
    assert find_gdb("some-gdb") == str(in_path)
    assert find_gdb("another-gdb") is None


def test_a_path_to_a_gdb_is_taken_as_it_is(tmp_path: Path) -> None:
    path = gdb(tmp_path, "")
    assert find_gdb(str(path)) == str(path)
    path.chmod(0o644)
    assert find_gdb(str(path)) is None
