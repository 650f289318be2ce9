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
_QUESTIONS = b"print $_gdb_major*1000+$_gdb_minor\nquit\n"
_ANSWER = pattern(r"(?:^|\) )\$\d+ = (\d{4,6})\s*$")
"""The answer to the first question, behind the prompt."""
DEADLINE_S = 60.0
_MOST_WORDS_BYTES = 1 << 16
_MOST_LINES = 30
"""Lines of ``--version`` in which GDB's version may stand."""


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
    version = version_in(said) or _printed_version(path)
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


def _printed_version(path: str) -> tuple[int, int] | None:
    """Return the version that a program prints as a value, None if it is no GDB.

    A script around GDB need not understand ``--version``, and a debugger derived from GDB may
    print its own name and version alone.
    """
    try:
        said = first_words([path, "-nx", "-q"], DEADLINE_S, given=_QUESTIONS)
    except (OSError, TimeoutError):
        return None
    for line in said.splitlines():
        if match := _ANSWER.search(line):
            return divmod(int(match[1]), 1000)
    return None


def first_words(
    words: Sequence[str], timeout_s: float, *, errors: bool = False, given: bytes = b""
) -> str:
    """Return the first 64 KiB that a program prints, and end the program if it prints more.

    The text is its standard output; with *errors* also its standard error. The program's standard
    input is *given*, at most what a pipe holds.

    :raises OSError: if it cannot be started.
    :raises TimeoutError: if it neither ends nor prints that much in time.
    """
    found, end_s = b"", time.monotonic() + timeout_s
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE if given else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if errors else subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        # select(2) knows no file beyond the first 1024.
        readable = select.poll()
        readable.register(process.stdout, select.POLLIN)
        try:
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError), process.stdin:
                    process.stdin.write(given)
            while len(found) < _MOST_WORDS_BYTES:
                left_s = end_s - time.monotonic()
                if left_s <= 0 or not readable.poll(left_s * 1000):
                    raise TimeoutError
                data = os.read(process.stdout.fileno(), _MOST_WORDS_BYTES - len(found))
                if not data:
                    break
                found += data
        finally:
            process.kill()
    return found.decode("utf-8", "replace")


def version_in(text: str) -> tuple[int, int] | None:
    """Return GDB's version in the output of ``gdb --version``, None if it names none.

    A debugger derived from GDB prints its own name and version first, and GDB's in a later line.

    >>> version_in("GNU gdb (Debian 13.1-3) 13.1\\nCopyright (C) 2023")
    (13, 1)
    >>> version_in("NVIDIA (R) cuda-gdb 12.4\\nBased on GNU gdb 13.2\\nCopyright (C) 2023")
    (13, 2)
    """
    for line in text.splitlines()[:_MOST_LINES]:
        if "GNU gdb" in line and (match := _VERSION.search(line.strip())) is not None:
            return int(match[1]), int(match[2])
    return None
