"""The parser of the command line of ``pgdb``, with all subcommands."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from pgdb.frontend.api.options import SETTINGS
from pgdb.frontend.ui import job_arguments, report_mode, run_arguments
from pgdb.frontend.ui.argument_actions import Named, Parser, Part
from pgdb.frontend.ui.reference import SHELLS, completion_script, man_page
from pgdb.frontend.ui.setting_arguments import add_settings
from pgdb.patterns import pattern
from pgdb.version import __version__

if TYPE_CHECKING:
    Modes = argparse._SubParsersAction[Parser]

_TARGET = pattern(r"[1-9]\d*(?:_\d+)?(?:\.\w+)?\Z")
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
    modes: Modes = parser.add_subparsers(
        dest="mode",
        required=True,
        metavar="attach|launch|run|core|jobs|doctor|replay|report|mpi-record|report-bug",
    )
    scripted = _scripted()
    common = _common(scripted)
    _add_attach(modes, common)
    _add_launch(modes, common)
    _add_core(modes, common)
    _add_run(modes)
    _add_listings(modes, common)
    _add_replay(modes, scripted)
    _add_report(modes)
    _add_mpi_record(modes)
    _add_report_bug(modes)
    return parser


def _add_attach(modes: Modes, common: Parser) -> None:
    parser = modes.add_parser(
        "attach", parents=[common], allow_abbrev=False, help="debug a running job"
    )
    _add_settings(parser, "attach")
    job_arguments.add_pids(parser, "the processes of the ranks")
    parser.add_argument(
        "target",
        nargs="?",
        default="",
        type=_target,
        metavar="JOB",
        help="pid of mpirun, mpiexec, srun or torchrun, or of a rank; or JOB[.STEP] of Slurm's; "
        "by default the only job there is",
    )


def _add_launch(modes: Modes, common: Parser) -> None:
    parser = modes.add_parser(
        "launch", parents=[common], allow_abbrev=False, help="start a job under the debugger"
    )
    parser.add_argument(
        "--stdin",
        action=Named,
        metavar="FILE",
        default="",
        help="the job's input: a file, or - for pgdb's standard input, which is the default "
        "where that is no terminal",
    )
    _add_settings(parser, "launch")
    parser.add_argument(
        "line",
        nargs=argparse.REMAINDER,
        metavar="LAUNCHER …",
        help="the launcher's line, as without pgdb",
    )


def _add_core(modes: Modes, common: Parser) -> None:
    parser = modes.add_parser(
        "core",
        parents=[common],
        allow_abbrev=False,
        help="debug the core files that ranks have left",
    )
    parser.add_argument(
        "--exe",
        action=Named,
        dest="executable",
        default="",
        metavar="FILE",
        help="the program of the core files, where it is not at the place that they name",
    )
    parser.add_argument(
        "--systemd",
        action="store_true",
        help="take the core files from systemd-coredump; FILE is then a match of coredumpctl",
    )
    parser.add_argument(
        "--hosts",
        metavar="LIST",
        help="the hosts that hold the core files: names with commas between, as n1,n[3-6]",
    )
    _add_settings(parser, "core")
    parser.add_argument(
        "cores",
        nargs="*",
        metavar="FILE",
        help="core files, directories with core files, or patterns",
    )


def _add_run(modes: Modes) -> None:
    parser = modes.add_parser(
        "run", allow_abbrev=False, help="run a job at full speed, and report what happens to it"
    )
    run_arguments.add_options(parser)


def _add_listings(modes: Modes, common: Parser) -> None:
    modes.add_parser("jobs", parents=[common], allow_abbrev=False, help="list running jobs")
    modes.add_parser(
        "doctor",
        parents=[common],
        allow_abbrev=False,
        help="show what this host lacks, and what to do",
    )


def _add_replay(modes: Modes, scripted: Parser) -> None:
    parser = modes.add_parser(
        "replay", parents=[scripted], allow_abbrev=False, help="open a recording, without its job"
    )
    parser.add_argument(
        "target",
        metavar="FILE",
        action=Named,
        help="a recording, written by 'session save' or --record",
    )


def _add_report(modes: Modes) -> None:
    parser = modes.add_parser(
        "report",
        allow_abbrev=False,
        help="write a report of a running job, or another form of a report",
    )
    _add_settings(parser, "")
    _add_settings(parser, "attach")
    report_mode.add_options(parser)


def _add_mpi_record(modes: Modes) -> None:
    parser = modes.add_parser(
        "mpi-record",
        allow_abbrev=False,
        help="record the MPI calls of jobs that run without pgdb, for a later attach",
    )
    parser.add_argument(
        "target",
        metavar="env",
        choices=("env",),
        help='print the commands that switch it on in a shell: eval "$(pgdb mpi-record env)"',
    )
    parser.add_argument(
        "--mpicc",
        action=Named,
        dest="output",
        default="",
        metavar="PROGRAM",
        help="the MPI's C compiler, by default the mpicc of PATH",
    )


def _add_report_bug(modes: Modes) -> None:
    parser = modes.add_parser(
        "report-bug", allow_abbrev=False, help="pack a log and version numbers for a bug report"
    )
    parser.add_argument(
        "target",
        action=Named,
        nargs="?",
        metavar="LOG",
        help="a log, written by --log",
    )
    parser.add_argument(
        "-o",
        action=Named,
        dest="output",
        default="",
        metavar="FILE",
        help="the archive to write, a .tar.gz",
    )


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


def _target(text: str) -> str:
    if text and not _TARGET.match(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no process id and no JOB[.STEP] of Slurm's; see 'pgdb jobs'"
        )
    return text
