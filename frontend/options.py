"""What a user may choose about a session, with units, defaults and meanings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pgdb.errors import UsageError
from pgdb.overlay.topology import DEFAULT_FAN_OUT
from pgdb.ranks import RankSet

WIRE_UPS = ("auto", "mpi", "direct")


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
    wire_up: str = "auto"
    """How aggregators learn of each other: ``mpi``, ``direct`` (without MPI), or ``auto``."""
    stop_on_error: bool = True
    """Interrupt the rest of a run when one of its ranks gets a fatal signal."""
    verbose: bool = False
    """Tell how ranks were found, and every step of the start."""

    def changed(
        self, *, timeout_s: float | None = None, stop_on_error: bool | None = None
    ) -> SessionOptions:
        """Return these options with those changed that can be while a session lasts."""
        return replace(
            self,
            timeout_s=self.timeout_s if timeout_s is None else timeout_s,
            stop_on_error=self.stop_on_error if stop_on_error is None else stop_on_error,
        )

    def __post_init__(self) -> None:
        if self.aggregators < 1:
            raise UsageError(f"--aggregators {self.aggregators}: at least 1 is needed")
        if self.fan_out < 1:
            raise UsageError(f"--fan-out {self.fan_out}: at least 1 is needed")
        for name in ("start_timeout_s", "timeout_s", "grace_s"):
            if getattr(self, name) <= 0:
                raise UsageError(f"{name} must be more than 0 s, not {getattr(self, name):g}")
        if self.wire_up not in WIRE_UPS:
            raise UsageError(f"wire-up {self.wire_up!r} is none of {', '.join(WIRE_UPS)}")
