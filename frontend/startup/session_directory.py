"""The directory of a session, which no other user can read or replace."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from pgdb.errors import StartError
from pgdb.jobs import procfs
from pgdb.overlay.archive_bootstrap import is_safe_place

LOG = logging.getLogger(__name__)

_PREFIX = "pgdb-"
_OWNER = "owner"
_LEFTOVER_OUTPUT = "job-output.log"
_MAX_OWNER_BYTES = 100
OTHER_PLACES = ("/tmp", "/dev/shm", "/var/tmp")
"""Fallbacks that may have room when the user's places are full."""


class SessionDirectory:
    """A directory of the session, readable by its user alone.

    Its creation also removes the directories of killed sessions.
    """

    def __init__(self) -> None:
        """Make the directory.

        :raises StartError: if there is no place for it.
        """
        self.path = _make_directory()
        # Cleaners of /tmp spare a locked directory (tmpfiles.d(5)); for those that do not, see
        # check_own().
        self._held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # some file systems have no locks
            fcntl.flock(self._held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self.mark = f"pgdb-{secrets.token_hex(12)}"
        """Mark in the command lines of this session's held ranks; not a secret."""

    @property
    def leftover_output(self) -> Path:
        """File for the job's output if the front end dies."""
        return self.path / _LEFTOVER_OUTPUT

    def remove(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._held >= 0:
            os.close(self._held)
            self._held = -1


def check_own(path: Path) -> None:
    """Check that a session's directory still exists and is not another user's of that name.

    :raises StartError: if not.
    """
    try:
        found = os.lstat(path)
    except OSError:
        raise StartError(f"{path}, the session's directory, was removed meanwhile") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise StartError(f"{path}, the session's directory, was removed; another user has its name")


def _make_directory() -> Path:
    """Make a session's directory in the first suitable place.

    :raises StartError: if there is none.
    """
    refusals: dict[str, None] = {}
    tried = set()
    places: list[Callable[[], str]] = [runtime_folder, temporary_folder]
    places += [partial(_safe, each) for each in OTHER_PLACES]
    for find in places:
        try:
            if not (folder := find()) or folder in tried:
                continue
            tried.add(folder)
            _sweep(Path(folder))
            # Mode 0700, under an unpredictable name that did not exist before.
            path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
            try:
                # A file under that name is complete: a half written one belongs to no living
                # process.
                written = path / f"{_OWNER}.new"
                written.write_text(_owner(os.getpid()), encoding="ascii")
                written.rename(path / _OWNER)
            except OSError:
                # Most likely a full disk, which still takes directories.
                shutil.rmtree(path, ignore_errors=True)
                raise
            return path
        except OSError as error:
            LOG.info("no session directory: %s", error)
            refusals[str(error)] = None
    raise StartError(
        f"no place for the session's small files: {'; '.join(refusals)}; "
        "make room there, or name another directory in TMPDIR"
    )


def _safe(folder: str) -> str:
    return folder if os.path.isdir(folder) and is_safe_place(folder) else ""


def runtime_folder(environment: Mapping[str, str] = os.environ) -> str:
    """Return the user's own folder for the time of a login, empty if there is none."""
    folder = environment.get("XDG_RUNTIME_DIR", "")
    # After su(1) it may be that of another user.
    usable = folder and os.access(folder, os.W_OK) and is_safe_place(folder)
    return folder if usable else ""


def temporary_folder() -> str:
    """Return a folder for temporary files in which no other user can replace ours.

    :raises OSError: if there is none.
    """
    folder = tempfile.gettempdir()
    for each in (folder, "/tmp"):
        if is_safe_place(each):
            return each
    raise PermissionError(errno.EPERM, "other users could replace files there", folder)


def _owner(pid: int) -> str:
    """Return a permanent name of process *pid*; empty if there is no such process."""
    status = procfs.read_stat(pid)
    return f"{pid} {status.start_time_ticks}" if status is not None else ""


def _sweep(folder: Path) -> None:
    """Remove the directories of our user's sessions whose front end is gone.

    A directory with output of a job that outlived its front end stays for the user. Any user may
    have created such names: the sweep follows no link, waits for no file and removes only our own.
    """
    with contextlib.suppress(OSError), _opened(folder, os.O_DIRECTORY) as base:
        for name in os.listdir(base):
            if name.startswith(_PREFIX):
                with contextlib.suppress(OSError, ValueError):
                    if _is_left_behind(name, base):
                        shutil.rmtree(name, ignore_errors=True, dir_fd=base)


def _is_left_behind(name: str, base: int) -> bool:
    with _opened(name, os.O_DIRECTORY | os.O_NOFOLLOW, base) as directory:
        if os.fstat(directory).st_uid != os.geteuid():
            return False
        # Opening a FIFO would wait for a writer.
        with _opened(_OWNER, os.O_NOFOLLOW | os.O_NONBLOCK, directory) as file:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                return False
            owner = os.read(file, _MAX_OWNER_BYTES).decode("ascii")
        if owner and _owner(int(owner.split()[0])) == owner:
            return False
        return _LEFTOVER_OUTPUT not in os.listdir(directory)


@contextlib.contextmanager
def _opened(name: str | Path, flags: int, base: int | None = None) -> Iterator[int]:
    file = os.open(name, os.O_RDONLY | os.O_CLOEXEC | flags, dir_fd=base)
    try:
        yield file
    finally:
        os.close(file)
