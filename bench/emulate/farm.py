"""An emulated job: processes that only sleep, and a GDB that makes up their stacks.

The GDB is a small program (fake_gdb.c), so thousands run on one machine under the real, unchanged
aggregators. The answers of a rank follow from its number and from the :class:`Plan`.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
DEPTH = 12
PROGRAM = "ranks"
"""The program of the ranks."""
ARM_FAULTS = "set var $faults = 1"
"""The command that makes ranks late, silent or dead from then on; the start is undisturbed."""

_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Plan:
    """The properties of the ranks; the same plan makes the same job."""

    ranks: int
    classes: int = 5
    is_random: bool = False
    """Whether classes are random; otherwise they are blocks of ranks."""
    seed: int = 1
    depth: int = DEPTH
    """Number of frames of a stack."""
    delay_ms: int = 0
    """Longest delay of an answer in milliseconds, once faults are armed."""
    stop_ms: int = 20
    """Longest time in milliseconds until a rank reaches its next breakpoint."""
    late: Sequence[int] = ()
    late_ms: int = 0
    dying: Sequence[int] = ()
    silent: Sequence[int] = ()

    def label(self, rank: int) -> int:
        """Return the class of a rank; the program's `label_of` computes the same."""
        if self.is_random:
            return mix(self.seed << 32 ^ rank) % self.classes
        return rank * self.classes // self.ranks

    @property
    def definitions(self) -> dict[str, str]:
        """The macros for building fake_gdb.c."""
        return {
            "RANKS": str(self.ranks),
            "CLASSES": str(self.classes),
            "IS_RANDOM": str(int(self.is_random)),
            "SEED": str(self.seed),
            "DEPTH": str(self.depth),
            "DELAY_MS": str(self.delay_ms),
            "STOP_MS": str(self.stop_ms),
            "LATE": _list(self.late),
            "LATE_MS": str(self.late_ms),
            "DYING": _list(self.dying),
            "SILENT": _list(self.silent),
        }


@dataclass(frozen=True, slots=True)
class Farm:
    """A running job of emulated ranks."""

    plan: Plan
    gdb: Path
    """The program that stands in for GDB."""
    pids: tuple[int, ...]
    """Process of each rank."""


@contextlib.contextmanager
def running_farm(plan: Plan) -> Iterator[Farm]:
    """Build the programs and run the ranks as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="pgdb-emulate-") as folder:
        gdb = _build("fake_gdb.c", Path(folder), plan.definitions)
        ranks = _build(f"{PROGRAM}.c", Path(folder), {})
        with subprocess.Popen(
            [ranks, str(plan.ranks)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as job:
            assert job.stdin is not None and job.stdout is not None
            try:
                pids = [int(line) for line in iter(job.stdout.readline, "end\n") if line]
                yield Farm(plan, gdb, tuple(pids))
            finally:
                job.stdin.close()


def mix(number: int) -> int:
    """Return 64 bits that look random: the finalizer of SplitMix64, as in fake_gdb.c."""
    bits = (number + 0x9E3779B97F4A7C15) & _MASK
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
    return bits ^ (bits >> 31)


def _list(ranks: Sequence[int]) -> str:
    return '"' + "".join(f"{rank}," for rank in ranks) + '"'


def _build(source: str, folder: Path, definitions: dict[str, str]) -> Path:
    program = folder / Path(source).stem.replace("_", "-")
    flags = [f"-D{name}={value}" for name, value in definitions.items()]
    # The program is static: a dynamic linker would write to pages of every process.
    subprocess.run(
        ["cc", "-O1", "-static", "-Wall", *flags, "-o", program, HERE / source], check=True
    )
    return program
