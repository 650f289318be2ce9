"""The command line: argv to a session and one of its user interfaces. The only ``sys.exit``."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import math
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from pgdb import corefiles
from pgdb.controls import HarmlessFormatter, harmless
from pgdb.errors import CommandError, PgdbError, RankSetError, StartError, UsageError
from pgdb.frontend import times
from pgdb.frontend.batch import BatchText, JsonDisplay, Script, complain_of_rest, run_script
from pgdb.frontend.display import StartProgress
from pgdb.frontend.lookout import choose_job, look
from pgdb.frontend.options import WIRE_UPS, SessionOptions
from pgdb.frontend.recording.replay import RecordedSession, replay
from pgdb.frontend.recording.settings import Settings, read_settings, settings_path
from pgdb.frontend.session import Session, Told
from pgdb.frontend.shell import EXIT_OK, EXIT_START, EXIT_USAGE, Quit, Shell
from pgdb.frontend.starting.start import attach, launch
from pgdb.frontend.text import render
from pgdb.frontend.threads import beside
from pgdb.overlay.topology import DEFAULT_FAN_OUT
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.version import __version__

if TYPE_CHECKING:
    from pgdb.frontend.repl import Repl

_DEFAULTS = SessionOptions()
DEFAULT_SETTLE_S = 1.0
_DAY_S = 24 * 3600
_TELL_S = 1.0
"""After this the user is told what is waited for before the start."""
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


def run() -> None:
    """Be the program ``pgdb``."""
    status = main(sys.argv[1:])
    with contextlib.suppress(OSError, ValueError):  # the usual way to leave tells of a lost output
        sys.stdout.flush()
        sys.stderr.flush()
        # Everything is closed; taking the interpreter apart would only keep the user waiting.
        os._exit(status)
    sys.exit(status)


def main(argv: Sequence[str]) -> int:
    """Run PGDB with a command line; return the exit status."""
    try:
        arguments = parse(argv)
    except UsageError as error:
        _complain(str(error))
        return EXIT_USAGE
    _begin_logging(arguments.options)
    try:
        if arguments.mode == "report-bug":
            from pgdb.frontend.recording.bugreport import report_bug

            return asyncio.run(report_bug(arguments.target, arguments.output))
        if arguments.mode in ("jobs", "doctor"):
            return asyncio.run(look(arguments.mode, arguments.options, as_json=arguments.json))
        if arguments.mode != "replay":
            corefiles.leave_none()
        return asyncio.run(_Program(arguments).run())
    except PgdbError as error:
        _complain(str(error))
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_START
    except (KeyboardInterrupt, asyncio.CancelledError):
        _complain("interrupted")
        return EXIT_START
    except BrokenPipeError:
        # Whoever read our output has left; the session has been closed on the way here.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK


def _begin_logging(options: SessionOptions) -> None:
    level = logging.INFO if options.verbose else logging.ERROR
    _log_to_stderr(level)
    if options.log:
        # The log takes more than the terminal.
        for handler in logging.getLogger().handlers:
            handler.setLevel(level)
        logging.getLogger("pgdb").setLevel(logging.INFO)


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


def _without_job(parsed: argparse.Namespace) -> Arguments:
    """Return the arguments of what needs neither a job nor a session."""
    return Arguments(
        mode=parsed.mode,
        target=parsed.target,
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
        "target", nargs="?", default="", metavar="LOG", help="what --log has written"
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
        help="ranks survive a GDB's end at any breakpoint, see docs/faults.md")  # fmt: skip
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
    if not times.is_time(value):
        raise argparse.ArgumentTypeError(f"{text!r} is no time; {times.in_words()} is one")
    return value


def _days(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not times.is_time(value * _DAY_S):
        most = f"{times.MOST_S / _DAY_S:.0f}"
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days above 0, up to {most}")
    return value


def _mebibytes(text: str) -> int:
    # Some more than any file system holds.
    if not (text.isascii() and text.isdigit() and len(text) < 13 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of MiB above 0")
    return int(text)


class _Program:
    """One run of the program."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._display: BatchText | JsonDisplay = (
            JsonDisplay(sys.stdout) if arguments.json else BatchText()
        )
        self._progress = StartProgress(sys.stderr, verbose=arguments.options.verbose)
        self._session: Session | None = None
        self._shell: Shell | None = None
        self._repl: Repl | None = None
        self._show_told = self._display.told
        self._early: list[Told] = []
        self._job_code: int | None = None

    async def run(self) -> int:
        """Start the session, serve the user, end the session; return the exit status."""
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Only this task: the links must live until the session has been closed over them.
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        time_keeper = asyncio.create_task(self._progress.keep_time())
        try:
            session = await self._start()
        except PgdbError as error:
            self._progress.end()
            if self._arguments.json:
                for told in self._early:
                    self._display.told(told)
                self._display.error(error, "")
                status = EXIT_USAGE if isinstance(error, UsageError) else EXIT_START
                assert isinstance(self._display, JsonDisplay)
                self._display.end(status)
            _complain(str(error))
            return EXIT_USAGE if isinstance(error, UsageError) else EXIT_START
        finally:
            time_keeper.cancel()
        self._session = session
        kill: bool | None = None
        try:
            kill = await self._serve(session)
        except Exception as error:
            if session.log is not None:
                session.log.failed(error)
            raise
        finally:
            closing = asyncio.create_task(session.close(kill=kill))
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(closing)
            try:
                await closing
            finally:
                # Ranks are not held for what was typed.
                if self._repl is not None:
                    await self._repl.close()
        if (leftover := session.leftover_output) is not None:
            sys.stderr.write(f"the job runs on; what it prints from now on goes to {leftover}\n")
        status = self._shell.status if self._shell is not None else EXIT_OK
        if self._arguments.exit_code == "job" and session.job is not None:
            # A launcher that we have killed ends with a status too, and never with success.
            code = session.job.process.returncode if self._job_code is None else self._job_code
            if code is not None:
                status = code if code >= 0 else 128 - code
        if isinstance(self._display, JsonDisplay):
            self._display.end(status)
        return status

    async def _start(self) -> Session:
        arguments = self._arguments
        step = self._progress.step
        if arguments.mode == "replay":
            return await replay(arguments.target, listener=self._told)
        if arguments.mode == "attach":
            target = arguments.target
            if not target and not arguments.pids:
                target = await choose_job(arguments.options, asks=not arguments.batch)
            session = await attach(
                target,
                arguments.options,
                pids=arguments.pids,
                on_step=step,
                listener=self._told,
            )
        else:
            stdin = await self._stdin()
            try:
                session = await launch(
                    arguments.line,
                    arguments.options,
                    stdin=stdin,
                    on_step=step,
                    listener=self._told,
                )
            finally:
                if stdin is not None and stdin > 2:
                    os.close(stdin)
        self._progress.end()
        return session

    async def _stdin(self) -> int | None:
        """Return the descriptor for the job's input, None for a pipe that the prompt feeds."""
        wanted = self._arguments.stdin
        if wanted == "-":
            return sys.stdin.fileno()
        if wanted:
            return await self._open_input(wanted)
        if self._arguments.batch:
            return os.open(os.devnull, os.O_RDONLY)
        return None

    async def _open_input(self, name: str) -> int:
        """Open a file for the job's input; a named pipe waits for its writer, as in a shell.

        Opened without waiting, a pipe that has no writer yet would be at its end for the job.

        :raises UsageError: if it cannot be opened.
        :raises StartError: if it is not open by the deadline of the start.
        """
        limit_s = self._arguments.options.start_timeout_s
        why = ""

        def open_it() -> int:
            nonlocal why
            if Path(name).is_fifo():
                why = ": no program has opened the named pipe for writing"
            return os.open(name, os.O_RDONLY)

        def tell() -> None:
            self._progress.step(f"note: --stdin {name} is not open yet{why}")

        telling = asyncio.get_running_loop().call_later(_TELL_S, tell)
        try:
            async with asyncio.timeout(limit_s) as limit:
                return await beside(open_it, name="stdin")
        except OSError as error:
            if limit.expired():
                raise StartError(
                    f"--stdin {name} could not be opened within {limit_s:g} s{why}; "
                    "--start-timeout gives it longer"
                ) from None
            raise UsageError(f"--stdin {name}: {error.strerror}") from None
        finally:
            telling.cancel()

    async def _serve(self, session: Session) -> bool | None:
        arguments = self._arguments
        if arguments.batch:
            shell = self._shell = Shell(
                session,
                self._display,
                read_line=arguments.script.read,
                settle_s=arguments.settle_s,
                run_timeout_s=arguments.run_timeout_s,
            )
            self._take_up(session, shell)
            shell.apply(arguments.given)
            self._introduce(session)
            self._display.flush()
            kill = await run_script(shell, arguments.script)
            self._display.close()
            return kill
        # prompt_toolkit takes a while to import, and batch mode has no use for it.
        from pgdb.frontend.repl import Repl

        repl = self._repl = Repl(session, settle_s=arguments.settle_s or DEFAULT_SETTLE_S)
        self._shell = repl.shell
        self._show_told = repl.told
        self._take_up(session, repl.shell)
        self._introduce(session)
        if not session.is_recorded:
            self._use_kept_settings(session, repl.shell)
        repl.display.flush()
        try:
            while (line := await arguments.script.read("")) is not None:
                try:
                    await repl.carry_out(line)
                except Quit as leaving:
                    await complain_of_rest(repl.shell, arguments.script, leaving)
                    return leaving.kill
            kill = await repl.run()
        finally:
            repl.leave()
        kills = session.kills_at_close if kill is None else kill
        if not session.job_has_ended and not session.is_recorded and not session.all_have_ended:
            repl.display.text("killing the job" if kills else "leaving the job running")
        return kill

    def _take_up(self, session: Session, shell: Shell) -> None:
        """Let recordings have what the shell keeps, and the shell what a recording has."""
        session.recorder.describe_shell = lambda: shell.kept
        if isinstance(session, RecordedSession):
            shell.take_over(session.shell_state)

    def _use_kept_settings(self, session: Session, shell: Shell) -> None:
        """Let the user have what ``set -keep`` has kept, but for what the command line says."""
        given = self._arguments.given
        shell.apply(given)
        try:
            shell.apply(read_settings(settings_path()) | given)
        except CommandError as error:
            session.note(str(error))

    def _introduce(self, session: Session) -> None:
        if isinstance(self._display, JsonDisplay) and self._arguments.json:
            self._display.hello(session)
        else:
            line = render.job_line(
                session.set,
                session.hosts,
                aggregators=session.aggregators,
                fan_out=session.options.fan_out,
                gdb=session.gdb_version,
                mpi=session.mpi_version,
            )
            assert self._shell is not None
            self._shell.display.text(line)
        if isinstance(session, RecordedSession):
            assert self._shell is not None
            self._shell.display.text(session.describe())
        for told in (*self._early, *session.start_told()):
            self._show(told)
        self._early.clear()
        answer = session.start_answer
        if answer is not None and (answer.errors or answer.missing):
            assert self._shell is not None
            self._shell.show_start(answer)

    def _told(self, told: Told) -> None:
        if told.kind == "ended":
            self._job_code = told.code
        if self._shell is None:
            if told.kind == "output" and not self._arguments.json:
                self._progress.end()
                self._display.told(told)
            elif told.kind in ("output", "notice", "lost", "joined", "late"):
                self._early.append(told)
            else:
                self._progress.told(told)
            return
        self._show(told)

    def _show(self, told: Told) -> None:
        if self._shell is not None:
            self._shell.judge_events(told.classes)
        if self._session is not None and self._session.has_ended and told.kind != "output":
            return
        self._show_told(told)


def _complain(text: str) -> None:
    sys.stderr.write(f"pgdb: {harmless(text)}\n")


def _log_to_stderr(level: int) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(HarmlessFormatter("pgdb: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
