"""What a user may choose about a session, with units, defaults and meanings."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from pgdb.errors import UsageError
from pgdb.frontend.system import durations
from pgdb.overlay.topology import DEFAULT_FAN_OUT
from pgdb.patterns import pattern
from pgdb.ranks import RankSet

WIRE_UPS = ("auto", "mpi", "direct")
POINTERS = ("symbol", "raw")
MOST_AGGREGATORS = 256
"""On one host: more than there is any use for, and no more than its user may have processes."""

_SYSROOT = pattern(r"\s*set\s+(?:sysroot|solib-absolute-prefix)\b")
_ONLY_WITH_SBD = {
    "sbd_cache_bytes": "--sbd-cache-size",
    "sbd_cache_age_s": "--sbd-cache-age",
    "sbd_wait_s": "--sbd-wait",
}


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Options of one session."""

    ranks: RankSet | None = None
    """Attach to these ranks only; None for all."""
    aggregators: int = 1
    """Aggregators on each host, which share its ranks."""
    fan_out: int = DEFAULT_FAN_OUT
    """Children of one aggregator."""
    gdb: str = "gdb"
    """The GDB to run on every rank."""
    gdb_commands: tuple[str, ...] = ()
    """GDB commands for every rank before it is taken hold of."""
    program: str = ""
    """Base name of the program to stop in, where others come before it."""
    start_timeout_s: float = 120.0
    """Longest time until the session must have started."""
    timeout_s: float = 60.0
    """Longest time for the answer of a command that sets nothing running."""
    grace_s: float = 30.0
    """How long an aggregator without any parent keeps its ranks before it lets them go."""
    listen: str = ""
    """Address of this host at which hosts can reach the front end; empty to let routes tell."""
    connect: bool = False
    """Whether the front end calls the aggregators, where hosts cannot reach it."""
    host: str = ""
    """Find the job, and start the aggregators, on this host, over ssh."""
    ssh: tuple[str, ...] = ("ssh",)
    """How other hosts are reached where ssh is asked for."""
    overlay_launcher: tuple[str, ...] = ()
    """What starts the aggregators, with its options; empty for the job's own launcher."""
    remote_python: str = ""
    """Python for the aggregators; empty for ours."""
    ship: bool = False
    """Send PGDB to hosts that do not have it."""
    wire_up: str = "auto"
    """How aggregators learn of each other: ``mpi``, ``direct`` (without MPI), or ``auto``."""
    nursery: bool = True
    """Fork the ranks' GDBs from one that has read the symbols, where that can be done."""
    guard: bool = False
    """Give ranks a handler by which they survive a GDB that is killed while they come to a
    breakpoint at every moment; x86-64 only."""
    sbd: bool = False
    """Bring executables, libraries and debug files to the hosts, each read once where it is, in
    place of having every GDB read them."""
    sbd_cache: str = ""
    """Directory on every host for what was brought there, with ``%h`` for the host's name; empty
    for one in /tmp."""
    sbd_cache_bytes: int = 4 << 30
    """Most that this directory holds."""
    sbd_cache_age_s: float = 30 * 24 * 3600.0
    """What was not used for so long is removed from it."""
    sbd_wait_s: float = 30.0
    """How long a rank waits for its files before its GDB reads them by itself."""
    array_limit_bytes: int = 1 << 30
    """Most that is read of an array, on all ranks together."""
    compare_pointers: str = "symbol"
    """``symbol``: pointers are equal if their symbols or strings are; ``raw``: if their addresses
    are, too."""
    stop_on_error: bool = True
    """Interrupt the rest of a run when one of its ranks gets a fatal signal."""
    log: str = ""
    """Write a log of the session to this file: what was asked when, and how long it took."""
    log_values: bool = False
    """Let values of the program, and its arguments, stand in the log."""
    record: str = ""
    """At its end write a recording of the session to this file, for :func:`pgdb.replay`."""
    verbose: bool = False
    """Tell how ranks were found, and every step of the start."""

    @property
    def calls(self) -> bool:
        """Whether the aggregators listen and the front end calls."""
        return self.connect or bool(self.host)

    def changed(
        self,
        *,
        timeout_s: float | None = None,
        stop_on_error: bool | None = None,
        array_limit_bytes: int | None = None,
        compare_pointers: str | None = None,
    ) -> SessionOptions:
        """Return these options with those changed that can be while a session lasts."""
        return replace(
            self,
            timeout_s=self.timeout_s if timeout_s is None else timeout_s,
            stop_on_error=self.stop_on_error if stop_on_error is None else stop_on_error,
            array_limit_bytes=(
                self.array_limit_bytes if array_limit_bytes is None else array_limit_bytes
            ),
            compare_pointers=compare_pointers or self.compare_pointers,
        )

    def __post_init__(self) -> None:
        if self.aggregators < 1:
            raise UsageError(f"--aggregators {self.aggregators}: at least 1 is needed")
        if self.aggregators > MOST_AGGREGATORS:
            raise UsageError(
                f"--aggregators {self.aggregators}: at most {MOST_AGGREGATORS} on each host; one "
                "for 32 ranks or more is the usual number"
            )
        if self.fan_out < 1:
            raise UsageError(f"--fan-out {self.fan_out}: at least 1 is needed")
        for name in ("start_timeout_s", "timeout_s", "grace_s", "sbd_cache_age_s", "sbd_wait_s"):
            if not durations.is_time(getattr(self, name)):
                raise UsageError(
                    f"{name} {getattr(self, name):g} is no time; {durations.in_words()} is one"
                )
        if self.array_limit_bytes < 1:
            raise UsageError(f"array_limit_bytes must be more than 0, not {self.array_limit_bytes}")
        if self.sbd_cache_bytes < 1:
            raise UsageError(f"sbd_cache_bytes must be more than 0, not {self.sbd_cache_bytes}")
        self._check_sbd()
        if self.compare_pointers not in POINTERS:
            raise UsageError(
                f"compare-pointers {self.compare_pointers!r} is none of {', '.join(POINTERS)}"
            )
        if self.listen and self.calls:
            what = "--host" if self.host else "--connect"
            raise UsageError(f"--listen and {what} exclude each other: one end of a link listens")
        if self.log_values and not self.log:
            raise UsageError("--log-values needs --log FILE")
        if not self.ssh:
            raise UsageError("--ssh names no command; leave it out for ssh")
        if self.wire_up not in WIRE_UPS:
            raise UsageError(f"wire-up {self.wire_up!r} is none of {', '.join(WIRE_UPS)}")

    def _check_sbd(self) -> None:
        """Refuse a cache that GDB would not find, and what would be without effect."""
        if self.sbd:
            if self.sbd_cache and not self.sbd_cache.startswith("/"):
                raise UsageError(
                    f"--sbd-cache {self.sbd_cache} (or PGDB_SBD_CACHE): "
                    "a path that begins with / is needed"
                )
            if not self.sbd_cache.isprintable() or not set(self.sbd_cache).isdisjoint(':"\\'):
                # GDB takes it as one of several paths, and tells it again with quotes of its own.
                raise UsageError(
                    f"--sbd-cache {self.sbd_cache!r} (or PGDB_SBD_CACHE): no colon, quote, "
                    "backslash or control character can be in it"
                )
            for each in self.gdb_commands:
                if _SYSROOT.match(each):
                    raise UsageError(
                        f"--sbd and the GDB command {each.strip()!r} exclude each other: "
                        "--sbd needs a sysroot of its own"
                    )
            return
        for field in fields(self):
            option = _ONLY_WITH_SBD.get(field.name, "")
            if option and getattr(self, field.name) != field.default:
                raise UsageError(f"{option} ({field.name}) needs --sbd (sbd)")
