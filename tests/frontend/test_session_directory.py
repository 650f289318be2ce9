"""The directory of a session, and what is removed of sessions that were killed."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

from pgdb.errors import StartError
from pgdb.frontend.starting.overlay import SessionDirectory


@pytest.fixture(autouse=True)
def runtime_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def left_behind(folder: Path, owner: str, *files: str) -> Path:
    directory = folder / f"pgdb-{owner.replace(' ', '-')}"
    directory.mkdir()
    for name in ("rendezvous", *files):
        (directory / name).write_text("secret")
    (directory / "owner").write_text(owner)
    return directory


def test_it_is_for_its_user_alone_and_goes() -> None:
    directory = SessionDirectory()
    assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700
    directory.remove()
    assert not directory.path.exists()


def test_what_a_killed_session_has_left_is_removed(runtime_directory: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    gone = left_behind(runtime_directory, f"{ended.pid} 1")
    # Another process has its pid by now.
    reused = left_behind(runtime_directory, f"{os.getpid()} 1")
    SessionDirectory().remove()
    assert not gone.exists() and not reused.exists()


def test_what_lives_or_is_the_users_stays(runtime_directory: Path) -> None:
    living = SessionDirectory()
    output = left_behind(runtime_directory, "4194305 1", "job-output.log")
    odd = left_behind(runtime_directory, "no number")
    foreign = runtime_directory / "pgdb-foreign"
    foreign.mkdir()
    SessionDirectory().remove()
    assert living.path.exists() and output.exists() and odd.exists() and foreign.exists()
    living.remove()


def test_where_nothing_can_be_written_another_place_is_taken(
    runtime_directory: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = tmp_path_factory.mktemp("other")
    write = Path.write_text

    def write_text(path: Path, *args: str, **how: str) -> int:
        if any(path.is_relative_to(full) for full in filled):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, *args, **how)

    monkeypatch.setattr(Path, "write_text", write_text)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(other))
    filled = [runtime_directory]
    directory = SessionDirectory()
    assert directory.path.is_relative_to(other)
    directory.remove()
    filled.append(other)
    with pytest.raises(StartError, match=r"No space left on device.* TMPDIR"):
        SessionDirectory()
    assert not [*runtime_directory.iterdir(), *other.iterdir()]
