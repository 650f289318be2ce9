"""Commands about traces: values that ranks collect at a place and run on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pgdb.errors import UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.commands import breakpoints
from pgdb.frontend.commands.data import read_path
from pgdb.frontend.commands.options import Option, Rest, count, is_number
from pgdb.frontend.commands.table import COMMANDS, Call, Group, Outcome, Shown
from pgdb.frontend.commands.trace_lines import read_trace
from pgdb.frontend.show.json import json_traces
from pgdb.frontend.show.text import render, trace_text
from pgdb.frontend.system.user_files import replace_file
from pgdb.frontend.system.workers import with_file
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Record, Text

if TYPE_CHECKING:
    from pgdb.frontend.commands.dispatch import Dispatcher

_MOST = 1_000_000_000
_MOST_SHOWN = 10_000
_USUAL = 20
_MOST_REPORTED = 1000
_IS_GDBS = (
    "without an expression 'trace' makes a tracepoint of GDB, which only a target with tracing "
    "collects; 'trace LOCATION EXPR' collects the values of EXPR"
)


@COMMANDS.command(
    "trace",
    group=Group.RUNNING,
    usage="trace LOCATION EXPR [, EXPR]... [if COND]",
    summary="collect values at a place, without stopping",
    aliases=("tr", "tra", "trac", "tp"),
    rest=Rest.LOCATION,
    options=(
        Option(
            name="--every",
            value="N",
            help="collect at the first hit and at each N-th one from there on",
            read=count(_MOST),
            default=1,
        ),
        Option(
            name="--first",
            value="N",
            help="collect N rows at most",
            read=count(_MOST),
            default=0,
        ),
    ),
)
async def _trace(call: Call, text: str, *, every: int, first: int) -> Outcome:
    """Collect the values of expressions at each hit of LOCATION. The ranks do not stop.

    The GDB of each rank collects and keeps them; 'traces N' shows them as a table of row by rank,
    also while the ranks run and after their end. Only hits count at which COND is true.

    trace:N:EXPR stands for the numbers of an expression: 'stat trace:1:residual',
    'plot trace:1:residual', 'dump trace:1:residual FILE'.

    'trace LOCATION' without an expression is GDB's own command, which makes a tracepoint.
    """
    found = read_trace(text)
    if not found.expressions:
        if every > 1 or first:
            raise UsageError("trace: --every and --first need expressions: 'trace LOCATION EXPR'")
        made = await breakpoints.insert(call)
        if isinstance(made, Answer) and not made.errors:
            call.session.note(_IS_GDBS)
        return made
    answer = await call.view.trace(
        found.place, *found.expressions, condition=found.condition, every=every, first=first
    )
    placed = [each for each in answer.classes if isinstance(each.filled, Text)]
    if not placed:
        return answer
    trace = call.session.traces[-1]
    collects = ", ".join(trace.expressions)
    lines = [
        f"[{each.ranks}] Trace {trace.number}: {_text(each)}; collects {collects}"
        for each in placed
    ]
    lines += [f"[{each.ranks}] {render.record(each)}" for each in answer.errors]
    text = "\n".join((*lines, *render.missing(answer)))
    return Shown(text, answer=answer, line=json_traces.made(trace, answer, render.record))


def _text(each: EquivalenceClass[Record]) -> str:
    return each.filled.text if isinstance(each.filled, Text) else ""


@COMMANDS.command(
    "traces",
    group=Group.RUNNING,
    usage="traces [N]",
    summary="list traces, or the values of one",
    rest=Rest.OPERAND,
    options=(
        Option(
            name="--last",
            value="K",
            help="show the last K rows that all ranks have",
            read=count(_MOST_SHOWN),
            default=_USUAL,
        ),
        Option(
            name="--from",
            value="ROW",
            help="show the rows from ROW on",
            argument="begin",
            read=count(_MOST),
            default=0,
        ),
        Option(
            name="--csv",
            value="FILE",
            help="write all rows of each rank to a file instead",
            argument="path",
            read=read_path,
        ),
    ),
)
async def _traces(call: Call, text: str, *, last: int, begin: int, path: Path | None) -> Outcome:
    """List the traces, or show the last rows of trace N as a table.

    A cell has one value where all ranks have the same, else each value with its ranks, or the least
    and the greatest one. A row is a hit at which values were collected; --from and --last choose
    rows.
    """
    session = call.session
    if not text:
        if path is not None:
            raise UsageError("traces: --csv needs the number of a trace")
        return list_traces(call, "")
    number = _number(call, text)
    if path is not None:
        data = await call.view.trace_data(number)
        table = data.csv().encode()
        await with_file(path, lambda: replace_file(path, lambda file: file.write(table)))
        rows = sum(map(len, data.by_rank.values()))
        written = f"{path}: {rows} rows of {len(data.by_rank)} ranks"
        answer = data.answer
        return Shown(
            "\n".join((written, *trace_text.without_rows(answer))),
            answer=None if answer.ok else answer,
        )
    table_of = await call.view.trace_table(number, begin=begin - 1 if begin else None, count=last)
    if begin and begin > table_of.most and table_of.answer.ok:
        has = trace_text.rows_text(table_of)
        raise UsageError(f"traces: trace {number} has {has}, and no row {begin}")
    return Shown(
        trace_text.table_text(table_of),
        answer=None if table_of.answer.ok else table_of.answer,
        line=json_traces.trace(table_of, session.all_traces.find(number), render.record),
    )


def list_traces(call: Call, text: str) -> Outcome:
    """List the traces of the selected ranks: all, or those with some numbers."""
    numbers = [_number(call, each) for each in text.replace(",", " ").split()]
    traces = call.session.all_traces
    wanted = [traces.find(each) for each in numbers] if numbers else call.session.traces
    found = [each for each in wanted if each.ranks & call.ranks]
    text = "\n".join(map(trace_text.trace_line, found)) or "there are no traces"
    return Shown(text, line=json_traces.listed(found))


def _number(call: Call, text: str) -> int:
    if not is_number(text):
        word = "info traces" if call.word == "info" else call.word
        raise UsageError(f"{word}: {text!r} is no number of a trace; 'traces' lists them")
    return int(text)


@COMMANDS.command(
    "untrace",
    group=Group.RUNNING,
    usage="untrace [N]...",
    summary="end traces and forget their values",
)
async def _untrace(call: Call) -> Outcome:
    """End the traces with these numbers, or all, on the selected ranks."""
    numbers = [_number(call, each) for each in call.argument.split()]
    return await call.view.untrace(*numbers)


async def report(dispatcher: Dispatcher, asked: RankSet) -> None:
    """Report the rows that traces have collected in a run; as JSON with the rows themselves.

    Rows that not all ranks have come again with the next new ones. Ranks that a condition leaves
    out never have any.
    """
    session, shown = dispatcher.session, dispatcher.workspace.traced_rows
    for each in session.traces:
        ranks = asked & each.ranks
        if not ranks:
            continue
        view, (begin, seen) = session.ranks(ranks), shown.shown(each.number, ranks)
        count = _MOST_REPORTED if dispatcher.display.owns_output else 0
        table = await view.trace_table(each.number, begin=begin, count=count)
        if table.least <= begin and table.most <= seen:
            continue
        complete = min(table.least, begin + len(table.rows)) if count else table.least
        shown.note(each.number, ranks, max(begin, complete), max(seen, table.most))
        text = f"trace {each.number}: {trace_text.rows_text(table)} ('traces {each.number}')"
        line = json_traces.trace(table, each, render.record)
        dispatcher.display.flush()  # the stops come first
        await dispatcher.show(Shown(text, line=line))
