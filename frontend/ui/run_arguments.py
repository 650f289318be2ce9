"""The command line of ``pgdb run``."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pgdb.errors import UsageError
from pgdb.frontend.analysis.conditions import parse
from pgdb.frontend.api.options import SETTINGS, SessionOptions
from pgdb.frontend.api.setting import Setting
from pgdb.frontend.run.options import THEN, RunOptions
from pgdb.frontend.run.places import Place, pairs_of, read_place
from pgdb.frontend.system.durations import duration
from pgdb.frontend.ui import job_arguments

OPTION_NAMES = {"gdb": "--gdb-program"}
"""Options of settings whose name means something else here."""


def add_options(
    parser: argparse.ArgumentParser, argument: Callable[[Setting], dict[str, Any]]
) -> None:
    """Add the options of ``pgdb run`` to its parser; *argument* returns how a setting is read."""
    add = parser.add_argument
    for each in SETTINGS:
        if each.option and "run" in each.modes:
            add(OPTION_NAMES.get(each.key, each.option), *each.aliases, **argument(each))
    add(
        "-o",
        dest="outputs",
        action="append",
        default=[],
        metavar="FILE",
        help="write the report to FILE, whose suffix decides the form (repeatable)",
    )
    _add_duration(
        add,
        "--hang-after",
        "report when the job makes no progress for so long: 300s, 10m",
    )
    _add_duration(
        add,
        "--before-timeout",
        "report so long before the job's time limit, which the batch system names",
    )
    _add_duration(add, "--wall-time", "the job's time limit, where no batch system names it")
    add(
        "--then",
        choices=THEN,
        default="continue",
        help="after a report: kill the job, let it continue, or hold it for 'pgdb attach' "
        "(%(default)s)",
    )
    job_arguments.add_exit_code(parser, "what has happened, or the job's own")
    add(
        "--gdb",
        dest="with_gdb",
        action="store_true",
        help="run every rank under GDB from its start: the report has the stacks at the moment of "
        "a death",
    )
    add(
        "--break-at",
        dest="breakpoints",
        action="append",
        default=[],
        metavar="LOC[,EXPR…]",
        help="report the expressions each time that a rank comes to the location (repeatable; "
        "implies --gdb)",
    )
    add(
        "--trace-at",
        dest="traces",
        action="append",
        default=[],
        metavar="LOC[,EXPR…]",
        help="as --break-at, without a stop of the rank: LOC,EXPR…[,FIRST:EVERY:COUNT][ if COND] "
        "(repeatable; implies --gdb)",
    )
    add(
        "--check",
        dest="conditions",
        action="append",
        default=[],
        metavar="'EXPR in 0..1'",
        help="a condition that holds on all ranks at the location of --at (repeatable; implies "
        "--gdb)",
    )
    add(
        "--at",
        dest="places",
        action="append",
        default=[],
        metavar="LOC",
        help="the location of a --check",
    )
    _add_duration(add, "--snapshot-every", "report so often, and let the job run on")
    add(
        "--no-watch",
        dest="watch",
        action="store_false",
        help="start no watcher beside each rank; then only the launcher's status is known",
    )
    add(
        "--output-by-rank",
        action="store_true",
        help="keep the end of each rank's output apart for the report; a process beside each rank "
        "passes the output on",
    )
    add(
        "--no-cores",
        dest="cores",
        action="store_false",
        help="leave the limit of core files as it is",
    )
    add(
        "--quiet",
        "-q",
        action="store_true",
        help="print nothing beside the job's output",
    )
    add(
        "line",
        nargs=argparse.REMAINDER,
        metavar="LAUNCHER …",
        help="the launcher's line, as without pgdb; -- before it is allowed",
    )


def _add_duration(add: Callable[..., Any], option: str, text: str) -> None:
    def read(value: str) -> float:
        try:
            return duration(option, value)
        except UsageError as error:
            raise argparse.ArgumentTypeError(str(error).removeprefix(f"{option}: ")) from None

    add(option, type=functools.wraps(duration)(read), default=0.0, metavar="TIME", help=text)


def read_options(parsed: argparse.Namespace, settings: Mapping[str, Any]) -> RunOptions:
    """Return the options of a command line; *settings* are those of sessions.

    :raises UsageError: if options do not go together.
    """
    line = list(parsed.line)
    if line[:1] == ["--"]:
        line = line[1:]
    if not line:
        raise UsageError("run: give the job's line, for example pgdb run -- mpirun -n 4 ./app")
    if parsed.wall_time and not parsed.before_timeout:
        raise UsageError("--wall-time needs --before-timeout TIME: when to report")
    options = RunOptions(
        line=tuple(line),
        session=SessionOptions(**settings),
        outputs=tuple(parsed.outputs),
        hang_after_s=parsed.hang_after,
        before_timeout_s=parsed.before_timeout,
        wall_time_s=parsed.wall_time,
        then=parsed.then,
        exit_code=parsed.exit_code,
        with_gdb=parsed.with_gdb,
        breakpoints=tuple(read_place(each, "--break-at") for each in parsed.breakpoints),
        traces=tuple(read_place(each, "--trace-at", is_trace=True) for each in parsed.traces),
        checks=_checks(parsed.conditions, parsed.places),
        snapshot_every_s=parsed.snapshot_every,
        watch=parsed.watch,
        output_by_rank=parsed.output_by_rank,
        cores=parsed.cores,
        quiet=parsed.quiet,
    )
    if options.needs_gdb and options.then == "hold":
        raise UsageError(
            "--then hold is for runs without GDB: a rank has one debugger; leave out --gdb, "
            "--break-at, --trace-at and --check, or use --then kill"
        )
    if options.output_by_rank and (options.needs_gdb or not options.watch):
        raise UsageError(
            "--output-by-rank needs the watchers of a run without GDB: leave out --no-watch, "
            "--gdb, --break-at, --trace-at and --check"
        )
    return options


def _checks(conditions: Sequence[str], locations: Sequence[str]) -> tuple[Place, ...]:
    """Return the checks.

    :raises UsageError: if a condition cannot be read, or has no location.
    """
    if not conditions and not locations:
        return ()
    if not conditions:
        raise UsageError("--at needs --check 'EXPR in 0..1': the condition that holds there")
    for each in conditions:
        try:
            parse(each)
        except UsageError as error:
            raise UsageError(f"--check {each!r}: {error}") from None
    return pairs_of(conditions, locations)
