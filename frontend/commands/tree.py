"""The merged call tree: ``tree``, also typed as ``where -tree``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from pgdb.errors import CommandError
from pgdb.frontend.analysis import calltree_text
from pgdb.frontend.analysis.call_paths import TreeBy
from pgdb.frontend.api import sampling
from pgdb.frontend.commands.options import FULL, Option, Rest, count
from pgdb.frontend.commands.table import COMMANDS, Call, Group, Outcome, Shown
from pgdb.frontend.show.export import tree_files
from pgdb.frontend.show.json import json_lines
from pgdb.frontend.system.durations import seconds
from pgdb.frontend.system.typed_names import typed_path
from pgdb.frontend.system.user_files import check_place
from pgdb.frontend.system.workers import with_file


def _read_file(kind: tree_files.Format) -> Callable[[str, str], tuple[tree_files.Format, Path]]:
    return lambda title, text: (kind, typed_path(text))


@COMMANDS.command(
    "tree",
    group=Group.STACK,
    summary="show the merged call tree",
    rest=Rest.NOTHING,
    options=(
        Option(name="--threads", help="show all threads, not only the selected one"),
        Option(name="--tasks", help="show the asyncio tasks of Python in place of threads"),
        FULL,
        Option(
            name="--by",
            value="KEY",
            help="the property by which two frames differ: function, line or pc",
            choices=get_args(TreeBy),
            default="function",
        ),
        Option(
            name="--samples",
            value="N",
            help="make N snapshots of the ranks that run; they run on after each",
            read=count(sampling.MOST_SAMPLES),
            default=1,
        ),
        Option(
            name="--every",
            value="S",
            help="let the ranks run for S seconds between two snapshots",
            read=seconds,
            argument="every_s",
            default=1.0,
        ),
        *(
            Option(
                name=f"--{each}",
                value="FILE",
                help=f"write the tree to FILE as well, as {each.upper()}"
                + (" drawn by Graphviz" if each == "png" else ""),
                read=_read_file(each),
                argument="files",
                is_repeated=True,
            )
            for each in tree_files.FORMATS
        ),
    ),
)
async def _tree(
    call: Call,
    *,
    threads: bool,
    tasks: bool,
    full: bool,
    by: TreeBy,
    samples: int,
    every_s: float,
    files: tuple[tuple[tree_files.Format, Path], ...],
) -> Outcome:
    """Show the stacks of all selected ranks as one tree.

    Each branching point and each leaf has a line with its ranks. Frames between which nothing
    branches share a line; a long line shows the most significant frames. 'focus @3' selects the
    ranks of line 3. With --threads, ranks with different numbers of threads at one place have lines
    and numbers of their own below.

    With several snapshots each line shows the number of snapshots that had it; below the tree
    stand the ranks that were in the same place each time, and those that have moved.
    """
    for _, path in files:
        await with_file(path, functools.partial(check_place, path))
    session = call.session
    sampling.check(session, call.ranks, by=by, samples=samples, every_s=every_s)
    if samples > 1:
        call.dispatcher.say(
            f"taking {samples} samples, {every_s:g} s apart; Ctrl-C gives up and "
            "leaves the ranks as they were"
        )
    found = await sampling.take(
        session,
        call.ranks,
        by=by,
        threads=threads,
        tasks=tasks,
        samples=samples,
        every_s=every_s,
        fold=not full,
    )
    tree = found.tree
    width = call.dispatcher.width
    lines = [calltree_text.text(tree, width=width, absent=session.state.absent)]
    if not tree.nodes and tree.missing.running:
        lines.append(
            "'interrupt' stops them; 'tree --samples 2' and more looks at them while they run"
        )
    if found.ended_early:
        why = "the time is over" if found.is_over else "no rank runs any longer"
        lines.append(f"{tree.samples} of {samples} samples: {why}")
    title = f"tree {call.argument}".rstrip()
    written, failed = [], False
    for kind, path in files:
        try:
            if not tree.nodes:
                raise CommandError(f"{path}: not written: no rank has a stack")
            await tree_files.write(tree, kind, path, title=title)
            written.append(str(path))
        except CommandError as error:
            # The tree is shown in any case: the ranks may not come to this state again.
            lines.append(str(error))
            failed = True
    if written:
        lines.append(f"written: {', '.join(written)}")
    return Shown(
        text="\n".join(lines),
        answer=found.answer,
        sets=calltree_text.numbered_sets(tree),
        line=json_lines.tree(tree, title, 0.0, written),
        failed=failed,
    )
