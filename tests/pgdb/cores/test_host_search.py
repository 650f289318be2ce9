"""The search for core files that a host carries out for a session elsewhere."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdb.cores.finding import Folder
from pgdb.cores.host_search import search_host
from pgdb.cores.policy import Policy
from pgdb.cores.search import CoreSearch, LeftBy
from pgdb.overlay.message_codec import decode, encode
from pgdb.overlay.messages import Found
from tests.support.cores import core, rank_variables
from tests.support.elves import write_elf


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    made = Folder()
    yield made
    made.remove()
    assert not list((tmp_path / "tmp").iterdir())


def test_files_are_listed_and_then_read(tmp_path: Path, folder: Folder) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "core.0").write_bytes(core(environment=rank_variables(0, 2)))
    (run / "core.1.gz").write_bytes(gzip.compress(core(environment=rank_variables(1, 2))))
    (run / "core.empty").touch()
    os.utime(run / "core.1.gz", (1000.5, 1000.5))
    search = CoreSearch(nodes=(3,), targets=(str(run), str(tmp_path / "none")))
    listed = search_host(search, 3, folder)
    assert [os.path.basename(each.path) for each in listed.listed] == [
        "core.0",
        "core.1.gz",
        "core.empty",
    ]
    assert "there is no such file" in listed.why_none[str(tmp_path / "none")]
    paths = tuple(each.path for each in listed.listed)
    found = search_host(CoreSearch(nodes=(3,), paths={3: paths, 5: ("/none",)}), 3, folder)
    assert [each.identity.rank for each in found.cores if each.identity] == [0, 1]
    assert found.refused == ((str(run / "core.empty"), found.refused[0][1]),)
    assert "is empty" in found.refused[0][1]
    # The time is that of the user's file, not of the expansion.
    assert found.cores[1].written_s == 1000.5
    assert found.cores[1].name.endswith("core.1.gz")
    assert not any(each.mapped for each in found.cores)


def test_the_same_file_is_recognized_and_another_one_is_not(tmp_path: Path, folder: Folder) -> None:
    path = tmp_path / "core"

    def listed() -> object:
        found = search_host(CoreSearch(nodes=(0,), targets=(str(path),)), 0, folder)
        os.utime(path, (7, 7))
        return found.listed

    path.write_bytes(core(pid=1))
    os.utime(path, (7, 7))
    first = listed()
    assert listed() == first
    # Of the same size and time, and of another process: as on another host.
    path.write_bytes(core(pid=2))
    os.utime(path, (7, 7))
    assert listed() != first


def test_a_name_that_no_message_can_carry_is_refused(tmp_path: Path, folder: Folder) -> None:
    with open(os.fsencode(tmp_path) + b"/core.\xff", "wb") as file:
        file.write(core(environment=rank_variables(0, 1)))
    found = search_host(CoreSearch(nodes=(0,), targets=(str(tmp_path / "core*"),)), 0, folder)
    assert not found.listed
    assert found.refused == ((f"{tmp_path}/core.\\xff", "has a name that is not UTF-8: rename it"),)
    assert decode(encode(Found(node=0, cores=found))) == Found(node=0, cores=found)


def test_the_program_of_the_user_must_be_on_the_host(tmp_path: Path, folder: Folder) -> None:
    program = write_elf(tmp_path / "app", "abcd")
    (tmp_path / "core").write_bytes(core())
    targets = (str(tmp_path / "core"),)
    found = search_host(CoreSearch(targets=targets, executable=str(program)), 0, folder)
    assert found.build_id == "abcd"
    found = search_host(CoreSearch(targets=targets, executable="/none/app"), 0, folder)
    assert found.error == "--exe /none/app: there is no such file on this host"


def test_core_files_of_processes_are_listed(
    tmp_path: Path, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = Policy(pattern="core", uses_pid=True)
    monkeypatch.setattr("pgdb.cores.policy.read_policy", lambda: policy)
    for pid in (70, 71):
        (tmp_path / f"core.{pid}").write_bytes(core(pid=pid))
    left = LeftBy(folders=(str(tmp_path),), since_s=0.0, pids=(71,))
    found = search_host(CoreSearch(left_by=left), 0, folder)
    assert [each.path for each in found.listed] == [str(tmp_path / "core.71")]
    left = LeftBy(folders=(str(tmp_path),), since_s=0.0, pids=(72,))
    assert (
        "no core files were found" in search_host(CoreSearch(left_by=left), 0, folder).why_none[""]
    )
