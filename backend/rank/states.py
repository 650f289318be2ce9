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
    """The debugger has not touched the process."""

    run: int = 0


class Attaching(msgspec.Struct, frozen=True):
    """The debugger attaches to the process."""

    run: int = 0


class Stopped(msgspec.Struct, frozen=True):
    """The rank is stopped; *run* has ended, 0 for none."""

    run: int = 0


class Resuming(msgspec.Struct, frozen=True):
    """The command of *run* was sent; the debugger has not reported that the rank runs."""

    run: int
    before: int
    """Number of the run before; a stop that comes now belongs to that run."""
    interrupt: Literal["no", "wanted", "armed"] = "no"
    """``wanted``: the rank is interrupted as soon as it runs. ``armed``: a pending signal stops
    it."""


class Running(msgspec.Struct, frozen=True):
    """The rank runs."""

    run: int


class Interrupting(msgspec.Struct, frozen=True):
    """The rank runs, and the debugger stops it at our interrupt signal."""

    run: int


Motion = Unattached | Attaching | Stopped | Resuming | Running | Interrupting

# -- phases --------------------------------------------------------------------------------


class Acquiring(msgspec.Struct, frozen=True):
    """The debugger is started and attaches, or leads a held rank to its ``main``."""

    motion: Motion
    is_retried: bool
    is_awaited: bool = False
    """Whether an operation awaits the next stop."""


class Controlled(msgspec.Struct, frozen=True):
    """The debugger has the rank."""

    motion: Motion
    is_awaited: bool = False
    has_lost_process: bool = False
    """Whether the debugger has lost a process that may be the rank's."""


class Detaching(msgspec.Struct, frozen=True):
    """A user's request detaches the rank: interrupts it, and removes all that is ours."""

    motion: Motion
    is_awaited: bool = False


class Freeing(msgspec.Struct, frozen=True):
    """The debugger got the command to detach, and to end then."""

    motion: Motion
    is_awaited: bool = False


class Ending(msgspec.Struct, frozen=True):
    """The debugger is being ended, with or without a detach; no event is reported."""

    motion: Motion
    is_awaited: bool = False
    is_freeing: bool = False
    """Whether the debugger got the command to detach and to end then."""


Live = Acquiring | Controlled | Detaching | Freeing | Ending

# -- before and after ----------------------------------------------------------------------


class New(msgspec.Struct, frozen=True):
    """No debugger was attached."""


class Exited(msgspec.Struct, frozen=True):
    """The program has ended."""

    end: Exit | None
    """None if it had ended before a debugger could attach."""


class Detached(msgspec.Struct, frozen=True):
    """The rank runs on without a debugger, as was asked."""


class Gone(msgspec.Struct, frozen=True):
    """The debugger has died or was ended by force; the rank runs on."""

    why: str


RankState = New | Live | Exited | Detached | Gone
