"""Commands that write files on the hosts of the ranks, and the one that brings them here."""

from __future__ import annotations

from pathlib import Path

from pgdb.errors import CommandError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api import host_files
from pgdb.frontend.api.exit_status import EXIT_FAILED
from pgdb.frontend.commands.questions import NOT_DONE
from pgdb.frontend.commands.table import COMMANDS, Call, Group, Outcome, need_argument
from pgdb.frontend.system.typed_names import typed_path
from pgdb.ranks import RankSet
from pgdb.records import FileWritten
from pgdb.sizes import size_text
from pgdb.written_files import file_of, for_ranks


async def may_write(call: Call) -> bool:
    """Ask the user before a command of GDB's writes over files that are there.

    As GDB with 'set confirm off', a command that nobody can be asked about writes over them.
    """
    line = for_ranks(call.line, len(call.ranks))
    file = file_of(line)
    if file is None or file.kind != "file" or not call.dispatcher.can_ask:
        return True
    name = line[file.begin : file.end]
    there = await host_files.existing(call.session, name, call.ranks)
    if not there:
        return True
    return await call.dispatcher.confirm(f"{name}: the file of ranks [{there}] exists. Overwrite?")


async def write(call: Call) -> Outcome:
    """Carry out a command of GDB's that writes a file, unless the user keeps a file there."""
    if not await may_write(call):
        return NOT_DONE
    return await call.view.execute_plain(call.line)


@COMMANDS.command(
    "gather",
    group=Group.DATA,
    usage="gather DIR [COMMAND]",
    summary="copy files that the ranks have written to this host",
    is_raw=True,
)
async def _gather(call: Call) -> Outcome:
    """Carry out COMMAND and copy the files that it writes on the hosts of the ranks to DIR, a
    directory of this host: 'gather cores gcore', 'gather out dump binary value u.bin u'.

    Without COMMAND it copies the files that the last command has written. The files on the hosts
    stay. Copies replace files of their names in DIR.
    """
    name, _, command = need_argument(call, "a directory, and a command").partition(" ")
    if command.strip():
        outcome = await call.dispatcher.dispatch(command.strip(), call.ranks)
        await call.dispatcher.show(outcome)
    else:
        outcome = call.workspace.recall(0)
    has_files = isinstance(outcome, Answer) and any(
        isinstance(each.record, FileWritten) for each in outcome.classes
    )
    if not isinstance(outcome, Answer) or not has_files:
        what = f"'{command.strip()}' has" if command.strip() else "the last command has"
        raise CommandError(f"gather: {what} written no file on the hosts of the ranks")
    directory = typed_path(name).absolute()
    files = await host_files.gather(call.session, outcome, call.ranks, directory)
    return _text(call, files, directory)


def _text(call: Call, files: list[host_files.GatheredFile], directory: Path) -> str:
    copied = [each for each in files if not each.why]
    lines = []
    if copied:
        ranks = RankSet(each.rank for each in copied)
        size = size_text(sum(each.size_bytes for each in copied))
        names = [copied[0].path.name, *([copied[-1].path.name] if len(copied) > 1 else ())]
        between = " … " if len(copied) > 2 else ", "
        lines.append(f"[{ranks}] copied to {directory}: {between.join(names)} ({size})")
    failed: dict[str, list[int]] = {}
    for each in files:
        if each.why:
            failed.setdefault(each.why, []).append(each.rank)
    if failed:
        call.dispatcher.worsen(EXIT_FAILED)
    lines += [f"[{RankSet(ranks)}] error: not copied: {why}" for why, ranks in failed.items()]
    return "\n".join(lines)
