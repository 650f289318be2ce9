"""One row of the table, and the CPU and memory of processes."""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One line of the table: a measurement in each round, and its reference."""

    name: str
    reference: str
    values: tuple[float, ...]
    """One value for each round: a ratio to the reference, or the quantity in *reference*."""
    target: float
    """Largest median that meets the target."""
    note: str = ""

    @property
    def median(self) -> float:
        """The median of all rounds."""
        return statistics.median(self.values)

    @property
    def is_met(self) -> bool:
        """Whether the median is within the target."""
        return self.median <= self.target


_AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")


def report_autogroup(switch: Path = _AUTOGROUP) -> None:
    """Print a warning if the kernel schedules each session as one group: figures can be wrong."""
    with contextlib.suppress(OSError):
        if switch.read_text(encoding="ascii").strip() == "1":
            print(
                "kernel.sched_autogroup_enabled is 1: ranks that yield can starve other sessions, "
                "and times vary by minutes; as root: sysctl -w kernel.sched_autogroup_enabled=0",
                file=sys.stderr,
                flush=True,
            )


def pss_bytes(pids: Iterable[int]) -> int:
    """Return the sum of the proportional set sizes of processes; an ended one has none."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


def cpu_s(pids: Iterable[int]) -> float:
    """Return the sum of the CPU seconds of processes; an ended one has none.

    CPU clocks are read, because /proc/PID/stat counts in hundredths of a second only.
    """
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            # The kernel's number of the clock of a process: linux/posix-timers.h.
            total += time.clock_gettime((~pid << 3) | 2)
    return total
