"""Environment variables and words that configure an aggregator before it has a link.

The anchor needs nothing else of PGDB, so this module imports nothing.
"""

from __future__ import annotations

RENDEZVOUS_VARIABLE = "PGDB_RENDEZVOUS"
"""Environment variable with the path of the rendezvous file."""
RENDEZVOUS_TEXT_VARIABLE = "PGDB_RENDEZVOUS_TEXT"
"""The rendezvous itself, if neither a file nor standard input reaches every aggregator."""
WIRE_UP_VARIABLE = "PGDB_WIRE_UP"
"""``mpi`` (the default) or ``direct``; a process with this variable is one of ours."""
FIRST_NODE_VARIABLE = "PGDB_FIRST_NODE"
"""Number of the launcher's rank 0 among the aggregators, if several launchers start them."""
WATCH_INPUT_VARIABLE = "PGDB_WATCH_INPUT"
"""Set if the end of standard input means that the starter of the aggregator (ssh) is gone."""
USER_PYTHONPATH_VARIABLE = "PGDB_USER_PYTHONPATH"
"""The user's PYTHONPATH, which the Python inside GDB gets."""
USER_LIBRARY_PATH_VARIABLE = "PGDB_USER_LD_LIBRARY_PATH"
"""The user's LD_LIBRARY_PATH, which GDB gets."""
USER_SEARCH_PATH_VARIABLE = "PGDB_USER_PATH"
"""The user's PATH, by which the GDB is found: Open MPI puts a directory of its own first."""

SYMBOL_PREFETCH_VARIABLE = "PGDB_SYMBOL_PREFETCH"
"""``PID:START:GDB``: a rank of the front end's host, its start time (in ticks since the boot), and
the GDB to run. That GDB reads the symbols of the rank's program while MPI starts."""

AGGREGATOR_NAME = "pgdb-aggregator"
"""Name of a daemon in process lists."""
BEAT_S = 2.0
"""Seconds between two heartbeats of a daemon to its anchor."""
HANGS_S = 60.0
"""Seconds without a heartbeat after which the anchor ends the daemon; its GDBs then detach."""
LEAVE_HANGS_S = 5.0
"""The same limit once the daemon was asked to leave."""

CALL_WORD = "pgdb-aggregator"
"""First word of the line ``pgdb-aggregator NODE HOST:PORT`` for a front end that calls."""
CANNOT_JOIN = 3
"""Exit status of a daemon that could not join the tree, and then of its anchor. Its launcher ends
the others as well, and the next step need not wait for them."""
