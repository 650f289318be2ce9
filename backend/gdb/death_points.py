"""Stops before a rank dies: breakpoints in the functions that end a process or a job.

The functions are called only by a program that dies, so that the breakpoints cost nothing before.
They come before the launcher learns of the death, which would end the other ranks. GDB itself stops
at fatal signals: ``abort``, a failed assertion and an uncaught C++ exception need no breakpoint.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence

import msgspec

from pgdb.backend.gdb.sanitizer_reports import REPORT_STACK
from pgdb.patterns import pattern

CATCH = pattern(r"\s*(t?)cat(?:c|ch)?\s+death(?!\S)\s*(.*)\Z")
"""The command; groups: ``t`` of ``tcatch``, and what follows."""

# The registers of the first integer arguments, 32 bits of them where they have a name.
_REGISTERS = {
    "x86_64": ("$edi", "$esi", "$edx"),
    "aarch64": ("$w0", "$w1", "$w2"),
    "ppc64le": ("$r3", "$r4", "$r5"),
    "riscv64": ("$a0", "$a1", "$a2"),
}
# A function that the dying function calls ends the process, too, and is deeper in the same stack.
# One stop for each death is enough: the condition keeps the stack pointer of the last one.
_NEWS = (
    "!($_pgdb_death >= (long) $sp && $_pgdb_death - (long) $sp < 1048576)"
    " && ($_pgdb_death = (long) $sp)"
)
_INITIALIZED, _FINALIZED = 1, 2
"""Values of ``$_pgdb_mpi``; it is 0 where nobody has seen MPI_Init."""
RESET = (
    "set $_pgdb_death = 0",
    "set $_pgdb_mpi = 0",
    f"init-if-undefined {REPORT_STACK} = 0",
)
"""GDB commands that come before the breakpoints."""
# The stop at a sanitizer's report was near in the same stack, if the report ends the process.
_NOT_REPORTED = f" && !({REPORT_STACK} - (long) $sp < 65536 && (long) $sp - {REPORT_STACK} < 65536)"


class Point(msgspec.Struct, frozen=True):
    """A function that ends the process or the job."""

    function: str
    """Name, or ``*ADDRESS``."""
    call: str = ""
    """The call in words, with ``{}`` for the status or error code."""
    argument: int | None = None
    """Number of the argument with the status or error code."""
    is_exit: bool = False
    """Whether the function ends a program that does well, with the status 0."""
    is_last: bool = False
    """Whether the process ends in the function itself: handlers of ``atexit`` have run."""
    is_of_mpi: bool = False
    """Whether it is in the MPI library, which a program may load when it runs."""
    begins: int = 0
    """State of MPI that begins with the function, which ends nothing: no rank stops there."""
    follows_report: bool = False
    """Whether a sanitizer calls it after its report, at which the rank has stopped."""

    @property
    def register(self) -> str:
        """The register of the argument, empty if it is unknown on this machine."""
        registers = _REGISTERS.get(platform.machine(), ())
        return registers[self.argument] if self.argument is not None and registers else ""

    @property
    def is_known(self) -> bool:
        """Whether PGDB can distinguish a good end from a death on this machine."""
        return bool(self.register) or not self.is_exit

    @property
    def condition(self) -> str:
        """The condition of the breakpoint, in C."""
        if self.begins:
            return f"($_pgdb_mpi = {self.begins}) && 0"
        news = f"{_NEWS}{_NOT_REPORTED}" if self.follows_report else _NEWS
        if not self.is_exit:
            return news
        is_bad = f"({self.register} & 255) != 0"
        # A handler of atexit may call MPI_Finalize, as mpi4py does.
        is_bad = f"({is_bad} || $_pgdb_mpi == {_INITIALIZED})" if self.is_last else is_bad
        return f"{is_bad} && {news}"

    def command(self, place: str, *, is_pending: bool) -> str:
        """Return the GDB command for the breakpoint at *place*: the function, or ``*ADDRESS``.

        :param is_pending: whether the library with the function may be loaded later.
        """
        # The condition is one of C in a program of any language.
        return (
            f"with breakpoint pending {'on' if is_pending else 'off'} -- with language c -- "
            f"break -qualified {place} if {self.condition}"
        )

    def words(self, value: int | None) -> str:
        """Return the call in words, with the value of its argument if that is known."""
        if value is None:
            return self.call.format("…")
        if self.is_exit and not value & 255:
            return "exit status 0 without MPI_Finalize"
        return self.call.format(value & 255 if self.is_exit else value)


POINTS: Sequence[Point] = (
    Point("PMPI_Abort", "MPI_Abort(comm, {})", 1, is_of_mpi=True),
    Point("ompi_mpi_abort", argument=1, is_of_mpi=True),
    Point("MPID_Abort", argument=2, is_of_mpi=True),
    Point("exit", "exit({})", 0, is_exit=True),
    Point("_exit", "_exit({})", 0, is_exit=True, is_last=True),
    Point("quick_exit", "quick_exit({})", 0, is_exit=True),
    Point("__sanitizer::Die", "the sanitizer ends the process", follows_report=True),
    Point("PMPI_Init", is_of_mpi=True, begins=_INITIALIZED),
    Point("PMPI_Init_thread", is_of_mpi=True, begins=_INITIALIZED),
    Point("PMPI_Finalize", is_of_mpi=True, begins=_FINALIZED),
)
