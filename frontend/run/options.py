"""The options of ``pgdb run``, each declared once, and checked together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from msgspec import structs

from pgdb.errors import UsageError
from pgdb.frontend.analysis.conditions import parse
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.setting import Setting, declared_in, is_declared, setting, switch_setting
from pgdb.frontend.run.places import Place, pairs_of, read_place
from pgdb.frontend.system.durations import duration


def _time_or_none(seconds: float) -> str:
    return f"{seconds:g} s" if seconds else ""


def _time(option: str, text: str) -> float:
    """Return the field of an option whose value is a time; 0 without the option."""
    return setting(
        0.0, option=option, value="TIME", read=duration, show=_time_or_none, kind=float, help=text
    )


def _read_stop(title: str, text: str) -> Place:
    return read_place(text, title)


def _read_trace(title: str, text: str) -> Place:
    return read_place(text, title, is_trace=True)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The events that ``pgdb run`` watches for, and its reactions."""

    line: tuple[str, ...]
    """The launcher's line, or a program's."""
    session: SessionOptions = field(default_factory=SessionOptions)
    """Options of the sessions that look at the job."""
    look_s: float = 60.0
    """Longest time for one look at the stacks of a job."""
    outputs: tuple[str, ...] = setting(
        (),
        option="-o",
        value="FILE",
        is_repeated=True,
        help="write the report to FILE, whose suffix decides the form (repeatable)",
    )
    hang_after_s: float = _time(
        "--hang-after", "report when the job makes no progress for so long: 300s, 10m"
    )
    before_timeout_s: float = _time(
        "--before-timeout",
        "report so long before the job's time limit, which the batch system names",
    )
    wall_time_s: float = _time(
        "--wall-time", "the job's time limit, where no batch system names it"
    )
    then: str = setting(
        "continue",
        option="--then",
        choices=("kill", "continue", "hold"),
        help="after a report: kill the job, let it continue, or hold it for 'pgdb attach'",
    )
    exit_code: str = setting(
        "pgdb",
        option="--exit-code",
        choices=("pgdb", "job"),
        help="the exit status: what has happened, or the job's own",
    )
    with_gdb: bool = switch_setting(
        False,
        option="--gdb",
        help="run every rank under GDB from its start: the report has the stacks at the moment of "
        "a death",
    )
    breakpoints: tuple[Place, ...] = setting(
        (),
        option="--break-at",
        value="LOC[,EXPR…]",
        read=_read_stop,
        is_repeated=True,
        help="report the expressions each time that a rank comes to the location (repeatable; "
        "implies --gdb)",
    )
    traces: tuple[Place, ...] = setting(
        (),
        option="--trace-at",
        value="LOC[,EXPR…]",
        read=_read_trace,
        is_repeated=True,
        help="as --break-at, without a stop of the rank: LOC,EXPR…[,FIRST:EVERY:COUNT][ if COND] "
        "(repeatable; implies --gdb)",
    )
    conditions: tuple[str, ...] = setting(
        (),
        option="--check",
        value="'EXPR in 0..1'",
        is_repeated=True,
        help="a condition that holds on all ranks at the location of --at (repeatable; implies "
        "--gdb)",
    )
    locations: tuple[str, ...] = setting(
        (), option="--at", value="LOC", is_repeated=True, help="the location of a --check"
    )
    snapshot_every_s: float = _time("--snapshot-every", "report so often, and let the job run on")
    watch: bool = switch_setting(
        True,
        option="--no-watch",
        help="start a watcher beside each rank; then only the launcher's status is known",
    )
    output_by_rank: bool = switch_setting(
        False,
        option="--output-by-rank",
        help="keep the end of each rank's output apart for the report; a process beside each rank "
        "passes the output on",
    )
    cores: bool = switch_setting(
        True, option="--no-cores", help="raise the limit of core files to the hard limit"
    )
    quiet: bool = switch_setting(
        False, option="--quiet", aliases=("-q",), help="print nothing beside the job's output"
    )

    @property
    def needs_gdb(self) -> bool:
        """Whether the job runs under GDBs from its start."""
        return self.with_gdb or bool(self.breakpoints or self.traces or self.conditions)

    @property
    def checks(self) -> tuple[Place, ...]:
        """The conditions, each at its location."""
        return pairs_of(self.conditions, self.locations) if self.conditions else ()

    def __post_init__(self) -> None:
        """Check the options together.

        :raises UsageError: if some do not go together, or a condition cannot be read.
        """
        for each in RUN_SETTINGS:
            each.validate(getattr(self, each.key))
        if self.wall_time_s and not self.before_timeout_s:
            raise UsageError("--wall-time needs --before-timeout TIME: when to report")
        _check_conditions(self.conditions, self.locations)
        if self.needs_gdb and self.then == "hold":
            raise UsageError(
                "--then hold is for runs without GDB: a rank has one debugger; leave out --gdb, "
                "--break-at, --trace-at and --check, or use --then kill"
            )
        if self.output_by_rank and (self.needs_gdb or not self.watch):
            raise UsageError(
                "--output-by-rank needs the watchers of a run without GDB: leave out --no-watch, "
                "--gdb, --break-at, --trace-at and --check"
            )


def _check_conditions(conditions: Sequence[str], locations: Sequence[str]) -> None:
    """Check that each condition can be read and has a location.

    :raises UsageError: if one cannot, or has none.
    """
    if locations and not conditions:
        raise UsageError("--at needs --check 'EXPR in 0..1': the condition that holds there")
    for each in conditions:
        try:
            parse(each)
        except UsageError as error:
            raise UsageError(f"--check {each!r}: {error}") from None
    if conditions:
        pairs_of(conditions, locations)


RUN_SETTINGS: tuple[Setting, ...] = tuple(
    structs.replace(declared_in(each.metadata), key=each.name)
    for each in fields(RunOptions)
    if is_declared(each.metadata)
)
"""The options of ``pgdb run`` alone, each a field of :class:`RunOptions`."""


def in_words(seconds: float) -> str:
    """Return a duration for people.

    >>> in_words(0.5), in_words(90), in_words(600), in_words(7200)
    ('0.5 s', '90 s', '10 min', '2 h')
    """
    for unit_s, name, least in ((3600, "h", 3600), (60, "min", 180)):
        if seconds >= least and seconds % unit_s == 0:
            return f"{seconds / unit_s:.0f} {name}"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"
