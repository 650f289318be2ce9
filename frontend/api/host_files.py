"""Files that commands write on the hosts of the ranks: which are there, and copies of them here."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from pgdb.errors import CommandError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.system import deadline
from pgdb.frontend.system.user_files import in_place_of, reason
from pgdb.frontend.system.workers import with_file
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.operations import ReadFile
from pgdb.ranks import RankSet
from pgdb.records import Block, Failure, FileWritten, Record
from pgdb.written_files import HOST, PROCESS, RANK, filled

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

PART_BYTES = 4 << 20
"""Bytes of a file that one answer brings."""


class GatheredFile(msgspec.Struct, frozen=True):
    """A file of a rank's host, copied to the front end's host."""

    rank: int
    host: str
    source: str
    """Path on that host."""
    path: Path
    """The path of the copy."""
    size_bytes: int = 0
    why: str = ""
    """The reason why there is no copy; empty if there is one."""


async def existing(session: Session, name: str, ranks: RankSet) -> RankSet:
    """Return the ranks on whose hosts a file of this name is there."""
    answer = await session.ask("", ReadFile(path=name), ranks, of_ended=True, is_own=True)
    return RankSet.union(each.ranks for each in answer.classes if isinstance(each.record, Block))


async def gather(
    session: Session, said: Answer, ranks: RankSet, directory: Path
) -> list[GatheredFile]:
    """Copy the files that ranks have written, by their answer, to a directory of this host.

    Files of the same name get the number of their rank.

    :raises CommandError: if the directory cannot be made or written to.
    """

    def make() -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(f"{directory}: cannot be made: {reason(error)}") from None

    await with_file(directory, make)
    files = [each for each in _files(session, said.classes, directory) if each.rank in ranks]
    names = [each.path.name for each in files]
    found = []
    for each in files:
        if names.count(each.path.name) > 1:
            each = msgspec.structs.replace(
                each, path=each.path.with_name(f"{each.path.name}.{each.rank}")
            )
        with deadline.renewed():
            found.append(await _copied(session, each))
    return found


def _files(
    session: Session, classes: Iterable[EquivalenceClass[Record]], directory: Path
) -> Iterator[GatheredFile]:
    processes = {each.rank: each.pid for each in session.table.processes}
    for each in classes:
        said = each.filled
        if not isinstance(said, FileWritten):
            continue
        for rank in each.ranks:
            process = said.process if said.process.isdecimal() else str(processes.get(rank, ""))
            values = {RANK: str(rank), HOST: said.host, PROCESS: process}
            name = filled(said.path, values).rpartition("/")[2]
            yield GatheredFile(rank, said.host, said.path, directory / name)


async def _copied(session: Session, file: GatheredFile) -> GatheredFile:
    """Copy one file; return it with its size, or with the reason why it was not copied."""
    try:
        size_bytes = await _copy(session, file)
    except CommandError as error:
        return msgspec.structs.replace(file, why=str(error))
    except OSError as error:
        return msgspec.structs.replace(file, why=f"{file.path}: {reason(error)}")
    return msgspec.structs.replace(file, size_bytes=size_bytes)


async def _copy(session: Session, file: GatheredFile) -> int:
    with contextlib.ExitStack() as stack:
        out: BinaryIO | None = None
        at, size_bytes = 0, 1
        while at < size_bytes:
            block = await _part(session, file, at)
            size_bytes = block.shape[0]
            if out is None:
                place = in_place_of(file.path, mode=0o600)
                out = await with_file(file.path, place.__enter__)
                stack.push(place.__exit__)
            await with_file(file.path, functools.partial(_write, out, block.data))
            at += len(block.data)
            if not block.data and at < size_bytes:
                raise CommandError(f"{file.source}: it has become shorter")
        assert out is not None
        out.truncate(size_bytes)
        # The end of the file can take long: the system writes all of it.
        await with_file(file.path, lambda: stack.pop_all().close(), size_bytes=size_bytes)
    return size_bytes


def _write(out: BinaryIO, data: bytes) -> None:
    # A core file is mostly zeros, which take no room as a gap.
    if data.strip(b"\0"):
        out.write(data)
    else:
        out.seek(len(data), 1)


async def _part(session: Session, file: GatheredFile, start: int) -> Block:
    operation = ReadFile(path=file.source, start=start, most_bytes=PART_BYTES)
    ranks = RankSet([file.rank])
    answer = await session.ask("", operation, ranks, of_ended=True, is_own=True)
    for each in answer.classes:
        if isinstance(each.record, Block):
            return each.record
        if isinstance(each.filled, Failure):
            raise CommandError(each.filled.message)
    absent = "; ".join(session.state.absent(answer.missing.lost))
    raise CommandError(absent or f"rank {file.rank} has not answered in time")
