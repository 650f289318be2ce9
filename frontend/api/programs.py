"""The programs that ranks execute, compared by their files and not by their names.

The job's table has the names from its sources: a launcher's line has ``./app``, and the scan of a
spawned world has the whole path. Where names differ, the kernel's name of the file decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import Console
from pgdb.patterns import pattern
from pgdb.proctable import ProcTable
from pgdb.ranks import RankSet
from pgdb.records import SLOT, Record, Text

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

_EXE = pattern(r"^exe = '(.+)'$", re.M)
ASK_FILE = Console(command="info proc exe")
"""The question for the file that a rank executes."""


def names_of(table: ProcTable, ranks: RankSet) -> dict[str, RankSet]:
    """Return the ranks by the name that the job's table has for their program."""
    found: dict[str, list[int]] = {}
    for each in table.processes:
        if each.rank in ranks:
            found.setdefault(each.executable, []).append(each.rank)
    return {name: RankSet(members) for name, members in found.items()}


def files_of(classes: Iterable[EquivalenceClass[Record]]) -> dict[str, RankSet]:
    """Return the ranks by the file that they execute, from the answers to :data:`ASK_FILE`.

    Ranks are left out whose file is unknown.
    """
    found: dict[str, RankSet] = {}
    for each in classes:
        match = _EXE.search(each.record.text) if isinstance(each.record, Text) else None
        if match is not None and SLOT not in match[1]:
            found[match[1]] = found.get(match[1], RankSet()) | each.ranks
    return found


async def programs_of(session: Session, ranks: RankSet) -> dict[str, RankSet]:
    """Return *ranks* by the program that they execute.

    Two names of the job's table are one program if the kernel has one file for both.
    """
    names = names_of(session.table, ranks)
    if len(names) <= 1:
        return names
    answer = await session.ask(ASK_FILE.command, ASK_FILE, ranks, is_own=True)
    files = files_of(answer.classes)
    known = RankSet.union(files.values())
    rest = {name: left for name, part in names.items() if (left := part - known)}
    return {**files, **rest}
