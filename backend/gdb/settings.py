"""What every GDB is told before it sees its rank."""

from __future__ import annotations

import signal

import msgspec

INTERRUPT = signal.SIGURG
"""The signal that stops a rank. SIGINT, which -exec-interrupt sends, kills a rank to which it
is delivered after a detach; SIGURG does nothing by default."""
IGNORE_INTERRUPT = f"handle {INTERRUPT.name} nostop noprint nopass"
"""What every GDB is told of it, but while an interrupt is under way."""


class Setting(msgspec.Struct, frozen=True):
    """A GDB command."""

    command: str
    must: bool = True
    """Whether a GDB that refuses it is of no use."""


USE_INDEX_CACHE = "set index-cache enabled on"

# GDB asks a printer of its own, in Python, about each value that it prints, if it may be a register
# of MPX: a tenth of what it computes for a stack. Only processors with MPX have those.
_NO_BOUND_REGISTERS = (
    'python [setattr(each, "enabled", False) for each in gdb.pretty_printers'
    ' if getattr(each, "name", "") == "builtin"'
    ' and [one.name for one in each.subprinters or ()] == ["mpx_bound128"]'
    ' and " mpx " not in open("/proc/cpuinfo").read(8192)]'
)

# Confirmations and pagination would wait for ever; worker threads compete for the cores of the
# job, and would not be there after a fork; debuginfod would ask the network.
SETTINGS = (
    Setting("set mi-async on"),
    Setting("set confirm off"),
    Setting("set pagination off"),
    Setting("set width 0"),
    Setting("set height 0"),
    Setting("set style enabled off"),
    Setting("set history save off"),
    Setting("set exec-file-mismatch off"),
    Setting("set auto-load local-gdbinit off"),
    Setting(IGNORE_INTERRUPT),
    # Launchers send it to all ranks of a job that they end; it is no news.
    Setting("handle SIGCONT nostop noprint pass"),
    # A call that is interrupted must not leave the rank in the middle of it: nothing is where it
    # would return to once GDB has let go of the rank.
    Setting("set unwindonsignal on"),
    # Unknown to some GDBs; without them everything works, only slower.
    Setting("set debuginfod enabled off", must=False),
    Setting("maint set worker-threads 0", must=False),
    # "x@entry=5" beside "x=5" makes frames of optimised libraries twice as long.
    Setting("set print entry-values no", must=False),
    Setting(_NO_BOUND_REGISTERS, must=False),
)


def settings(*, index_cache: bool) -> tuple[Setting, ...]:
    """Return what every GDB is told, with or without GDB's cache of what programs contain."""
    return (*SETTINGS, Setting(USE_INDEX_CACHE, must=False)) if index_cache else SETTINGS
