"""Files that the user names or keeps: what is none is told, and never waited for."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

from pgdb.errors import CommandError, PgdbError
from pgdb.frontend.analysis import saved
from pgdb.frontend.answers import Answer
from pgdb.frontend.export import arrayfiles
from pgdb.frontend.recording import bugreport, recordfile
from pgdb.frontend.recording.files import read_regular
from pgdb.frontend.recording.history import CommandHistory
from pgdb.frontend.recording.recordfile import Recording
from pgdb.frontend.recording.settings import Settings, keep_settings, read_settings
from pgdb.ranks import RankSet
from tests.support.programs import ROOT


def read_history(path: Path) -> None:
    told: list[str] = []
    history = CommandHistory(path, told.append)
    assert list(history.load_history_strings()) == []
    history.close()
    raise CommandError(*told)


READERS: list[Callable[[Path], object]] = [
    read_settings,
    saved.read,
    recordfile.read,
    read_history,
    lambda path: bugreport._read_logs(str(path)),
]


# A pipe that nobody writes to is waited for without end when it is opened, a device fills memory.
@pytest.mark.timeout(30)
@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("kind", ["pipe", "/dev/zero", "directory"])
def test_what_is_no_file_is_told_at_once(
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


def recording() -> Recording:
    """Return some recording."""
    packed = zlib.compress((ROOT / "fuzz/corpus/recording/asked").read_bytes())
    return recordfile.decode(b"%s%d\n%s" % (recordfile._MAGIC, recordfile.VERSION, packed)).file


def write_recording(path: Path) -> object:
    return recordfile.write(recording(), path)


def write_saved(path: Path) -> object:
    return saved.write(saved.Saved("a", Answer("print a", RankSet(), ()), 0.0), path)


WRITERS: list[Callable[[Path], object]] = [
    write_saved,
    write_recording,
    lambda path: arrayfiles.write_array(numpy.zeros(3), path),
]


@pytest.mark.parametrize("write", WRITERS)
def test_file_is_replaced(tmp_path: Path, write: Callable[[Path], object]) -> None:
    path, link = tmp_path / "it", tmp_path / "link"
    link.symlink_to(path)
    write(path)
    before = path.stat()
    write(link)
    assert link.is_symlink() and path.stat().st_ino != before.st_ino
    assert path.stat().st_size == before.st_size
    assert sorted(tmp_path.iterdir()) == [path, link]


# A new file would take the place of what it is, or a reader would be waited for.
@pytest.mark.timeout(30)
@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("kind", ["pipe", "socket", "directory"])
def test_what_is_no_file_is_not_written(
    tmp_path: Path, write: Callable[[Path], object], kind: str
) -> None:
    path = tmp_path / "it"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        os.mknod(path, stat.S_IFSOCK | 0o600)
    before = path.stat()
    with pytest.raises(CommandError) as caught:
        write(path)
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
