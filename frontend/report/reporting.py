"""The call that makes a report of a session and writes it."""

from __future__ import annotations

import functools
from pathlib import Path

from pgdb.frontend.api.argument_types import checks_call
from pgdb.frontend.api.session import Session
from pgdb.frontend.report import writing
from pgdb.frontend.report.collect import collect
from pgdb.frontend.report.model import Report
from pgdb.frontend.store.script_calls import JOB, call_text
from pgdb.frontend.system import deadline
from pgdb.frontend.system.workers import with_file
from pgdb.ranks import RankSet


@checks_call
async def report(
    session: Session,
    *paths: Path | str,
    ranks: RankSet | None = None,
    title: str = "",
    watches: bool = False,
    timeout_s: float | None = None,
) -> Report:
    """Return a report of the job, and write it to *paths* in the forms of their suffixes.

    It has the stacks of *ranks*, or of all. Ranks that run are not stopped; the report has nothing
    of their stacks. With *watches*, ranks that wait run for a moment; only that shows whether they
    hang.

    :raises UsageError: if a suffix names no form; no rank is asked then.
    :raises CommandError: if a file cannot be written.
    """
    with deadline.within(timeout_s):
        for path in paths:
            await with_file(Path(path), functools.partial(writing.check, path))
        names = [str(path) for path in paths]
        with session.one_call(f"{JOB}.{call_text('report', *names)}"):
            found = await collect(session, ranks=ranks, title=title, watches=watches)
        for path in paths:
            await writing.write(found, path)
        return found
