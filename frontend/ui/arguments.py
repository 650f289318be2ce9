"""The command line of ``pgdb``, read and checked."""

from __future__ import annotations

import argparse
import math
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from pgdb.errors import RankSetError, UsageError
from pgdb.frontend.api import gdb_commands
from pgdb.frontend.api.options import WIRE_UPS, SessionOptions
from pgdb.frontend.store.settings import Settings
from pgdb.frontend.system import durations
from pgdb.frontend.ui.batch import Script
from pgdb.overlay.topology import DEFAULT_FAN_OUT
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.version import __version__

_DEFAULTS = SessionOptions()
DEFAULT_SETTLE_S = 1.0
_DAY_S = 24 * 3600
_EPILOG = """examples:
  pgdb launch mpirun -n 4 ./app             debug a new job; all ranks stop in main
  pgdb attach 4711                          debug the running job of mpirun 4711
  pgdb attach 17.0                          debug step 0 of Slurm's job 17
  pgdb jobs                                 list what could be attached to
  pgdb doctor                               what this host lacks, and what to do
  pgdb attach --batch -ex bt 4711           print the merged stacks and leave
  pgdb launch --batch --json -x cmds mpirun -n 4 ./app
  pgdb replay job.pgdb                      look at what 'session save job.pgdb' has written
  pgdb report-bug session.log               pack what a bug report needs, to look through
exit status: 0 all commands worked, 1 a command failed on some rank, 2 usage, 3 the session could
not start, 4 some ranks gave no answer, 5 a rank died of a signal"""


class _Parser(argparse.ArgumentParser):
    """A parser that raises instead of leaving."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see '{self.prog} --help'")


class _Part(argparse.Action):
    """Keeps -x and -ex in the order in which they were given."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if self.dest == "x":
            _check_name(str(values), option_string, self.metavar)
        parts = [*(getattr(namespace, "parts", None) or []), (self.dest, str(values))]
        namespace.parts = parts


class _Named(argparse.Action):
    """Takes a name, which cannot be empty."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if values is not None:  # what was left out
            _check_name(str(values), option_string, self.metavar)
        setattr(namespace, self.dest, values)


def _check_name(name: str, option: str | None, metavar: object) -> None:
    """Check a name on the command line; an empty one is mostly that of a variable without value.

    :raises UsageError: if it is empty.
    """
    if not name.strip():
        where = f"{option} '': a {metavar} is needed, or no {option}"
        raise UsageError(where if option else f"'' is no {metavar}")


class Arguments(msgspec.Struct, frozen=True):
    """The command line, checked."""

    mode: str
    target: str
    """Attach to this; empty to look for a job. For ``replay`` the recording, for ``report-bug`` the
    log."""
    pids: tuple[str, ...]
    line: tuple[str, ...]
    options: SessionOptions
    script: Script
    batch: bool
    json: bool
    settle_s: float | None
    run_timeout_s: float | None
    stdin: str
    exit_code: str
    given: Settings = msgspec.field(default_factory=Settings)
    """Settings that the command line names."""
    output: str = ""
    """The file that ``report-bug`` writes."""


def parse(argv: Sequence[str]) -> Arguments:
    """Read a command line.

    :raises UsageError: if it cannot be read.
    """
    words = list(argv)
    if words and words[0] in ("-p", "--pid", "-pid"):
        words[0] = "attach"
    elif words and words[0].startswith("--pid="):
        words[0:1] = ["attach", words[0].removeprefix("--pid=")]
    parsed = _parser().parse_args(words)
    for name, command in _commands(parsed):
        try:
            gdb_commands.check_text(command)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from None
    if parsed.mode in ("replay", "report-bug"):
        return _without_job(parsed)
    line: list[str] = list(getattr(parsed, "line", []))
    if line[:1] == ["--"]:
        line = line[1:]
    if parsed.mode == "launch" and not line:
        raise UsageError("launch: give the launcher's line, for example mpirun -n 4 ./app")
    if parsed.exit_code == "job" and parsed.mode != "launch":
        raise UsageError("--exit-code=job needs 'launch': an attached job's status is not ours")
    pids: str | None = getattr(parsed, "pids", None)
    if pids is not None and parsed.target:
        raise UsageError("--pids takes the place of the job; give one of them")
    wanted: str | None = getattr(parsed, "ranks", None)
    try:
        ranks = RankSet.parse(wanted) if wanted is not None else None
    except RankSetError as error:
        raise UsageError(f"--ranks: {error}") from None
    if ranks is not None and not ranks:
        raise UsageError(f"--ranks: {wanted} is an empty set")
    timeout_s: float = parsed.timeout or _DEFAULTS.timeout_s
    options = SessionOptions(
        ranks=ranks,
        aggregators=getattr(parsed, "aggregators", _DEFAULTS.aggregators),
        fan_out=getattr(parsed, "fan_out", _DEFAULTS.fan_out),
        gdb=parsed.gdb,
        gdb_commands=tuple(parsed.gdb_command),
        program=getattr(parsed, "program", ""),
        start_timeout_s=parsed.start_timeout,
        timeout_s=timeout_s,
        grace_s=parsed.grace,
        listen=parsed.listen,
        connect=parsed.connect,
        host=parsed.host,
        ssh=_words("--ssh", parsed.ssh),
        overlay_launcher=_words("--overlay-launcher", parsed.overlay_launcher),
        remote_python=parsed.remote_python,
        ship=parsed.ship,
        wire_up=parsed.wire_up,
        nursery=not parsed.no_nursery,
        guard=parsed.guard,
        sbd=parsed.sbd,
        sbd_cache=_sbd_cache(parsed),
        sbd_cache_bytes=parsed.sbd_cache_size << 20,
        sbd_cache_age_s=parsed.sbd_cache_age * _DAY_S,
        sbd_wait_s=parsed.sbd_wait,
        stop_on_error=not parsed.no_stop_on_error,
        log=parsed.log,
        log_values=parsed.log_values,
        record=parsed.record,
        verbose=parsed.verbose,
    )
    batch = parsed.batch or parsed.json
    settle_s = parsed.settle if parsed.settle is not None else None if batch else DEFAULT_SETTLE_S
    return Arguments(
        mode=parsed.mode,
        target=getattr(parsed, "target", "") or "",
        pids=_read_pids(pids) if pids is not None else (),
        line=tuple(line),
        options=options,
        script=Script(parsed.parts),
        batch=batch,
        json=parsed.json,
        settle_s=settle_s,
        run_timeout_s=timeout_s if batch else None,
        stdin=getattr(parsed, "stdin", ""),
        exit_code=parsed.exit_code,
        given=Settings(
            settle_s=parsed.settle,
            timeout_s=parsed.timeout,
            stop_on_error=False if parsed.no_stop_on_error else None,
        ),
    )


def _commands(parsed: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Return the commands of a line, and by which options they were given."""
    for kind, value in getattr(parsed, "parts", ()):
        if kind == "ex":
            yield "-ex", value
    for command in getattr(parsed, "gdb_command", ()):
        yield "--gdb-command", command


def _without_job(parsed: argparse.Namespace) -> Arguments:
    """Return the arguments of what needs neither a job nor a session."""
    return Arguments(
        mode=parsed.mode,
        target=parsed.target or "",
        pids=(),
        line=(),
        options=SessionOptions(),
        script=Script(getattr(parsed, "parts", ())),
        batch=getattr(parsed, "batch", False) or getattr(parsed, "json", False),
        json=getattr(parsed, "json", False),
        settle_s=None,
        run_timeout_s=None,
        stdin="",
        exit_code="pgdb",
        output=getattr(parsed, "output", ""),
    )


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="pgdb",
        description="A parallel debugger for MPI programs: one GDB per rank, one merged answer.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pgdb {__version__}")
    modes = parser.add_subparsers(
        dest="mode", required=True, metavar="attach|launch|jobs|doctor|replay|report-bug"
    )
    scripted = _scripted()
    common = _common(scripted)
    attaching = modes.add_parser(
        "attach", parents=[common], allow_abbrev=False, help="debug a running job"
    )
    attaching.add_argument("--ranks", metavar="SET", help="attach to these ranks only: 0-3,8")
    attaching.add_argument(
        "--pids",
        metavar="LIST",
        help="the job's ranks by hand: PID or HOST:PID with commas between, a file, or - for ours",
    )
    attaching.add_argument(
        "--program",
        action=_Named,
        metavar="NAME",
        default="",
        help="the ranks' program, where wrappers run it",
    )
    attaching.add_argument(
        "target",
        nargs="?",
        default="",
        type=_target,
        metavar="JOB",
        help="pid of mpirun, mpiexec or srun, or of a rank; or JOB[.STEP] of Slurm's; "
        "without it the one job there is",
    )
    launching = modes.add_parser(
        "launch", parents=[common], allow_abbrev=False, help="start a job under the debugger"
    )
    launching.add_argument(
        "--stdin",
        action=_Named,
        metavar="FILE",
        default="",
        help="the job's input: a file, or - for ours",
    )
    launching.add_argument(
        "--program",
        action=_Named,
        metavar="NAME",
        default="",
        help="stop in this program, not in what runs it",
    )
    launching.add_argument(
        "line", nargs=argparse.REMAINDER, metavar="LAUNCHER …", help="as without pgdb"
    )
    modes.add_parser("jobs", parents=[common], allow_abbrev=False, help="list running jobs")
    modes.add_parser(
        "doctor", parents=[common], allow_abbrev=False, help="what is missing, and what to do"
    )
    replaying = modes.add_parser(
        "replay", parents=[scripted], allow_abbrev=False, help="look at a recording, without a job"
    )
    replaying.add_argument(
        "target", metavar="FILE", action=_Named, help="what 'session save' has written"
    )
    reporting = modes.add_parser(
        "report-bug", allow_abbrev=False, help="pack a log and versions, for a bug report"
    )
    reporting.add_argument(
        "target",
        action=_Named,
        nargs="?",
        metavar="LOG",
        help="what --log has written",
    )
    reporting.add_argument(
        "-o",
        action=_Named,
        dest="output",
        default="",
        metavar="FILE",
        help="write it to FILE, a .tar.gz",
    )
    return parser


def _scripted() -> _Parser:
    scripted = _Parser(add_help=False, allow_abbrev=False)
    add = scripted.add_argument
    scripted.set_defaults(parts=[])
    add("-x", action=_Part, metavar="FILE", help="carry out the commands in FILE (repeatable)")
    add("-ex", action=_Part, metavar="COMMAND", help="carry out COMMAND (repeatable)")
    add("--batch", "-batch", action="store_true", help="leave after the commands; no prompt")
    add("--json", action="store_true", help="one JSON object per line on stdout (with --batch)")
    return scripted


def _common(scripted: _Parser) -> _Parser:
    common = _Parser(add_help=False, allow_abbrev=False, parents=[scripted])
    add = common.add_argument
    add("--timeout", type=_seconds, metavar="SECONDS",
        help="longest wait for answers, and in batch for ranks to stop "
        f"({_DEFAULTS.timeout_s:g})")  # fmt: skip
    add("--start-timeout", type=_seconds, default=_DEFAULTS.start_timeout_s, metavar="SECONDS",
        help="longest time for the session to start (%(default)g)")  # fmt: skip
    add("--settle", type=_seconds, metavar="SECONDS",
        help="once a rank has stopped, wait this long for others (1 at the prompt)")  # fmt: skip
    add("--aggregators", type=int, default=_DEFAULTS.aggregators, metavar="N",
        help="aggregators on each host (%(default)d)")  # fmt: skip
    add("--fan-out", type=int, default=DEFAULT_FAN_OUT, metavar="K",
        help="children of one aggregator (%(default)d)")  # fmt: skip
    add(
        "--gdb",
        action=_Named,
        default=_DEFAULTS.gdb,
        metavar="GDB",
        help="the GDB to run (%(default)s)",
    )
    add("--gdb-command", action="append", default=[], metavar="COMMAND",
        help="GDB command for every rank before it is taken hold of (repeatable)")  # fmt: skip
    add("--listen", action=_Named, default="", metavar="ADDRESS",
        help="address of this host that the job's hosts can reach")  # fmt: skip
    add("--connect", action="store_true",
        help="call the aggregators, where their hosts cannot reach this one")  # fmt: skip
    add("--host", action=_Named, default="", metavar="HOST",
        help="look for jobs, and start aggregators, on HOST, over ssh")  # fmt: skip
    add("--ssh", action=_Named, default=os.environ.get("PGDB_SSH", "ssh"), metavar="COMMAND",
        help="the ssh to use, with its options (PGDB_SSH; %(default)s)")  # fmt: skip
    add("--overlay-launcher", action=_Named, default="", metavar="COMMAND",
        help="start the aggregators with this launcher and options, or with ssh")  # fmt: skip
    add("--remote-python", action=_Named, default="", metavar="PATH",
        help="Python for the aggregators, on other hosts too (ours)")  # fmt: skip
    add("--ship", action="store_true", help="send PGDB to hosts that do not have it")
    add("--wire-up", choices=WIRE_UPS, default="auto",
        help="how aggregators learn of each other (%(default)s)")  # fmt: skip
    add("--no-nursery", action="store_true",
        help="start each rank's GDB anew, do not fork it from one with the symbols")  # fmt: skip
    add("--guard", action="store_true",
        help="ranks survive a GDB's end at any breakpoint: docs/reference/faults.md")  # fmt: skip
    add("--sbd", action="store_true",
        help="bring executables, libraries and debug files to the hosts, read once")  # fmt: skip
    add("--sbd-cache", action=_Named, metavar="DIR",
        help="where hosts keep them (PGDB_SBD_CACHE; /tmp/pgdb-sbd-UID)")  # fmt: skip
    add("--sbd-cache-size", type=_mebibytes, default=_DEFAULTS.sbd_cache_bytes >> 20, metavar="MIB",
        help="most that a host keeps (%(default)d)")  # fmt: skip
    add(
        "--sbd-cache-age",
        type=_days,
        default=_DEFAULTS.sbd_cache_age_s / _DAY_S,
        metavar="DAYS",
        help="what was not used for so long is removed (%(default)g)",
    )
    add("--sbd-wait", type=_seconds, default=_DEFAULTS.sbd_wait_s, metavar="SECONDS",
        help="how long a rank waits for its files, then GDB reads them (%(default)g)")  # fmt: skip
    add("--grace", type=_seconds, default=_DEFAULTS.grace_s, metavar="SECONDS",
        help="how long aggregators keep ranks without a front end (%(default)g)")  # fmt: skip
    add("--no-stop-on-error", action="store_true",
        help="do not interrupt a run when one of its ranks gets a fatal signal")  # fmt: skip
    add("--exit-code", choices=("pgdb", "job"), default="pgdb",
        help="exit with our status, or with the launched job's (%(default)s)")  # fmt: skip
    add("--log", action=_Named, default="", metavar="FILE",
        help="log requests, answers and times, but no values; for bug reports")  # fmt: skip
    add("--log-values", action="store_true", help="log values and program arguments, too")
    add("--record", action=_Named, default="", metavar="FILE",
        help="write a recording, also if pgdb is killed; 'pgdb replay' opens it")  # fmt: skip
    add("--verbose", "-v", action="store_true", help="tell every step of the start")
    return common


_TARGET = pattern(r"[1-9]\d*(?:_\d+)?(?:\.\w+)?\Z")


def _target(text: str) -> str:
    if text and not _TARGET.match(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no process id and no JOB[.STEP] of Slurm's; see 'pgdb jobs'"
        )
    return text


def _sbd_cache(parsed: argparse.Namespace) -> str:
    """Return the cache that was named; PGDB_SBD_CACHE is for whatever session needs one."""
    if parsed.sbd_cache is None:
        return os.environ.get("PGDB_SBD_CACHE", "")
    if not parsed.sbd:
        raise UsageError("--sbd-cache needs --sbd")
    return str(parsed.sbd_cache)


def _words(option: str, text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from None


def _read_pids(text: str) -> tuple[str, ...]:
    """Return the entries of a list, of a file, or of our standard input."""
    if text == "-":
        text = sys.stdin.read()
    elif "/" in text or os.path.isfile(text):
        try:
            text = Path(text).read_text("utf-8")
        except (OSError, UnicodeError) as error:
            raise UsageError(f"--pids {text}: {error}") from None
    entries = tuple(text.replace(",", " ").split())
    if not entries:
        raise UsageError("--pids has no process in it; write for example 4711,node2:812")
    return entries


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not durations.is_time(value):
        raise argparse.ArgumentTypeError(f"{text!r} is no time; {durations.in_words()} is one")
    return value


def _days(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not durations.is_time(value * _DAY_S):
        most = f"{durations.MOST_S / _DAY_S:.0f}"
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days above 0, up to {most}")
    return value


def _mebibytes(text: str) -> int:
    # Some more than any file system holds.
    if not (text.isascii() and text.isdigit() and len(text) < 13 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of MiB above 0")
    return int(text)
