"""The settings of a session: names, units, defaults, checks and meanings, each declared once.

The command line, the environment, the settings file, ``set``, ``show``, the settings page and the
keyword arguments of the Python API derive from these declarations.
"""

from __future__ import annotations

import functools
import os
import typing
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from msgspec import structs

from pgdb.frontend.api import option_checks
from pgdb.frontend.api.argument_types import check_kind, kinds_in
from pgdb.frontend.api.interface_options import INTERFACE_SETTINGS as INTERFACE_SETTINGS
from pgdb.frontend.api.interface_options import SETTLE as SETTLE
from pgdb.frontend.api.setting import (
    RUN_TOO,
    Setting,
    check_positive,
    check_time,
    days,
    declared_in,
    in_days,
    in_seconds,
    integer,
    joined,
    on_or_off,
    patterns,
    ranks,
    setting,
    switch_setting,
    words,
)
from pgdb.frontend.system.durations import seconds
from pgdb.overlay.topology import DEFAULT_FAN_OUT
from pgdb.ranks import RankSet
from pgdb.sizes import read_mebibytes, read_size, size_text, whole_size

WIRE_UPS = ("auto", "mpi", "direct")
StopMode = Literal["rank", "focus", "all"]
STOP_MODES: tuple[StopMode, ...] = ("rank", "focus", "all")
SPAWNED = ("notify", "attach", "hold")
POINTERS = ("symbol", "raw")
LAUNCHERS = ("auto", "openmpi", "mpich", "intel", "slurm", "torchrun", "other")


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Options of one session."""

    ranks: RankSet | None = setting(
        None,
        option="--ranks",
        modes=("attach", "launch", "core", "run"),
        value="SET",
        read=ranks,
        help="debug these ranks only, such as 0-3,8; the others run on",
    )
    world: str = setting(
        "",
        option="--world",
        modes=("attach",),
        value="N",
        is_name=True,
        check=option_checks.check_world,
        help="attach to the Nth job that the launcher's ranks have started with MPI_Comm_spawn, or "
        "to all of them (all)",
    )
    spawned: str = setting(
        "notify",
        option="--spawned",
        name="spawned",
        modes=("attach", "launch"),
        choices=SPAWNED,
        kind=Literal["notify", "attach", "hold"],
        help="ranks that MPI_Comm_spawn starts: notify names them; attach takes them into the "
        "session when PGDB sees them, as ranks stop; hold stops them in main (launch, Open MPI)",
    )
    core_gdbs: int = setting(
        0,
        option="--core-gdbs",
        modes=("core",),
        value="N",
        read=integer,
        check=option_checks.check_not_negative,
        kind=int,
        help="most GDBs of one aggregator at a time, of which each reads one core file; 0: as many "
        "as fit into half of the memory",
    )
    program: str = setting(
        "",
        option="--program",
        modes=("attach", "launch", "run"),
        value="NAME",
        is_name=True,
        help="base name of the ranks' program, where wrappers start it",
    )
    launcher: str = setting(
        "auto",
        option="--launcher",
        environment="PGDB_LAUNCHER",
        modes=("launch", "run"),
        choices=LAUNCHERS,
        help="the kind of launcher that the line begins with, where its name or '--version' does "
        "not show it; other: any program that ends up in one of these",
    )
    mpi_record: bool = switch_setting(
        False,
        option="--mpi-record",
        modes=("launch", "run"),
        help="record the MPI calls of the ranks, which 'why' then reads; the recorder is built "
        "with the MPI's own mpicc at the first time",
    )
    mpicc: str = setting(
        "",
        option="--mpicc",
        modes=("launch", "run"),
        value="PROGRAM",
        is_name=True,
        help="the MPI's C compiler, for --mpi-record; by default the mpicc beside the launcher, or "
        "that of PATH",
    )
    timeout_s: float = setting(
        60.0,
        option="--timeout",
        modes=RUN_TOO,
        name="timeout",
        value="SECONDS",
        read=seconds,
        show=in_seconds,
        check=check_time,
        kind=float,
        help="longest wait for the answers to one command; in batch runs also for ranks to stop",
    )
    start_timeout_s: float = setting(
        120.0,
        option="--start-timeout",
        modes=RUN_TOO,
        value="SECONDS",
        read=seconds,
        show=in_seconds,
        check=check_time,
        kind=float,
        help="longest time until the session has started",
    )
    max_hold_s: float = setting(
        0.0,
        option="--max-hold",
        name="max-hold",
        modes=("attach", "launch"),
        value="TIME",
        read=option_checks.time_or_off,
        show=option_checks.in_seconds_or_off,
        check=option_checks.check_time_or_off,
        kind=float,
        help="detach from all ranks when one has been stopped for this long, such as 60s or 5min; "
        "process groups of PyTorch time out; off: never",
    )
    stop_on_error: bool = switch_setting(
        True,
        option="--no-stop-on-error",
        name="stop-on-error",
        help="interrupt the rest of a run when one of its ranks gets a fatal signal, or is about "
        "to die",
    )
    look_at_running: bool = switch_setting(
        True,
        option="--no-look-at-running",
        name="look-at-running",
        help="interrupt ranks that still run when a command has waited for them, for a moment, to "
        "say where they are",
    )
    stop_mode: str = setting(
        "rank",
        option="--stop-mode",
        name="stop-mode",
        choices=STOP_MODES,
        kind=StopMode,
        help="ranks that stop when a rank hits a breakpoint, watchpoint or catchpoint or gets a "
        "signal: that rank, all ranks of the focus, or all ranks",
    )
    stop_on_report: bool = switch_setting(
        True,
        option="--no-stop-on-report",
        name="stop-on-report",
        help="stop ranks at the reports of sanitizers (ASan, UBSan, TSan, MSan, LSan)",
    )
    stop_before_death: bool = switch_setting(
        False,
        option="--stop-before-death",
        name="stop-before-death",
        modes=("attach", "launch"),
        help="stop ranks that are about to die (MPI_Abort, MPI errors, exit with a status), before "
        "their launcher learns of it: 'catch death' on all ranks",
    )
    array_limit_bytes: int = setting(
        1 << 30,
        name="array-limit",
        value="BYTES",
        read=read_size,
        show=size_text,
        check=check_positive,
        kind=int,
        help="most that dump, plot and decompose read, on all ranks together; 4G is a size too",
    )
    varprint_depth: int = setting(
        3,
        name="varprint-depth",
        value="N",
        read=integer,
        check=option_checks.check_count,
        kind=int,
        help="levels of a structure that varprint shows",
    )
    varprint_children: int = setting(
        60,
        name="varprint-children",
        value="N",
        read=integer,
        check=option_checks.check_count,
        kind=int,
        help="most children of each value that varprint shows",
    )
    compare_pointers: str = setting(
        "symbol",
        name="compare-pointers",
        choices=POINTERS,
        kind=Literal["symbol", "raw"],
        help="symbol: pointers are equal if their symbols or strings are; raw: only if their "
        "addresses are equal too",
    )
    gdb: str = setting(
        "gdb",
        option="--gdb",
        modes=RUN_TOO,
        value="GDB",
        is_name=True,
        help="the GDB to run on every rank",
    )
    gdb_commands: tuple[str, ...] = setting(
        (),
        option="--gdb-command",
        modes=RUN_TOO,
        value="COMMAND",
        is_repeated=True,
        show=joined,
        help="GDB command for every rank before PGDB attaches to it (repeatable)",
    )
    host: str = setting(
        "",
        option="--host",
        value="HOST",
        is_name=True,
        help="find the job, and start the aggregators, on HOST over ssh",
    )
    ssh: tuple[str, ...] = setting(
        ("ssh",),
        option="--ssh",
        environment="PGDB_SSH",
        value="COMMAND",
        read=words,
        show=joined,
        is_name=True,
        help="the ssh command, with its options",
    )
    listen: str = setting(
        "",
        option="--listen",
        modes=RUN_TOO,
        value="ADDRESS",
        is_name=True,
        help="address of this host that the job's hosts can reach; by default the routes decide",
    )
    connect: bool = setting(
        False,
        option="--connect",
        modes=RUN_TOO,
        show=on_or_off,
        help="the front end calls the aggregators, where their hosts cannot reach this one",
    )
    overlay_launcher: tuple[str, ...] = setting(
        (),
        option="--overlay-launcher",
        modes=RUN_TOO,
        value="COMMAND",
        read=words,
        show=joined,
        is_name=True,
        help="start the aggregators with this launcher and its options, or with ssh; by default "
        "with the job's launcher",
    )
    python_glue: tuple[str, ...] = setting(
        (),
        option="--python-glue",
        name="python-glue",
        environment="PGDB_PYTHON_GLUE",
        value="PATTERNS",
        read=patterns,
        show=joined,
        kind=tuple[str, ...],
        help="regular expressions of further C functions that stacks leave out between Python "
        "frames",
    )
    aggregators: int = setting(
        1,
        option="--aggregators",
        modes=RUN_TOO,
        value="N",
        read=integer,
        check=option_checks.check_aggregator_count,
        kind=int,
        help="aggregators on each host, which share its ranks",
    )
    fan_out: int = setting(
        DEFAULT_FAN_OUT,
        option="--fan-out",
        modes=RUN_TOO,
        value="K",
        read=integer,
        check=option_checks.check_count,
        kind=int,
        help="children of one aggregator",
    )
    wire_up: str = setting(
        "auto",
        option="--wire-up",
        modes=RUN_TOO,
        choices=WIRE_UPS,
        help="how aggregators find each other: by mpi, direct (without MPI), or auto",
    )
    grace_s: float = setting(
        30.0,
        option="--grace",
        value="SECONDS",
        read=seconds,
        show=in_seconds,
        check=check_time,
        kind=float,
        help="how long aggregators without a front end keep their ranks before they detach",
    )
    remote_python: str = setting(
        "",
        option="--remote-python",
        modes=RUN_TOO,
        value="PATH",
        is_name=True,
        help="Python for the aggregators, on other hosts too; by default the front end's",
    )
    ship: bool = setting(
        False,
        option="--ship",
        show=on_or_off,
        help="send PGDB to hosts that do not have it",
    )
    nursery: bool = setting(
        True,
        option="--no-nursery",
        modes=RUN_TOO,
        show=on_or_off,
        help="fork the ranks' GDBs from one that has read the symbols, where that is possible",
    )
    guard: bool = setting(
        False,
        option="--guard",
        show=on_or_off,
        help="give ranks a signal handler by which they survive the end of their GDB at any "
        "breakpoint; x86-64 only",
    )
    sbd: bool = setting(
        False,
        option="--sbd",
        show=on_or_off,
        help="bring executables, libraries and debug files to the hosts; each is read once",
    )
    sbd_cache: str = setting(
        "",
        option="--sbd-cache",
        environment="PGDB_SBD_CACHE",
        value="DIR",
        is_name=True,
        only_with="sbd",
        help="directory on every host for these files, %h for the host's name; by default "
        "/tmp/pgdb-sbd-UID",
    )
    sbd_cache_bytes: int = setting(
        4 << 30,
        option="--sbd-cache-size",
        value="MIB",
        read=read_mebibytes,
        show=whole_size,
        check=check_positive,
        only_with="sbd",
        help="most that this directory holds",
    )
    sbd_cache_age_s: float = setting(
        30 * 24 * 3600.0,
        option="--sbd-cache-age",
        value="DAYS",
        read=days,
        show=in_days,
        check=check_time,
        only_with="sbd",
        help="remove files from it that were not used for so long",
    )
    sbd_wait_s: float = setting(
        30.0,
        option="--sbd-wait",
        value="SECONDS",
        read=seconds,
        show=in_seconds,
        check=check_time,
        only_with="sbd",
        help="how long a rank waits for its files before its GDB reads them itself",
    )
    log: str = setting(
        "",
        option="--log",
        modes=RUN_TOO,
        value="FILE",
        is_name=True,
        help="log requests, answers and times, but no values; for bug reports",
    )
    log_values: bool = setting(
        False,
        option="--log-values",
        show=on_or_off,
        help="log values and program arguments as well",
    )
    record: str = setting(
        "",
        option="--record",
        value="FILE",
        is_name=True,
        help="write a recording, even if pgdb is killed; 'pgdb replay' opens it",
    )
    script_log: str = setting(
        "",
        option="--script-log",
        value="FILE.py",
        is_name=True,
        help="write the calls of the session as a Python program that runs",
    )
    verbose: bool = setting(
        False,
        option="--verbose",
        modes=RUN_TOO,
        aliases=("-v",),
        show=on_or_off,
        help="show every step of the start, and how the ranks were found",
    )

    @property
    def calls(self) -> bool:
        """Whether the aggregators listen and the front end calls."""
        return self.connect or bool(self.host)

    def changed(self, **changes: Any) -> SessionOptions:
        """Return these options with *changes*; None leaves an option as it is.

        :raises UsageError: if a value is none of its option.
        """
        return replace(self, **{key: each for key, each in changes.items() if each is not None})

    def __post_init__(self) -> None:
        for each in SESSION_SETTINGS:
            value = getattr(self, each.key)
            if not each.choices:
                value = _of_kind(each.key, value)
                object.__setattr__(self, each.key, value)
            each.validate(value)
        option_checks.check_together(self, SESSION_SETTINGS)


@functools.cache
def _kinds() -> dict[str, tuple[Any, ...]]:
    """Return the types that each option is declared with."""
    hints = typing.get_type_hints(SessionOptions)
    return {each.key: kinds_in(hints[each.key]) for each in SESSION_SETTINGS}


def _of_kind(key: str, value: Any) -> Any:
    """Return the value of an option in the type that it is declared with.

    :raises UsageError: if it is of another kind.
    """
    kinds = _kinds()[key]
    if str in kinds and isinstance(value, os.PathLike):
        return os.fspath(value)
    check_kind(key, value, kinds)
    return tuple(value) if tuple[str, ...] in kinds else value


SESSION_SETTINGS: tuple[Setting, ...] = tuple(
    structs.replace(declared_in(each.metadata), key=each.name) for each in fields(SessionOptions)
)
"""The settings of a session, each a field of :class:`SessionOptions`."""

SETTINGS: tuple[Setting, ...] = (*INTERFACE_SETTINGS, *SESSION_SETTINGS)
"""All settings."""

CHANGEABLE: dict[str, Setting] = {each.name: each for each in SETTINGS if each.name}
"""The settings that ``set`` changes and ``set -keep`` keeps, by name."""


def find_changeable(name: str) -> Setting | None:
    """Return the setting that ``set NAME`` changes.

    GDB's own settings have GDB's abbreviations: ``set pag off``, ``set he 0``.
    """
    found = CHANGEABLE.get(name)
    if found is not None:
        return found
    for each in INTERFACE_SETTINGS:
        if each.shortest and len(name) >= each.shortest and each.name.startswith(name):
            return each
    return None
