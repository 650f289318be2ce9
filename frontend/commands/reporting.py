"""The command ``report``: what is known of the job, in a file."""

from __future__ import annotations

import shlex

from pgdb.errors import UsageError
from pgdb.frontend.commands.table import COMMANDS, Call, Completes, Group, Outcome
from pgdb.frontend.system.typed_names import typed_path


@COMMANDS.command(
    "report",
    group=Group.SESSION,
    usage="report [FILE …]",
    summary="write a report of the job for people who were not there",
    completes=Completes.FILES,
)
async def _report(call: Call) -> Outcome:
    """Write a report of the job to files; the suffix of each name decides the form.

    .txt, .html and .md are for people, .json, .xml (JUnit) and .sarif for programs. 'pgdb report
    FILE.json -o FILE' makes the others later. Without a file the text is shown.

    A report has a summary (what happened, where, to which ranks), the merged call tree, the ranks
    by stack with source and variables compared across ranks, signals and exit codes, threads, the
    end of the output, the time line, hosts, versions, and the environment without secrets. The
    stacks are those of the selected ranks. Ranks that run are not stopped.
    """
    # Most sessions make no report.
    from pgdb.frontend.report import writing
    from pgdb.frontend.report.reporting import report

    try:
        paths = shlex.split(call.argument)
    except ValueError as error:
        raise UsageError(f"report {call.argument}: {error}") from None
    files = [str(typed_path(each)) for each in paths]
    found = await report(call.session, *files, ranks=call.ranks)
    if not paths:
        return writing.render(found, ".txt").rstrip("\n")
    return "\n".join(f"{path}: report of [{found.ranks}]" for path in paths)
