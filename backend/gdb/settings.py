"""The settings that every GDB gets before it attaches to its rank."""

from __future__ import annotations

import signal

import msgspec

INTERRUPT = signal.SIGURG
"""The signal that stops a rank. SIGINT, which -exec-interrupt sends, kills a rank to which it
is delivered after a detach; SIGURG does nothing by default."""
IGNORE_INTERRUPT = f"handle {INTERRUPT.name} nostop noprint nopass"
"""The handling of that signal in every GDB, except while an interrupt is in flight."""


class Setting(msgspec.Struct, frozen=True):
    """A GDB command."""

    command: str
    must: bool = True
    """Whether a GDB that refuses the command cannot be used."""


USE_INDEX_CACHE = "set index-cache enabled on"

# Confirmations and pagination would wait for ever; worker threads compete for the cores of the job,
# and do not survive a fork; debuginfod would access the network.
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
    # Launchers send SIGCONT to all ranks of a job that they end; it needs no report.
    Setting("handle SIGCONT nostop noprint pass"),
    # An interrupted call must not leave the rank in the middle of it: the return address is invalid
    # once GDB has detached from the rank.
    Setting("set unwindonsignal on"),
    # At a warning of its own a GDB without a terminal answers for the user, and ends.
    Setting("maint set internal-warning quit no", must=False),
    Setting("maint set internal-warning corefile no", must=False),
    Setting("maint set demangler-warning quit no", must=False),
    # Some GDBs do not know these; without them all works, only slower.
    Setting("set debuginfod enabled off", must=False),
    Setting("maint set worker-threads 0", must=False),
    # "x@entry=5" beside "x=5" makes frames of optimised libraries twice as long.
    Setting("set print entry-values no", must=False),
    # Its refusal shows that GDB was built without Python.
    Setting("python pass", must=False),
)


def settings(*, index_cache: bool) -> tuple[Setting, ...]:
    """Return the settings of every GDB, with or without GDB's index cache."""
    return (*SETTINGS, Setting(USE_INDEX_CACHE, must=False)) if index_cache else SETTINGS


DEPTH = "print max-depth"
"""A setting of the user's that has another value for PGDB's questions."""
GDBS_DEPTH = "20"
OWN_DEPTH = Setting(f"set {DEPTH} 0", must=False)
"""PGDB's value, which a nursery has for all GDBs that it forks."""
RESTORE_DEPTH = f"-gdb-set {DEPTH} {GDBS_DEPTH}"
"""MI command that gives it GDB's own value again."""
