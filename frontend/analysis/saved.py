"""Answers kept under a name, in memory and in files, to compare later ones with.

A file is JSON and says all that the answer does, so that another session, on another machine,
can compare with it.
"""

from __future__ import annotations

import errno
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from pgdb.errors import CommandError, RankSetError, UsageError
from pgdb.frontend.api.answers import Answer
from pgdb.frontend.store.user_files import read_regular, reason, write_atomically
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.patterns import pattern
from pgdb.ranks import RankSet, SetsRoom
from pgdb.records import Block, Record

MOST_SAVED = 100
"""Answers that are kept under names."""
MOST_SAVED_BYTES = 256 * 1024 * 1024
"""What they may take together."""
MAX_FILE_BYTES = 256 * 1024 * 1024
"""Largest file that is read."""
FORMAT = "pgdb-answer"
FORMAT_VERSION = 1
MAX_SETS_BYTES = 256 << 20
"""Most memory that the rank sets of a file may take."""
_NAME = pattern(r"[A-Za-z_]\w*\Z")
_CLASS_BYTES = 200


class Saved(msgspec.Struct, frozen=True):
    """An answer under a name."""

    name: str
    answer: Answer
    time_s: float
    """When it was saved, in seconds since 1970."""
    job: str = ""
    """The job it is from, in words."""
    is_own: bool = False
    """Whether this session has saved it; what a file or a recording says may be anybody's."""


class SavedAnswers:
    """The answers that are kept under names, the oldest first."""

    def __init__(self) -> None:
        self._saved: OrderedDict[str, Saved] = OrderedDict()

    def put(self, saved: Saved) -> Saved | None:
        """Keep an answer; return what had its name before.

        :raises UsageError: if the name is none.
        :raises CommandError: if there are too many already, or they would take too much room.
        """
        if not _NAME.match(saved.name) or saved.name == "all":
            raise UsageError(f"save: {saved.name!r} cannot be a name; use letters and digits")
        others = [each for each in self if each.name != saved.name]
        if len(others) >= MOST_SAVED:
            raise CommandError(
                f"save: {MOST_SAVED} answers are kept already; 'saved -d NAME' forgets one"
            )
        size_bytes = sum(answer_size_bytes(each.answer) for each in (*others, saved))
        if size_bytes > MOST_SAVED_BYTES:
            raise CommandError(
                f"save: with this the saved answers would take {size_bytes >> 20} MiB, more than "
                f"{MOST_SAVED_BYTES >> 20}; 'saved -d NAME' forgets one"
            )
        before = self._saved.pop(saved.name, None)
        self._saved[saved.name] = saved
        return before

    def get(self, name: str) -> Saved | None:
        """Return what was saved under a name, or None."""
        return self._saved.get(name)

    def forget(self, name: str) -> bool:
        """Forget a saved answer; return whether there was one of that name."""
        return self._saved.pop(name, None) is not None

    def __iter__(self) -> Iterator[Saved]:
        return iter(self._saved.values())

    def __len__(self) -> int:
        return len(self._saved)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a file holds."""

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
    """Write an answer to a file, all of it or nothing.

    :raises CommandError: if that cannot be done.
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
    """Read an answer that :func:`write` has written.

    :raises CommandError: if it cannot be read, or is no such file.
    """
    try:
        data = read_regular(path, MAX_FILE_BYTES)
        file = msgspec.json.decode(data, type=_File, dec_hook=_decoding(SetsRoom(MAX_SETS_BYTES)))
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {reason(error)}") from None
    except (msgspec.DecodeError, RankSetError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())  # it quotes what is there, line ends and all
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


def answer_size_bytes(answer: Answer) -> int:
    """Return about how much room an answer takes."""
    return sum(_class_bytes(each) for each in answer.classes)


def _class_bytes(each: EquivalenceClass[Record]) -> int:
    # A dump's bytes need not be copied to be counted.
    record = each.record
    size = len(record.data) if isinstance(record, Block) else len(msgspec.msgpack.encode(record))
    return _CLASS_BYTES + size + sum(map(len, each.slots)) + len(each.ranks.to_bytes())


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
