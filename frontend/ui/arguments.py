"""The command line of ``pgdb``, read and checked."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from pgdb.errors import UsageError
from pgdb.frontend.api import gdb_commands
from pgdb.frontend.api.options import CHANGEABLE, SETTINGS, SETTLE, SessionOptions
from pgdb.frontend.run.options import RunOptions
from pgdb.frontend.store.settings import Settings
from pgdb.frontend.ui import job_arguments, report_mode, run_arguments
from pgdb.frontend.ui.argument_actions import Named, Parser, Part
from pgdb.frontend.ui.reference import SHELLS, completion_script, man_page
from pgdb.frontend.ui.report_mode import ReportArguments
from pgdb.frontend.ui.script import Script
from pgdb.frontend.ui.setting_arguments import add_settings, given
from pgdb.patterns import pattern
from pgdb.version import __version__

DEFAULT_SETTLE_S = 1.0
_EPILOG = """examples:
  pgdb launch mpirun -n 4 ./app             debug a new job; all ranks stop in main
  pgdb attach 4711                          debug the running job of mpirun 4711
  pgdb attach 17.0                          debug step 0 of Slurm's job 17
  pgdb run -o run.html -- mpirun -n 4 ./app run a job without a prompt, report what happens to it
  pgdb jobs                                 list the jobs that pgdb can attach to
  pgdb doctor                               show what this host lacks, and what to do
  pgdb attach --batch -ex bt 4711           print the merged stacks and leave
  pgdb launch --batch --json -x cmds mpirun -n 4 ./app
  pgdb core core.*                          look at the core files that the ranks have left
  pgdb replay job.pgdb                      open the recording of 'session save job.pgdb'
  pgdb report --attach 4711 -o job.txt      write a report of a running job, which runs on
  pgdb report-bug session.log               pack a log for a bug report
exit status: 0 all commands worked, 1 a command failed on some rank, 2 usage, 3 the session could
not start, 4 some ranks gave no answer, 5 a rank died of a signal; pgdb run has its own"""


class _Print(argparse.Action):
    """Action that prints a page made from the parser, and leaves."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        made = make_parser()
        text = completion_script(made, values) if values else man_page(made)
        sys.stdout.write(text)
        parser.exit()


class Arguments(msgspec.Struct, frozen=True):
    """The command line, checked."""

    mode: str
    target: str
    """The job to attach to, empty to look for one; the recording of ``replay``, the log of
    ``report-bug``."""
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
    """The file that ``report-bug`` writes; the compiler of ``mpi-record``."""
    report: ReportArguments | None = None
    """The arguments of ``report``."""
    cores: tuple[str, ...] = ()
    """The files, directories and patterns of ``core``, or matches of coredumpctl."""
    executable: str = ""
    """The program of the core files; empty for the one that they name."""
    from_systemd: bool = False
    core_hosts: tuple[str, ...] = ()
    """The hosts with the core files; empty for this one."""
    run: RunOptions | None = None
    """The options of ``run``."""


def parse(argv: Sequence[str]) -> Arguments:
    """Read a command line.

    :raises UsageError: if it cannot be read.
    """
    words = list(argv)
    if words and words[0] in ("-p", "--pid", "-pid"):
        words[0] = "attach"
    elif words and words[0].startswith("--pid="):
        words[0:1] = ["attach", words[0].removeprefix("--pid=")]
    parsed = make_parser().parse_args(words)
    for name, command in _commands(parsed):
        try:
            gdb_commands.check_text(command)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from None
    if parsed.mode in ("replay", "report-bug", "mpi-record"):
        return _without_job(parsed)
    if parsed.mode == "report":
        return _of_report(parsed)
    if parsed.mode == "run":
        run = run_arguments.read_options(parsed, {**_from_environment(), **_given(parsed)})
        return replace(_without_job(parsed), run=run, options=run.session)
    line: list[str] = list(getattr(parsed, "line", []))
    if line[:1] == ["--"]:
        line = line[1:]
    if parsed.mode == "launch" and not line:
        raise UsageError("launch: give the launcher's line, for example mpirun -n 4 ./app")
    if parsed.exit_code == "job" and parsed.mode != "launch":
        raise UsageError("--exit-code=job needs 'launch': an attached job's status is not ours")
    if parsed.mode == "core" and not (parsed.cores or parsed.systemd):
        raise UsageError(
            "core: give core files or their directory, for example core.*; or --systemd"
        )
    pids: str | None = getattr(parsed, "pids", None)
    if pids is not None and parsed.target:
        raise UsageError("--pids takes the place of the job; give one of them")
    named = _given(parsed)
    settle_s = named.pop(SETTLE.key, None)
    options = SessionOptions(**{**_from_environment(), **named})
    batch = parsed.batch or parsed.json
    return Arguments(
        mode=parsed.mode,
        target=getattr(parsed, "target", "") or "",
        pids=job_arguments.read_pids(pids) if pids is not None else (),
        line=tuple(line),
        options=options,
        script=Script(parsed.parts),
        batch=batch,
        json=parsed.json,
        settle_s=DEFAULT_SETTLE_S if settle_s is None and not batch else settle_s,
        run_timeout_s=options.timeout_s if batch else None,
        stdin=getattr(parsed, "stdin", ""),
        exit_code=parsed.exit_code,
        cores=tuple(getattr(parsed, "cores", ())),
        executable=getattr(parsed, "executable", ""),
        from_systemd=getattr(parsed, "systemd", False),
        core_hosts=_core_hosts(parsed),
        given=Settings(
            settle_s=settle_s,
            **{each.key: named.get(each.key) for each in CHANGEABLE.values() if each != SETTLE},
        ),
    )


def _core_hosts(parsed: argparse.Namespace) -> tuple[str, ...]:
    """Return the hosts of ``core --hosts``.

    :raises UsageError: if they are no list of hosts.
    """
    if getattr(parsed, "hosts", None) is None:
        return ()
    # Other sessions need not load what starts aggregators for core files.
    from pgdb.frontend.startup.core_hosts import read_hosts

    return read_hosts(parsed.hosts)


def _given(parsed: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that the command line names, by key.

    :raises UsageError: if one has no effect.
    """
    found = given(parsed, SETTINGS)
    for each in SETTINGS:
        if each.only_with and each.environment and each.key in found:
            if not found.get(each.only_with):
                raise UsageError(f"{each.option} needs --{each.only_with}")
    return found


def _from_environment() -> dict[str, Any]:
    """Return the settings that environment variables name, by key."""
    return {
        each.key: each.convert(each.option, os.environ[each.environment])
        for each in SETTINGS
        if each.environment in os.environ
    }


def _commands(parsed: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield the commands of a command line, each with its option."""
    for kind, value in getattr(parsed, "parts", ()):
        if kind == "ex":
            yield "-ex", value
    for command in getattr(parsed, "gdb_commands", ()):
        yield "--gdb-command", command


def _without_job(parsed: argparse.Namespace) -> Arguments:
    """Return the arguments of the modes that need no job, such as ``replay``."""
    return Arguments(
        mode=parsed.mode,
        target=getattr(parsed, "target", "") or "",
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


def _of_report(parsed: argparse.Namespace) -> Arguments:
    """Return the arguments of ``report``.

    :raises UsageError: if they name no report, or several.
    """
    pids: str | None = parsed.pids
    named = _given(parsed)
    named.pop(SETTLE.key, None)
    report = ReportArguments(
        attach=parsed.attach,
        pids=job_arguments.read_pids(pids) if pids is not None else (),
        file=parsed.target,
        compare=tuple(parsed.compare or ()),
        output=tuple(parsed.output),
        title=parsed.title,
        is_for_github=parsed.github,
        options=SessionOptions(**{**_from_environment(), **named}),
    )
    report_mode.check(report)
    return replace(_without_job(parsed), report=report, output="")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = Parser(
        prog="pgdb",
        description="A parallel debugger for MPI programs: one GDB per rank, one merged answer.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="version", version=f"pgdb {__version__}", help="show the version"
    )
    parser.add_argument(
        "--print-completion",
        action=_Print,
        choices=SHELLS,
        help="print the completion script for a shell (needs shtab)",
    )
    parser.add_argument("--print-man", action=_Print, nargs=0, help="print the man page")
    modes = parser.add_subparsers(
        dest="mode",
        required=True,
        metavar="attach|launch|run|core|jobs|doctor|replay|report|mpi-record|report-bug",
    )
    scripted = _scripted()
    common = _common(scripted)
    attaching = modes.add_parser(
        "attach", parents=[common], allow_abbrev=False, help="debug a running job"
    )
    _add_settings(attaching, "attach")
    job_arguments.add_pids(attaching, "the processes of the ranks")
    attaching.add_argument(
        "target",
        nargs="?",
        default="",
        type=_target,
        metavar="JOB",
        help="pid of mpirun, mpiexec, srun or torchrun, or of a rank; or JOB[.STEP] of Slurm's; "
        "by default the only job there is",
    )
    launching = modes.add_parser(
        "launch", parents=[common], allow_abbrev=False, help="start a job under the debugger"
    )
    launching.add_argument(
        "--stdin",
        action=Named,
        metavar="FILE",
        default="",
        help="the job's input: a file, or - for pgdb's standard input, which is the default "
        "where that is no terminal",
    )
    _add_settings(launching, "launch")
    launching.add_argument(
        "line",
        nargs=argparse.REMAINDER,
        metavar="LAUNCHER …",
        help="the launcher's line, as without pgdb",
    )
    looking = modes.add_parser(
        "core",
        parents=[common],
        allow_abbrev=False,
        help="debug the core files that ranks have left",
    )
    looking.add_argument(
        "--exe",
        action=Named,
        dest="executable",
        default="",
        metavar="FILE",
        help="the program of the core files, where it is not at the place that they name",
    )
    looking.add_argument(
        "--systemd",
        action="store_true",
        help="take the core files from systemd-coredump; FILE is then a match of coredumpctl",
    )
    looking.add_argument(
        "--hosts",
        metavar="LIST",
        help="the hosts that hold the core files: names with commas between, as n1,n[3-6]",
    )
    _add_settings(looking, "core")
    looking.add_argument(
        "cores",
        nargs="*",
        metavar="FILE",
        help="core files, directories with core files, or patterns",
    )
    running = modes.add_parser(
        "run", allow_abbrev=False, help="run a job at full speed, and report what happens to it"
    )
    run_arguments.add_options(running)
    modes.add_parser("jobs", parents=[common], allow_abbrev=False, help="list running jobs")
    modes.add_parser(
        "doctor",
        parents=[common],
        allow_abbrev=False,
        help="show what this host lacks, and what to do",
    )
    replay = modes.add_parser(
        "replay", parents=[scripted], allow_abbrev=False, help="open a recording, without its job"
    )
    replay.add_argument(
        "target",
        metavar="FILE",
        action=Named,
        help="a recording, written by 'session save' or --record",
    )
    of_job = modes.add_parser(
        "report",
        allow_abbrev=False,
        help="write a report of a running job, or another form of a report",
    )
    _add_settings(of_job, "")
    _add_settings(of_job, "attach")
    report_mode.add_options(of_job)
    recording = modes.add_parser(
        "mpi-record",
        allow_abbrev=False,
        help="record the MPI calls of jobs that run without pgdb, for a later attach",
    )
    recording.add_argument(
        "target",
        metavar="env",
        choices=("env",),
        help='print the commands that switch it on in a shell: eval "$(pgdb mpi-record env)"',
    )
    recording.add_argument(
        "--mpicc",
        action=Named,
        dest="output",
        default="",
        metavar="PROGRAM",
        help="the MPI's C compiler, by default the mpicc of PATH",
    )
    reporting = modes.add_parser(
        "report-bug", allow_abbrev=False, help="pack a log and version numbers for a bug report"
    )
    reporting.add_argument(
        "target",
        action=Named,
        nargs="?",
        metavar="LOG",
        help="a log, written by --log",
    )
    reporting.add_argument(
        "-o",
        action=Named,
        dest="output",
        default="",
        metavar="FILE",
        help="the archive to write, a .tar.gz",
    )
    return parser


def _scripted() -> Parser:
    scripted = Parser(add_help=False, allow_abbrev=False)
    add = scripted.add_argument
    scripted.set_defaults(parts=[])
    add("-x", action=Part, metavar="FILE", help="run the commands in FILE (repeatable)")
    add("-ex", action=Part, metavar="COMMAND", help="run COMMAND (repeatable)")
    add("--batch", "-batch", action="store_true", help="exit after the commands, without a prompt")
    add("--json", action="store_true", help="print one JSON object per line; implies --batch")
    return scripted


def _common(scripted: Parser) -> Parser:
    common = Parser(add_help=False, allow_abbrev=False, parents=[scripted])
    job_arguments.add_exit_code(common, "pgdb's own, or the launched job's")
    _add_settings(common, "")
    return common


def _add_settings(parser: argparse.ArgumentParser, mode: str) -> None:
    """Add the options of the settings that *mode* alone has; "" for those of all modes."""
    add_settings(
        parser,
        (
            each
            for each in SETTINGS
            if each.option
            and (mode in each.modes and not each.is_common if mode else each.is_common)
        ),
    )


_TARGET = pattern(r"[1-9]\d*(?:_\d+)?(?:\.\w+)?\Z")


def _target(text: str) -> str:
    if text and not _TARGET.match(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no process id and no JOB[.STEP] of Slurm's; see 'pgdb jobs'"
        )
    return text
