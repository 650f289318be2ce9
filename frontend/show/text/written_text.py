"""Text of files that ranks have written."""

from __future__ import annotations

from pgdb.ranks import RankSet
from pgdb.records import FileWritten
from pgdb.written_files import PROCESS, RANK


def written(said: FileWritten, ranks: RankSet) -> str:
    """Return the files of ranks as a shell writes them: ``wrote core.{0..3} on n1``."""
    path = said.path.replace(RANK, braces(ranks)).replace(PROCESS, said.process)
    return "\n".join((f"wrote {path} on {said.host}", *([said.text] if said.text else ())))


def braces(ranks: RankSet) -> str:
    """Return the numbers of ranks, in braces if there are several.

    >>> braces(RankSet.parse("0-3")), braces(RankSet.parse("2")), braces(RankSet.parse("0,4-5"))
    ('{0..3}', '2', '{0,4-5}')
    """
    if len(ranks) < 2:
        return str(ranks)
    first, _, last = str(ranks).partition("-")
    is_range = last.isdecimal() and first.isdecimal()
    return f"{{{first}..{last}}}" if is_range else f"{{{ranks}}}"
