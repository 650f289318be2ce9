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
from pgdb.frontend.startup import session_directory as directory_module
from pgdb.frontend.startup.session_directory import SessionDirectory, check_own, temporary_folder


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


def test_what_is_somebody_elses_by_its_name_is_not_used(
    runtime_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = SessionDirectory()
    check_own(directory.path)
    with open(f"/proc/self/fdinfo/{directory._held}", encoding="ascii") as reported:
        assert "FLOCK" in reported.read(), "what cleans /tmp sees that it is in use"
    directory.remove()
    directory.remove()
    with pytest.raises(StartError, match="was removed meanwhile"):
        check_own(directory.path)
    directory.path.symlink_to(runtime_directory)
    with pytest.raises(StartError, match="another user has its name"):
        check_own(directory.path)
    directory.path.unlink()
    directory.path.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    with pytest.raises(StartError, match="another user has its name"):
        check_own(directory.path)


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
    last = tmp_path_factory.mktemp("last")
    monkeypatch.setattr(
        directory_module, "OTHER_PLACES", (str(other), str(last), str(last / "none"))
    )
    filled = [runtime_directory]
    directory = SessionDirectory()
    assert directory.path.is_relative_to(other)
    directory.remove()
    filled.append(other)
    directory = SessionDirectory()
    assert directory.path.is_relative_to(last)
    directory.remove()
    filled.append(last)
    with pytest.raises(StartError, match=r"No space left on device.* TMPDIR"):
        SessionDirectory()
    assert not [*runtime_directory.iterdir(), *other.iterdir()]


# -- what others do ------------------------------------------------------------------------------


def test_a_folder_that_others_can_change_is_not_taken(
    runtime_directory: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    safe = tmp_path_factory.mktemp("safe")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(safe))
    below = runtime_directory / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(below))
    for unsafe in (below, below.parent):
        unsafe.chmod(0o777)
        directory = SessionDirectory()
        assert directory.path.parent == safe
        directory.remove()
        unsafe.chmod(0o1777)
        directory = SessionDirectory()
        assert directory.path.parent == below, "nobody can rename what is in it"
        directory.remove()
        unsafe.chmod(0o700)


def test_a_temporary_folder_that_others_can_change_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(folder))
    assert temporary_folder() == "/tmp"
    original = directory_module.is_safe_place
    monkeypatch.setattr(
        directory_module, "is_safe_place", lambda each: each != "/tmp" and original(each)
    )
    with pytest.raises(PermissionError, match="other users could replace"):
        temporary_folder()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_runtime_folder_of_another_user_is_not_taken(
    runtime_directory: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    safe = tmp_path_factory.mktemp("safe")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(safe))
    os.chown(runtime_directory, 65534, 65534)
    directory = SessionDirectory()
    assert directory.path.parent == safe, "as after su(1), which leaves the variable"
    directory.remove()


DEAD = "4194305 1"


def test_traps_are_neither_followed_nor_waited_for(
    runtime_directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mine = tmp_path_factory.mktemp("mine")
    (mine / "owner").write_text(DEAD)
    (runtime_directory / "pgdb-link").symlink_to(mine)
    linked, piped = runtime_directory / "pgdb-owner", runtime_directory / "pgdb-pipe"
    for each in (linked, piped):
        each.mkdir()
    (linked / "owner").symlink_to(mine / "owner")
    os.mkfifo(piped / "owner")  # nobody writes into it: to read it would take for ever
    SessionDirectory().remove()
    assert (mine / "owner").exists() and linked.exists() and piped.exists()
    assert (runtime_directory / "pgdb-link").is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_what_other_users_have_put_there_is_left_alone(runtime_directory: Path) -> None:
    theirs = left_behind(runtime_directory, DEAD)
    os.chown(theirs, 65534, 65534)
    # A file of ours in it, such as a hard link, makes it no directory of ours.
    SessionDirectory().remove()
    assert (theirs / "rendezvous").exists()


def test_one_that_is_being_made_is_not_removed(runtime_directory: Path) -> None:
    begun = runtime_directory / "pgdb-begun"
    begun.mkdir()
    (begun / "owner.new").write_text("")
    SessionDirectory().remove()
    assert begun.exists()
