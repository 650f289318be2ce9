"""The programs that ranks execute, compared by their files and not by their names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pgdb.overlay.messages import Console
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import SLOT, Text

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

_EXE = pattern(r"^exe = '(.+)'$", re.M)


async def is_one_program(session: Session, ranks: RankSet) -> bool:
    """Return whether all *ranks* execute one program.

    The job's table has the names from its sources: a launcher's line has ``./app``, and the scan of
    a spawned world has the whole path. Where names differ, the kernel's name of the file decides.
    """
    names = {each.executable for each in session.table.processes if each.rank in ranks}
    if len(names) <= 1:
        return True
    line = "info proc exe"
    answer = await session.ask(line, Console(command=line), ranks)
    paths: set[str] = set()
    seen = RankSet()
    for each in answer.classes:
        found = _EXE.search(each.record.text) if isinstance(each.record, Text) else None
        if found is None or SLOT in found[1]:
            return False
        paths.add(found[1])
        seen |= each.ranks
    return len(paths) == 1 and seen == ranks
