"""Core files by the names that users give, and those that systemd-coredump keeps."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pgdb.cores.finding import Folder, find_cores, take_from_systemd
from pgdb.errors import StartError, UsageError
from tests.support.cores import core, rank_variables
from tests.support.elves import elf


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    made = Folder()
    yield made
    made.remove()
    assert not list((tmp_path / "tmp").iterdir())


def names(found: Sequence[str]) -> set[str]:
    return {os.path.basename(each) for each in found}


def test_a_directory_gives_the_files_that_begin_as_core_files_do(
    tmp_path: Path, folder: Folder
) -> None:
    run = tmp_path / "run"
    (run / "a" / "b").mkdir(parents=True)
    (run / "core.1").write_bytes(core())
    (run / "a" / "b" / "dump").write_bytes(core())
    (run / "app").write_bytes(elf("12"))
    (run / "core.c").write_text("int core;")
    (run / "core.empty").touch()
    (run / "loop").symlink_to(run)
    found = find_cores([str(run)], folder)
    assert names([each.path for each in found.cores]) == {"core.1", "dump"}
    assert [name for name, _ in found.refused] == [str(run / "core.empty")]


def test_patterns_and_names_are_joined_without_repetition(tmp_path: Path, folder: Folder) -> None:
    for number in range(3):
        (tmp_path / f"core.{number}").write_bytes(core())
    targets = [str(tmp_path / "core.*"), str(tmp_path / "core.1"), str(tmp_path / "**/core.2")]
    assert len(find_cores(targets, folder).cores) == 3


def test_a_target_that_names_nothing_is_an_error(tmp_path: Path, folder: Folder) -> None:
    with pytest.raises(UsageError, match="no file has such a name"):
        find_cores([str(tmp_path / "core.*")], folder)
    with pytest.raises(UsageError, match="there is no such file"):
        find_cores([str(tmp_path / "core")], folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="there is no core file in this directory"):
        find_cores([str(tmp_path / "empty")], folder)


def test_a_name_with_the_characters_of_patterns_is_taken_as_it_is(
    tmp_path: Path, folder: Folder
) -> None:
    (tmp_path / "core[1]").write_bytes(core())
    assert len(find_cores([str(tmp_path / "core[1]")], folder).cores) == 1


def entry(pid: int, corefile: str = "present") -> dict[str, object]:
    return {"pid": pid, "sig": 11, "corefile": corefile, "exe": "/opt/app/solver"}


class Coredumpctl:
    """A stand-in for coredumpctl."""

    def __init__(self, entries: Sequence[dict[str, object]], *, fails: Sequence[int] = ()) -> None:
        self.entries, self.fails = entries, fails
        self.calls: list[list[str]] = []

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        self.calls.append([*command])
        if "list" in command:
            status = 0 if self.entries else 1
            text = json.dumps(self.entries) if self.entries else ""
            return subprocess.CompletedProcess(command, status, text, "No coredumps found.\n")
        pid = int(command[-1])
        if pid in self.fails:
            return subprocess.CompletedProcess(command, 1, "", "No match found.\n")
        target = Path(command[command.index("--output") + 1])
        target.write_bytes(core(pid=pid, environment=rank_variables(pid % 10, 4)))
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that has coredumpctl."""
    program = tmp_path / "bin" / "coredumpctl"
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(program.parent))


@pytest.mark.usefixtures("here")
def test_systemds_cores_are_taken_and_lost_ones_named(folder: Folder) -> None:
    entries = [entry(10), entry(11), entry(12, "missing"), entry(13), entry(10)]
    run = Coredumpctl(entries, fails=[13])
    found = take_from_systemd(["/opt/app/solver"], folder, run)
    assert sorted(each.pid for each in found.cores) == [10, 11]
    assert run.calls[0][-2:] == ["list", "/opt/app/solver"]
    faults = dict(found.refused)
    assert faults["process 12 (/opt/app/solver)"] == "has no core file any more (missing)"
    assert faults["process 13 (/opt/app/solver)"] == "cannot be read: No match found."


@pytest.mark.usefixtures("here")
def test_no_core_of_systemd_is_an_error_that_names_the_match(folder: Folder) -> None:
    with pytest.raises(StartError, match=r"no core files for app \(No coredumps found.\)"):
        take_from_systemd(["app"], folder, Coredumpctl([]))


def test_a_host_without_systemd_is_named(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StartError, match="no coredumpctl on this host"):
        take_from_systemd([], folder, Coredumpctl([]))


def test_folders_of_killed_processes_are_removed(
    tmp_path: Path, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "tmp" / "pgdb-cores-4194305-x"
    left.mkdir()
    alive = tmp_path / "tmp" / f"pgdb-cores-{os.getppid()}-x"
    alive.mkdir()
    assert folder.path.is_dir()
    assert not left.exists()
    assert alive.exists()
    alive.rmdir()
