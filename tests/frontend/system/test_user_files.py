"""Files that the user names or keeps: other objects are reported and never waited for."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pgdb.errors import CommandError, PgdbError, UsageError
from pgdb.frontend.store import recording_file, saved_files
from pgdb.frontend.store.history import CommandHistory
from pgdb.frontend.store.settings import Settings, keep_settings, read_settings
from pgdb.frontend.system.user_files import (
    check_place,
    check_suffix,
    read_regular,
    write_atomically,
)
from pgdb.frontend.ui import bug_report
from tests.support.killed import KINDS, Kind
from tests.support.programs import ROOT


def read_history(path: Path) -> None:
    reported: list[str] = []
    history = CommandHistory(path, reported.append)
    assert list(history.load_history_strings()) == []
    history.close()
    raise CommandError(*reported)


READERS: list[Callable[[Path], object]] = [
    read_settings,
    saved_files.read,
    recording_file.read,
    read_history,
    lambda path: bug_report._read_logs(str(path)),
]


# Opening a pipe without a writer waits forever; reading a device fills the memory.
@pytest.mark.timeout(30)
@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("kind", ["pipe", "/dev/zero", "directory"])
def test_an_object_that_is_no_file_is_reported_at_once(
    tmp_path: Path, read: Callable[[Path], object], kind: str
) -> None:
    path = tmp_path / "it.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(kind)
    with pytest.raises(PgdbError) as caught:
        read(path)
    assert str(path) in str(caught.value)


# Settings and history have places of their own, which the user does not name.
NAMED = [KINDS[each]() for each in ("answer", "recording", "array")]


@pytest.mark.parametrize("writer", NAMED)
def test_file_is_replaced(tmp_path: Path, writer: Kind) -> None:
    path, link = tmp_path / "it", tmp_path / "link"
    link.symlink_to(path)
    writer.write(path, 0)
    before = path.stat()
    writer.write(link, 0)
    assert link.is_symlink() and path.stat().st_ino != before.st_ino
    assert path.stat().st_size == before.st_size
    assert sorted(tmp_path.iterdir()) == [path, link]


# A new file would replace the object, or would wait for a reader.
@pytest.mark.timeout(30)
@pytest.mark.parametrize("writer", NAMED)
@pytest.mark.parametrize("kind", ["pipe", "socket", "directory"])
def test_what_is_no_file_is_not_written(tmp_path: Path, writer: Kind, kind: str) -> None:
    path = tmp_path / "it"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        os.mknod(path, stat.S_IFSOCK | 0o600)
    before = path.stat()
    with pytest.raises(CommandError) as caught:
        writer.write(path, 0)
    assert str(path) in str(caught.value)
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_ino == before.st_ino and path.stat().st_mode == before.st_mode


@pytest.mark.timeout(30)
def test_settings_are_kept_beside_a_pipe_of_their_name(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    os.mkfifo(path)
    assert "could not be read" in keep_settings(path, Settings(settle_s=3.0))
    assert read_settings(path) == Settings(settle_s=3.0)


def test_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"x" * 2049)
    with pytest.raises(OSError, match="larger than 2 KiB"):
        read_regular(path, 2048)
    assert len(read_regular(path, 2049)) == 2049
    with pytest.raises(OSError, match="it is no file, but a named pipe"):
        os.mkfifo(tmp_path / "pipe")
        read_regular(tmp_path / "pipe", 2048)


# -- writers that are killed -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["each", "any", "together"])
@pytest.mark.parametrize("kind", ["settings", "history", "recording", "answer", "array"])
def test_file_is_whole_whenever_its_writer_is_killed(tmp_path: Path, kind: str, how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.killed", kind, how, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if how != "together":
        assert int(done.stdout) > 20


def test_a_path_that_cannot_be_looked_at_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CommandError, match=r"\.csv: cannot be written: File name too long"):
        check_place(tmp_path / ("x" * 300 + ".csv"))

    def refused(*_: object, **__: object) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "stat", refused)
    with pytest.raises(CommandError, match=r"u\.csv: cannot be written: Permission denied"):
        check_place(tmp_path / "u.csv")


def test_a_way_up_leads_from_where_a_link_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/sub")
    monkeypatch.chdir(tmp_path)
    write_atomically(Path("link/../a.csv"), b"1")
    write_atomically(tmp_path / "link" / ".." / "b.csv", b"2")
    assert {each.name for each in (tmp_path / "real").iterdir()} == {"sub", "a.csv", "b.csv"}
    assert {each.name for each in tmp_path.iterdir()} == {"real", "link"}


def test_links_of_others_are_not_followed_where_all_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, mine = tmp_path / "shared", tmp_path / "mine"
    shared.mkdir()
    shared.chmod(0o1777)
    mine.write_text("mine")
    (shared / "u.csv").symlink_to(mine)
    (tmp_path / "v.csv").symlink_to(shared / "u.csv")
    write_atomically(tmp_path / "v.csv", b"own links lead where they lead")
    assert mine.read_text() == "own links lead where they lead"
    real = os.lstat

    class Theirs:
        """Status of a link that another user owns."""

        def __init__(self, status: os.stat_result) -> None:
            self._status = status
            self.st_uid = 4242

        def __getattr__(self, name: str) -> object:
            return getattr(self._status, name)

    monkeypatch.setattr(Path, "lstat", lambda path: Theirs(real(path)))
    for path in (shared / "u.csv", tmp_path / "v.csv"):
        with pytest.raises(OSError, match=r"u\.csv is a link that another user has made"):
            write_atomically(path, b"theirs")
    assert mine.read_text() == "own links lead where they lead"


def test_an_empty_name_is_reported_as_such() -> None:
    for name, word in (("", "no file is named"), ("a.txt", "a.txt"), (".", "no file is named")):
        with pytest.raises(
            UsageError, match=rf"\A{word}: the file's name must end in .npz or .npy"
        ):
            check_suffix(Path(name), (".npz", ".npy"))
