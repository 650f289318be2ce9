"""What the front end tells the aggregators before there is a link to them."""

from __future__ import annotations

import json
from typing import Final

import msgspec

RENDEZVOUS_VARIABLE: Final = "PGDB_RENDEZVOUS"
"""Environment variable with the path of the rendezvous file."""
RENDEZVOUS_TEXT_VARIABLE: Final = "PGDB_RENDEZVOUS_TEXT"
"""The rendezvous itself, where no file and no standard input reaches every aggregator."""
WIRE_UP_VARIABLE: Final = "PGDB_WIRE_UP"
"""``mpi`` (the default) or ``direct``; whoever has it in the environment is one of ours."""
FIRST_NODE_VARIABLE: Final = "PGDB_FIRST_NODE"
"""Number of the launcher's rank 0 among the aggregators, where several launchers start them."""
WATCH_INPUT_VARIABLE: Final = "PGDB_WATCH_INPUT"
"""Set where the end of standard input means that what started the aggregator is gone (ssh)."""
USER_PYTHONPATH_VARIABLE: Final = "PGDB_USER_PYTHONPATH"
"""The PYTHONPATH before ours, which the Python inside GDB gets."""
USER_LIBRARY_PATH_VARIABLE: Final = "PGDB_USER_LD_LIBRARY_PATH"
"""The LD_LIBRARY_PATH before ours, which GDB gets."""

CALL_WORD: Final = "pgdb-aggregator"
"""Begins the line ``pgdb-aggregator NODE HOST:PORT`` for a front end that calls."""
MAX_HINTS = 8
CANNOT_JOIN: Final = 3
"""Exit status of a daemon that never got into the tree, and then of its anchor: its launcher
ends the others as well, and what is to be done next need not wait for them."""


class Rendezvous(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the front end tells all aggregators before the wire-up."""

    credentials: str
    front_end: str
    """``host:port`` at which the front end listens; empty if it calls the aggregators."""
    fan_out: int
    count: int
    grace_s: float
    hosts: tuple[str, ...] = ()
    """Some of the aggregators' hosts, by which each finds the address for its own links."""

    @classmethod
    def parse(cls, text: str | bytes) -> Rendezvous:
        """Read a rendezvous as :meth:`dump` wrote it.

        :raises msgspec.DecodeError: if it is none.
        """
        return msgspec.json.decode(text, type=cls)

    def dump(self) -> str:
        """Return the rendezvous as one line of ASCII, whatever the locale of its reader."""
        return json.dumps(msgspec.to_builtins(self))
