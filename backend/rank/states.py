"""States of a rank under its debugger.

A live rank is in a *phase* (what its debugger is there for), and the phase holds a *motion* (what
the process does). The other states have no motion.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from pgdb.records import Exit

# -- motions -------------------------------------------------------------------------------


class Unattached(msgspec.Struct, frozen=True):
    """Life before the debugger has touched the process."""

    run: int = 0


class Attaching(msgspec.Struct, frozen=True):
    """Attachment of the debugger to the process."""

    run: int = 0


class Stopped(msgspec.Struct, frozen=True):
    """Stop of the rank; *run* has ended, 0 for none."""

    run: int = 0


class Resuming(msgspec.Struct, frozen=True):
    """Time from the command of *run* until the debugger reports that the rank runs."""

    run: int
    before: int
    """Number of the run before; a stop that comes now belongs to that run."""
    interrupt: Literal["no", "wanted", "armed"] = "no"
    """``wanted``: the rank is interrupted as soon as it runs. ``armed``: a pending signal stops
    it."""


class Running(msgspec.Struct, frozen=True):
    """Run of the rank."""

    run: int


class Interrupting(msgspec.Struct, frozen=True):
    """Run of the rank that the debugger ends at our interrupt signal."""

    run: int


Motion = Unattached | Attaching | Stopped | Resuming | Running | Interrupting

# -- phases --------------------------------------------------------------------------------


class Acquiring(msgspec.Struct, frozen=True):
    """Start and attachment of the debugger, up to ``main`` for a held rank."""

    motion: Motion
    is_retried: bool
    is_awaited: bool = False
    """Whether an operation awaits the next stop."""


class Controlled(msgspec.Struct, frozen=True):
    """Control of the rank by the debugger."""

    motion: Motion
    is_awaited: bool = False
    has_lost_process: bool = False
    """Whether the debugger has lost a process that may be the rank's."""


class Detaching(msgspec.Struct, frozen=True):
    """Detachment by a user's request: the rank is interrupted, and all that is ours removed."""

    motion: Motion
    is_awaited: bool = False


class Freeing(msgspec.Struct, frozen=True):
    """Detachment for which the debugger got the command to detach, and to end then."""

    motion: Motion
    is_awaited: bool = False


class Ending(msgspec.Struct, frozen=True):
    """End of the debugger, with or without a detach; no event is reported."""

    motion: Motion
    is_awaited: bool = False


class FreeingAtEnd(Ending, frozen=True):
    """End of a debugger that got the command to detach, and to end then."""


Live = Acquiring | Controlled | Detaching | Freeing | Ending

# -- before and after ----------------------------------------------------------------------


class New(msgspec.Struct, frozen=True):
    """Rank without a debugger until now."""


class Exited(msgspec.Struct, frozen=True):
    """End of the program."""

    end: Exit | None
    """None if it had ended before a debugger could attach."""


class Detached(msgspec.Struct, frozen=True):
    """Rank that runs on without a debugger, as was asked."""


class Gone(msgspec.Struct, frozen=True):
    """Rank that runs on after its debugger has died or was ended by force."""

    why: str


RankState = New | Live | Exited | Detached | Gone
