"""Files of saved answers, to compare later answers with.

A file is JSON and holds the whole answer, so that another session on another machine can compare
with it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from pgdb.errors import CommandError, RankSetError, one_line
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.saved import Saved
from pgdb.frontend.system.user_files import read_regular, reason, write_atomically
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.ranks import RankSet, SetsRoom
from pgdb.records import Record

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Maximum size of a file that is read."""
FORMAT = "pgdb-answer"
FORMAT_VERSION = 1
MAX_SETS_BYTES = 256 << 20
"""Maximum memory for the rank sets of one file."""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Contents of a file."""

    format: str
    version: int
    name: str
    job: str
    time_s: float
    command: str
    ranks: RankSet
    classes: tuple[EquivalenceClass[Record], ...]
    missing: Missing
    elapsed_s: float


def write(saved: Saved, path: Path) -> None:
    """Write an answer to a file, atomically.

    :raises CommandError: if the file cannot be written.
    """
    answer = saved.answer
    data = msgspec.json.encode(
        _File(
            format=FORMAT,
            version=FORMAT_VERSION,
            name=saved.name,
            job=saved.job,
            time_s=saved.time_s,
            command=answer.command,
            ranks=answer.ranks,
            classes=answer.classes,
            missing=answer.missing,
            elapsed_s=answer.elapsed_s,
        ),
        enc_hook=_encode,
    )
    try:
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "it is no regular file")
        write_atomically(path, data + b"\n")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {reason(error)}") from None


def read(path: Path) -> Saved:
    """Read an answer that :func:`write` wrote.

    :raises CommandError: if the file cannot be read, or contains no answer.
    """
    try:
        data = read_regular(path, MAX_FILE_BYTES)
        file = msgspec.json.decode(data, type=_File, dec_hook=_decoding(SetsRoom(MAX_SETS_BYTES)))
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {reason(error)}") from None
    except (msgspec.DecodeError, RankSetError, ValueError, RecursionError) as error:
        why = one_line(error)
        raise CommandError(f"{path} is no saved answer of PGDB: {why}") from None
    if file.format != FORMAT or file.version != FORMAT_VERSION:
        raise CommandError(
            f"{path} is a {file.format} of version {file.version}, "
            f"not a {FORMAT} of version {FORMAT_VERSION}"
        )
    answer = Answer(
        command=file.command,
        ranks=file.ranks,
        classes=file.classes,
        missing=file.missing,
        elapsed_s=file.elapsed_s,
    )
    return Saved(name=file.name, answer=answer, time_s=file.time_s, job=file.job)


def _encode(value: Any) -> Any:
    if isinstance(value, RankSet):
        return str(value)
    raise TypeError(f"no JSON form for {type(value).__name__}")


def _decoding(room: SetsRoom) -> Callable[[type, Any], Any]:
    def decode(kind: type, value: Any) -> Any:
        if kind is RankSet and isinstance(value, str):
            return room.take(RankSet.parse(value) if value else RankSet())
        raise TypeError(f"no {kind.__name__} in JSON")

    return decode
