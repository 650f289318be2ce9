"""The options of ``pgdb run``, checked."""

from __future__ import annotations

from typing import Literal

import msgspec

from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.run.places import Place

Then = Literal["kill", "continue", "hold"]
THEN: tuple[Then, ...] = ("kill", "continue", "hold")


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The events that ``pgdb run`` watches for, and its reactions."""

    line: tuple[str, ...]
    """The launcher's line, or a program's."""
    session: SessionOptions = msgspec.field(default_factory=SessionOptions)
    """Options of the sessions that look at the job."""
    outputs: tuple[str, ...] = ()
    """Files of the report; the suffix decides the form."""
    hang_after_s: float = 0.0
    """Time without progress after which a job counts as hanging; 0 for never."""
    before_timeout_s: float = 0.0
    """Time before the job's time limit at which a report is made; 0 for none."""
    wall_time_s: float = 0.0
    """The job's time limit from now on; 0 to ask the batch system."""
    then: Then = "continue"
    exit_code: Literal["pgdb", "job"] = "pgdb"
    with_gdb: bool = False
    """Whether every rank has a GDB from its start."""
    breakpoints: tuple[Place, ...] = ()
    traces: tuple[Place, ...] = ()
    checks: tuple[Place, ...] = ()
    snapshot_every_s: float = 0.0
    watch: bool = True
    """Whether each rank has a watcher as its parent."""
    output_by_rank: bool = False
    """Whether a relay beside each rank keeps the end of its output apart."""
    cores: bool = True
    """Whether ranks may write core files up to the hard limit."""
    look_s: float = 60.0
    """Longest time for one look at the stacks of a job."""
    quiet: bool = False
    """Whether nothing is printed beside the job's own output."""

    @property
    def needs_gdb(self) -> bool:
        """Whether the job runs under GDBs from its start."""
        return self.with_gdb or bool(self.breakpoints or self.traces or self.checks)


def in_words(seconds: float) -> str:
    """Return a duration for people.

    >>> in_words(0.5), in_words(90), in_words(600), in_words(7200)
    ('0.5 s', '90 s', '10 min', '2 h')
    """
    for unit_s, name, least in ((3600, "h", 3600), (60, "min", 180)):
        if seconds >= least and seconds % unit_s == 0:
            return f"{seconds / unit_s:.0f} {name}"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"
