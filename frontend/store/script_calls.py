"""Requests to ranks as calls of the Python API. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from pgdb.overlay.breakpoint_operations import (
    BreakpointCommands,
    ChangeBreakpoints,
    InsertBreakpoint,
    ListBreakpoints,
    StartTrace,
    StopTrace,
)
from pgdb.overlay.operation import Operation
from pgdb.overlay.operations import (
    Backtrace,
    Console,
    Detach,
    Evaluate,
    Explore,
    Interrupt,
    Kill,
    ListVariables,
    MachineQuery,
    ReadBlock,
    Reattach,
    Reduce,
    Resume,
    Script,
    SelectFrame,
)
from pgdb.overlay.query_options import QueryOptions
from pgdb.ranks import RankSet

JOB = "job"
"""The name of the session in the program."""


def view_text(ranks: RankSet, everyone: RankSet) -> str:
    """Return the expression of the view on some ranks.

    >>> view_text(RankSet([1]), RankSet([0, 1])), view_text(RankSet([0, 1]), RankSet([0, 1]))
    ("job.ranks('1')", 'job')
    """
    return JOB if ranks == everyone else f"{JOB}.ranks({str(ranks)!r})"


def call_text(name: str, *arguments: object, **keywords: object) -> str:
    """Return a call without its object.

    >>> call_text("evaluate", "x", format="x")
    "evaluate('x', format='x')"
    """
    parts = [repr(each) for each in arguments]
    parts += [f"{key}={value!r}" for key, value in keywords.items()]
    return f"{name}({', '.join(parts)})"


def call_of(operation: Operation) -> str:
    """Return the call that sends an operation; empty for one that belongs to PGDB's own work."""
    match operation:
        case Evaluate(expression=expression, format=format, whole=False):
            return call_text("evaluate", expression, **_given(format=format))
        case Backtrace(limit=limit, fold=fold, split=split, threads=threads, offsets=offsets):
            keywords = _given(split=split, threads=threads, offsets=offsets)
            return call_text(
                "backtrace",
                *([limit] if limit else []),
                **({} if fold else {"fold": False}),
                **keywords,
            )
        case ListVariables(which="locals" | "arguments" as which):
            return call_text(which)
        case SelectFrame(command=command):
            return call_text("select_frame", command)
        case Console(command=command) | InsertBreakpoint(command=command):
            return call_text("execute", command)
        case Script(lines=lines):
            return call_text("script", list(lines))
        case MachineQuery(command=command, arguments=arguments, options=options):
            text = call_text("machine_query", command, *([list(arguments)] if arguments else []))
            given = f", options=pgdb.{options!r})" if options != QueryOptions() else ")"
            return text.removesuffix(")") + given
        case Explore(expression=expression, path=path, children_only=True, start=start, most=most):
            return call_text("children", expression, list(path), start=start, count=most)
        case Explore(expression=expression, path=path, depth=depth, most=most):
            return call_text("explore", expression, path=list(path), depth=depth, children=most)
        case Reduce(expression=expression, bins=bins):
            return call_text("stat", expression, **_given(bins=bins))
        case ReadBlock(expression=expression):
            return call_text("array", expression)
        case Resume(command=word, argument=argument):
            return call_text("run", word, *([argument] if argument else []))
        case Interrupt():
            return "interrupt()"
        case Detach():
            return "detach()"
        case Kill():
            return "kill()"
        case Reattach():
            return "reattach()"
        case ChangeBreakpoints(command=command, numbers=numbers, argument=argument):
            return call_text(
                "change_breakpoints", command, list(numbers), *([argument] if argument else [])
            )
        case BreakpointCommands(numbers=numbers, commands=commands):
            return call_text("breakpoint_commands", list(numbers), list(commands))
        case ListBreakpoints(numbers=numbers, kind=kind):
            return call_text("breakpoints", *numbers, **_given(kind=kind))
        case StartTrace(place=place, expressions=expressions) as trace:
            keywords = _given(condition=trace.condition, first=trace.first)
            if trace.every != 1:
                keywords["every"] = trace.every
            return call_text("trace", place, *expressions, **keywords)
        case StopTrace(number=number):
            return call_text("untrace", number)
        case _:
            return ""


def _given(**keywords: object) -> dict[str, object]:
    return {name: value for name, value in keywords.items() if value}


def start_text(
    mode: str,
    argv: tuple[str, ...],
    target: str,
    pids: tuple[str, ...],
    options: Mapping[str, object],
) -> str:
    """Return the first lines of a program, up to the beginning of its calls."""
    words = "".join(f", {name}={value!r}" for name, value in options.items())
    lines = [
        '"""A session of PGDB as a program: the calls that its commands have made."""',
        "",
    ]
    if mode == "launch":
        start = f"pgdb.launch({list(argv)!r}{words})"
        lines += ["import pgdb", ""]
    elif pids:
        start = f'pgdb.attach("", pids={list(pids)!r}{words})'
        lines += ["import pgdb", ""]
    else:
        start = f"pgdb.attach(target{words})"
        lines += [
            "import sys",
            "",
            "import pgdb",
            "",
            "# Another job by its launcher's pid: the one of this session has a pid of its own.",
            f"target = sys.argv[1] if len(sys.argv) > 1 else {target!r}",
            "",
        ]
    lines += [f"with {start} as {JOB}:", f"    print({JOB}.start_answer)", ""]
    return "\n".join(lines)
