"""The directory of a session, which nobody but its user can look into or put another one for."""

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
_OTHERS = ("/tmp", "/dev/shm", "/var/tmp")
"""Where there may be room when the places that are ours to choose are full."""


class SessionDirectory:
    """A directory of the session's own, readable by its user alone.

    What sessions have left behind that were killed is removed on the way.
    """

    def __init__(self) -> None:
        """Make the directory.

        :raises StartError: if there is no place for it.
        """
        self.path = _make_directory()
        # What cleans /tmp leaves a directory alone that somebody has locked (tmpfiles.d(5)); where
        # it does not, see check_own().
        self._held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # some file systems have no locks
            fcntl.flock(self._held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self.mark = f"pgdb-{secrets.token_hex(12)}"
        """What the held ranks of this session carry; no secret."""

    @property
    def leftover_output(self) -> Path:
        """Where the job's output goes if the front end dies."""
        return self.path / _LEFTOVER_OUTPUT

    def remove(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._held >= 0:
            os.close(self._held)
            self._held = -1


def check_own(path: Path) -> None:
    """Check that a session's directory is still there, and nobody else's of that name.

    :raises StartError: if it is not.
    """
    try:
        found = os.lstat(path)
    except OSError:
        raise StartError(f"{path}, the session's directory, was removed meanwhile") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise StartError(f"{path}, the session's directory, was removed; another user has its name")


def _make_directory() -> Path:
    """Make a session's directory in the first place that takes one.

    :raises StartError: if none does.
    """
    refusals: dict[str, None] = {}
    tried = set()
    places: list[Callable[[], str]] = [runtime_folder, temporary_folder]
    places += [partial(_safe, each) for each in _OTHERS]
    for find in places:
        try:
            if not (folder := find()) or folder in tried:
                continue
            tried.add(folder)
            _sweep(Path(folder))
            # Mode 0700, under a name that nobody can guess and that was not there before.
            path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
            try:
                # Under its name it is complete: what is half written belongs to nobody alive.
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
    """Return the user's own folder for what lasts as long as a login, empty if there is none."""
    folder = environment.get("XDG_RUNTIME_DIR", "")
    # After su(1) it can be that of another user.
    usable = folder and os.access(folder, os.W_OK) and is_safe_place(folder)
    return folder if usable else ""


def temporary_folder() -> str:
    """Return a folder for temporary files in which nobody can replace ours.

    :raises OSError: if there is none.
    """
    folder = tempfile.gettempdir()
    for each in (folder, "/tmp"):
        if is_safe_place(each):
            return each
    raise PermissionError(errno.EPERM, "others could replace what is put there", folder)


def _owner(pid: int) -> str:
    """Return what names process *pid* for good; empty if there is none."""
    status = procfs.read_stat(pid)
    return f"{pid} {status.start_time_ticks}" if status is not None else ""


def _sweep(folder: Path) -> None:
    """Remove the directories of our user's sessions whose front end is gone.

    One with output of a job that ran on without its front end is the user's. Anybody may have put
    anything there under such a name: nothing is followed, waited for or removed that is not ours.
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
        # A FIFO would keep us waiting for somebody who writes into it.
        with _opened(_OWNER, os.O_NOFOLLOW | os.O_NONBLOCK, directory) as file:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                return False
            told = os.read(file, _MAX_OWNER_BYTES).decode("ascii")
        if told and _owner(int(told.split()[0])) == told:
            return False
        return _LEFTOVER_OUTPUT not in os.listdir(directory)


@contextlib.contextmanager
def _opened(name: str | Path, flags: int, base: int | None = None) -> Iterator[int]:
    file = os.open(name, os.O_RDONLY | os.O_CLOEXEC | flags, dir_fd=base)
    try:
        yield file
    finally:
        os.close(file)
