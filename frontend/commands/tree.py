"""The merged call tree: ``tree``, also typed as ``where -tree``."""

from __future__ import annotations

import functools
import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis import calltree_text
from pgdb.frontend.analysis.calltree import TreeBy
from pgdb.frontend.api import sampling
from pgdb.frontend.commands.table import COMMANDS, Call, Group, Outcome, Shown
from pgdb.frontend.show.export import tree_files
from pgdb.frontend.show.json import json_lines
from pgdb.frontend.system import durations
from pgdb.frontend.system.user_files import check_place, user_path
from pgdb.frontend.system.workers import with_file

_BY: dict[str, TreeBy] = {each: each for each in get_args(TreeBy)}
_FORMATS = {f"--{each}": each for each in tree_files.FORMATS}
_FLAGS = ("--threads", "--full")
_WITH_VALUE = ("--by", "--samples", "--every", *_FORMATS)


@dataclass(slots=True)
class _Options:
    """What was typed behind ``tree``."""

    by: TreeBy = "function"
    threads: bool = False
    full: bool = False
    samples: int = 1
    every_s: float = 1.0
    files: list[tuple[tree_files.Format, Path]] = field(default_factory=list)


@COMMANDS.command(
    "tree",
    group=Group.STACK,
    usage="tree [OPTION]...",
    summary="show who is where: the merged call tree",
)
async def _tree(call: Call) -> Outcome:
    """Show the stacks of all selected ranks as one tree: a line for each branching point and each
    leaf, with its ranks. Frames between which nothing branches share a line, and of long ones
    those are shown that say most. 'focus @3' takes the ranks of line 3.

    --by WHAT     what tells two frames apart: function (as it is), line, or pc
    --threads     all threads, not only the selected one; where ranks have different numbers
                  of threads at one place, they have lines and numbers of their own below
    --full        show what goes on inside an MPI call as well
    --samples N   take N snapshots of the ranks that run, which run on after each
    --every S     let them run for S seconds between two snapshots (1)
    --dot FILE, --json FILE, --html FILE, --svg FILE, --png FILE
                  write the tree to a file as well; PNG is drawn by Graphviz

    With several snapshots each line says in how many of them it was seen, and below the tree
    stands which ranks were in the same place each time and which have moved.
    """
    return await show(call, call.argument)


async def show(call: Call, argument: str) -> Shown:
    """Carry out ``tree`` with the options that were typed.

    :raises UsageError: if they cannot be understood.
    :raises CommandError: if a file cannot be written, before anything is done. What keeps a
        picture from being drawn is said below the tree.
    """
    options = _parse(argument)
    for _, path in options.files:
        await with_file(path, functools.partial(check_place, path))
    session = call.session
    sampling.check(
        session, call.ranks, by=options.by, samples=options.samples, every_s=options.every_s
    )
    if options.samples > 1:
        call.dispatcher.say(
            f"taking {options.samples} samples, {options.every_s:g} s apart; Ctrl-C gives up and "
            "leaves the ranks as they were"
        )
    found = await sampling.take(
        session,
        call.ranks,
        by=options.by,
        threads=options.threads,
        samples=options.samples,
        every_s=options.every_s,
        fold=not options.full,
    )
    tree = found.tree
    lines = [
        calltree_text.text(
            tree, width=shutil.get_terminal_size().columns, absent=session.state.absent
        )
    ]
    if not tree.nodes and tree.missing.running:
        lines.append(
            "'interrupt' stops them; 'tree --samples 2' and more looks at them while they run"
        )
    if found.ended_early:
        why = "the time is over" if found.is_over else "no rank runs any longer"
        lines.append(f"{tree.samples} of {options.samples} samples: {why}")
    written, failed = [], False
    for kind, path in options.files:
        try:
            if not tree.nodes:
                raise CommandError(f"{path}: not written: no rank has a stack")
            await tree_files.write(tree, kind, path, title=f"tree {argument}".rstrip())
            written.append(str(path))
        except CommandError as error:
            # What was found is shown all the same: it may not come again.
            lines.append(str(error))
            failed = True
    if written:
        lines.append(f"written: {', '.join(written)}")
    return Shown(
        text="\n".join(lines),
        answer=found.answer,
        sets=calltree_text.numbered_sets(tree),
        line=json_lines.tree(tree, f"tree {argument}".rstrip(), 0.0, written),
        failed=failed,
    )


def _parse(argument: str) -> _Options:
    try:
        words = shlex.split(argument)
    except ValueError as error:
        raise UsageError(f"tree: {argument!r}: {error}") from None
    options = _Options()
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        # GDB's own options have one dash.
        name = f"--{name.lstrip('-')}" if name.startswith("-") else name
        if name in _WITH_VALUE and not equals:
            value = next(left, "")
        if name in _WITH_VALUE and not value:
            raise UsageError(f"tree: {name} needs a value")
        if name in _FLAGS and equals:
            raise UsageError(f"tree: {name} takes no value")
        if name == "--threads":
            options.threads = True
        elif name in ("--full", "--full-mpi"):
            options.full = True
        elif name == "--by":
            if value not in _BY:
                raise UsageError(f"tree: --by takes function, line or pc, not {value!r}")
            options.by = _BY[value]
        elif name == "--samples":
            options.samples = _count(value)
        elif name == "--every":
            options.every_s = durations.seconds(value, "tree: --every")
        elif name in _FORMATS:
            options.files.append((_FORMATS[name], user_path(value)))
        else:
            raise UsageError(
                f"tree: no option {word!r}; there are {', '.join((*_FLAGS, *_WITH_VALUE))}"
            )
    return options


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= sampling.MOST_SAMPLES:
        raise UsageError(f"tree: --samples takes 1 to {sampling.MOST_SAMPLES}, not {text!r}")
    return int(text)
