"""Commands that keep answers: save, saved."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.cut_parts import before_parts, is_kept_as_hashes
from pgdb.frontend.analysis.full_answers import in_full
from pgdb.frontend.analysis.saved import Saved
from pgdb.frontend.analysis.whole_values import MOST_PRINTED, is_known, is_partial
from pgdb.frontend.api import verdicts
from pgdb.frontend.commands import written
from pgdb.frontend.commands.command_files import save_breakpoints
from pgdb.frontend.commands.options import Option, Rest, is_number
from pgdb.frontend.commands.table import COMMANDS, Call, Group, Outcome
from pgdb.frontend.show.text import layout
from pgdb.frontend.store import saved_files
from pgdb.frontend.system.typed_names import typed_path
from pgdb.frontend.system.workers import with_file
from pgdb.ranks import RankSet
from pgdb.records import Failure, Various


@COMMANDS.command(
    "save",
    group=Group.DATA,
    usage="save NAME [EXPR | N]",
    summary="keep an answer for later comparisons; save breakpoints",
    needs="a name",
    options=(
        Option(
            name="-o",
            value="FILE",
            help="write it to a file as well, which 'compare' reads in any session; without EXPR "
            "and N, write the answer that NAME has",
            argument="file",
            default="",
            takes_line=True,
            needs="a FILE: 'save NAME -o FILE'",
        ),
    ),
)
async def _save(call: Call, text: str, *, file: str) -> Outcome:
    """Keep the last answer, answer N, or the answer to 'print EXPR' under a name.

    'compare EXPR with NAME' then shows the changes. 'expand -l' lists the answers and
    their numbers. 'save NAME EXPR' keeps a hash of each long part of a structure:
    'compare' then names the parts that have changed. 'save NAME EXPR' of such a part
    keeps its elements.

    'save breakpoints FILE' writes the breakpoints of all ranks to FILE, in GDB's format: places,
    conditions, commands, ignore counts, and in comments the ranks of those that not all have.
    'source FILE' sets them in any session of PGDB or GDB. Hit counts are not saved.

    'save tracepoints FILE' and 'save gdb-index DIR' are GDB's: each of several ranks writes a file
    FILE.RANK, or into a directory DIR.RANK, on its host.
    """
    name, _, source = text.partition(" ")
    source = source.strip()
    if _is_of_gdb(name, "breakpoints", 5):
        return await save_breakpoints(call, source)
    if _is_of_gdb(name, "tracepoints", 5) or _is_of_gdb(name, "gdb-index", 3):
        if not source:
            raise UsageError(f"'save {name}' needs a FILE")
        return await written.write(call)
    session, workspace = call.session, call.workspace
    before = workspace.saved.get(name)
    if file and not source:
        if before is None:
            raise CommandError(
                f"save: nothing is saved as {name!r} ({_names(call)}); "
                f"'save {name} EXPR -o {file}' saves a value"
            )
        await _write(before, file)
        return f"{name} is written to {file}"
    if is_number(source) or not source:
        answer = await _recalled(call, name, int(source or 0))
    else:
        answer = await verdicts.evaluate_to_keep(session, source, call.ranks)
        answer = await verdicts.look(session, answer)
        if not answer.classes or all(each.is_error for each in answer.classes):
            return answer  # says why there is nothing to save
    made = Saved(name, answer, time.time(), session.description, is_own=True)
    replaced = workspace.saved.put(made)
    lines = [f"{name}: {_described(made)}"]
    if replaced is not None:
        lines.append(f"(in place of {_described(replaced)})")
    is_expression = bool(source) and not is_number(source)
    looks_at_more = "" if is_expression else f"; 'save {name} EXPR' looks at more"
    lines += _limits_of(answer, session.state.live, looks_at_more)
    if file:
        try:
            await _write(made, file)
        except CommandError as error:
            raise CommandError(f"{error}; it is saved as {name} in this session only") from None
        lines.append(f"written to {file}")
    return "\n".join(lines)


async def _recalled(call: Call, name: str, number: int) -> Answer:
    """Return an earlier answer with its values in full; 0 stands for the last one.

    :raises CommandError: if there is nothing in it to save.
    """
    kept = call.workspace.recall(number)
    word, _, expression = kept.command.partition(" ")
    if word in ("stat", "plot"):
        has = "summed up" if word == "stat" else "drawn"
        raise CommandError(f"save: '{word}' has only {has}; write 'save {name} {expression}'")
    answer = await in_full(before_parts(kept), call.session.recall)
    # A value that has changed since then is not taken for it: its hash differs.
    answer = await verdicts.look(call.session, answer, most_elements=MOST_PRINTED)
    if all(each.is_error for each in answer.classes):
        raise CommandError(f"save: '{kept.command}' has failed, there is nothing to save")
    return answer


def _limits_of(answer: Answer, live: RankSet, looks_at_more: str) -> Iterator[str]:
    """Yield a line for each thing that a saved answer lacks."""
    if lost := _summed_up(answer) | (answer.missing.lost & live):
        yield f"{layout.brackets(lost)} not saved: their values are no longer kept"
    for each in answer.classes:
        if isinstance(each.record, Failure):
            yield f"{layout.brackets(each.ranks)} not saved: {each.record.message}"
    if hashed := RankSet.union(
        each.ranks for each in answer.classes if is_kept_as_hashes(each.record)
    ):
        yield (
            f"{layout.brackets(hashed)} long parts are saved as hashes, which show whether they "
            "change; 'save NAME EXPR' of one part saves its elements"
        )
    if partial := RankSet.union(
        each.ranks
        for each in answer.classes
        if is_partial(each.record) or not is_known(each.record)
    ):
        yield (
            f"{layout.brackets(partial)} saved in part, as far as it was looked at{looks_at_more}"
        )


def _is_of_gdb(name: str, word: str, least: int) -> bool:
    """Return whether *name* is a subcommand of GDB's 'save', with at least *least* letters."""
    return len(name) >= least and word.startswith(name)


@COMMANDS.command(
    "saved",
    group=Group.DATA,
    summary="list the saved answers",
    rest=Rest.NOTHING,
    options=(
        Option(
            name="-d",
            value="NAME",
            help="forget the answer NAME",
            argument="forgotten",
            completes=lambda workspace: [each.name for each in workspace.saved],
            needs="the name of a saved answer",
        ),
    ),
)
async def _saved(call: Call, *, forgotten: str | None) -> Outcome:
    """List the answers that 'save' has kept, the oldest first."""
    if forgotten is not None:
        if not call.workspace.saved.forget(forgotten):
            raise CommandError(f"saved: there is no answer {forgotten!r} ({_names(call)})")
        return None
    lines = [f"{each.name}: {_described(each)}" for each in call.workspace.saved]
    return "\n".join(lines) or "nothing is saved"


async def find_saved(call: Call, name: str) -> Saved | None:
    """Return the saved answer of a name or file; None for a text that must be a rank set.

    :raises CommandError: if a file cannot be read.
    """
    if (kept := call.workspace.saved.get(name)) is not None:
        return kept
    # "0-8/2" is a rank set, and no set has a name with a dot.
    if re.search(r"\.[A-Za-z]", name) or name.startswith(("/", "./", "../", "~")):
        # A thread: the file can have some MB on a remote file system, and links need heartbeats.
        path = typed_path(name)
        return await with_file(path, lambda: saved_files.read(path))
    if re.match(r"[A-Za-z_]\w*\Z", name) and name != "all":
        raise CommandError(f"compare: no answer is saved as {name!r} ({_names(call)})")
    return None


async def _write(kept: Saved, file: str) -> None:
    path = typed_path(file)
    await with_file(path, lambda: saved_files.write(kept, path))


def _names(call: Call) -> str:
    return ", ".join(each.name for each in call.workspace.saved) or "nothing is saved"


def _described(kept: Saved) -> str:
    answer = kept.answer
    count = len(answer.classes)
    when = time.strftime("%H:%M:%S", time.localtime(kept.time_s))
    return (
        f"'{answer.command}' on {layout.brackets(answer.ranks)}, "
        f"{count} {'class' if count == 1 else 'classes'}, {when}"
    )


def _summed_up(answer: Answer) -> RankSet:
    return RankSet.union(each.ranks for each in answer.classes if isinstance(each.record, Various))
