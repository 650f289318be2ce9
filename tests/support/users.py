"""Users of this machine that a test makes and removes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import shutil
import subprocess
import uuid
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def new_user() -> Iterator[tuple[str, int]]:
    """Make a user of a random name inside the context; yield name and user id.

    The test is skipped where that is impossible.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can make another user")
    if shutil.which("useradd") is None:
        pytest.skip("this machine has no useradd")
    name = f"pgdb{uuid.uuid4().hex[:8]}"
    _change("useradd", "--no-create-home", name)
    try:
        yield name, pwd.getpwnam(name).pw_uid
    finally:
        _change("userdel", name)


def _change(*command: str) -> None:
    # useradd gives up where another one has the password file for long, so that workers take turns.
    # The file itself cannot carry the lock: each change puts a new file in its place.
    folder = os.open("/etc", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        subprocess.run(command, check=True)
    finally:
        os.close(folder)
