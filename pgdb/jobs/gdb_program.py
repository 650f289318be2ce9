"""Find the GDB of this host, and check its version."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence

from pgdb.errors import StartError
from pgdb.patterns import pattern

MINIMUM_GDB = (12, 1)
"""Oldest GDB with the features that PGDB uses: MI 3 with asynchronous attach, index cache settings.
"""
_VERSION = pattern(r"(\d+)\.(\d+)\S*$")
DEADLINE_S = 60.0
_MOST_WORDS_BYTES = 1 << 16


def find_gdb(word: str) -> str | None:
    """Return the path of the GDB *word*: in PATH, else beside our own interpreter."""
    beside = os.path.dirname(sys.executable)
    return shutil.which(word) or shutil.which(word, path=beside)


def check_gdb(word: str) -> str:
    """Return the version of the GDB *word*, e.g. ``13.1``.

    :raises StartError: if there is no such GDB, or it is too old.
    """
    path = find_gdb(word)
    if path is None and os.path.exists(word):
        raise StartError(f"{word} cannot be run: it is no program; --gdb names a GDB")
    if path is None:
        raise StartError(
            f"there is no GDB {word!r} in PATH; install gdb, name one with --gdb, "
            "or pip install 'pgdb-mpi[embedded]'"
        )
    try:
        said = first_words([path, "--version"], DEADLINE_S)
    except TimeoutError:
        raise StartError(
            f"{path} has not printed its version within {DEADLINE_S:g} s; "
            "this host may be overloaded, or the file system that it is on; --gdb names another one"
        ) from None
    except OSError as error:
        raise StartError(f"{path} cannot be run: {error}") from None
    version = version_in(said)
    if version is None and not said.strip():
        with contextlib.suppress(OSError, TimeoutError):
            errors = first_words([path, "--version"], DEADLINE_S, errors=True).strip()
            if errors:
                last = errors.rpartition("\n")[2]
                raise StartError(f"{path} does not start: {last}; --gdb names another GDB")
    if version is None:
        raise StartError(
            f"{path} is no GDB: it calls itself {said.partition(chr(10))[0]!r}; --gdb names one"
        )
    if version < MINIMUM_GDB:
        wanted = ".".join(str(part) for part in MINIMUM_GDB)
        raise StartError(
            f"{path} is GDB {version[0]}.{version[1]}; at least {wanted} is needed "
            "(pip install 'pgdb-mpi[embedded]' brings one; --gdb names one)"
        )
    return f"{version[0]}.{version[1]}"


def first_words(words: Sequence[str], timeout_s: float, *, errors: bool = False) -> str:
    """Return the first 64 KiB that a program prints, and end the program if it prints more.

    The text is its standard output; with *errors* also its standard error.

    :raises OSError: if it cannot be started.
    :raises TimeoutError: if it neither ends nor prints that much in time.
    """
    found, end_s = b"", time.monotonic() + timeout_s
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if errors else subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        try:
            while len(found) < _MOST_WORDS_BYTES:
                left_s = end_s - time.monotonic()
                if left_s <= 0 or not select.select([process.stdout], [], [], left_s)[0]:
                    raise TimeoutError
                data = os.read(process.stdout.fileno(), _MOST_WORDS_BYTES - len(found))
                if not data:
                    break
                found += data
        finally:
            process.kill()
    return found.decode("utf-8", "replace")


def version_in(text: str) -> tuple[int, int] | None:
    """Return the version in the output of ``gdb --version``, None if there is none.

    >>> version_in("GNU gdb (Debian 13.1-3) 13.1\\nCopyright (C) 2023")
    (13, 1)
    """
    line = text.partition("\n")[0].strip()
    # Most programs print their version in the same way.
    match = _VERSION.search(line) if "gdb" in line.lower() else None
    return (int(match[1]), int(match[2])) if match is not None else None
