"""Names and words by which aggregators are told what they are before there is a link to them.

The anchor needs no more than these of all that the links are made of, so nothing is imported here.
"""

from __future__ import annotations

RENDEZVOUS_VARIABLE = "PGDB_RENDEZVOUS"
"""Environment variable with the path of the rendezvous file."""
RENDEZVOUS_TEXT_VARIABLE = "PGDB_RENDEZVOUS_TEXT"
"""The rendezvous itself, where no file and no standard input reaches every aggregator."""
WIRE_UP_VARIABLE = "PGDB_WIRE_UP"
"""``mpi`` (the default) or ``direct``; whoever has it in the environment is one of ours."""
FIRST_NODE_VARIABLE = "PGDB_FIRST_NODE"
"""Number of the launcher's rank 0 among the aggregators, where several launchers start them."""
WATCH_INPUT_VARIABLE = "PGDB_WATCH_INPUT"
"""Set where the end of standard input means that what started the aggregator is gone (ssh)."""
USER_PYTHONPATH_VARIABLE = "PGDB_USER_PYTHONPATH"
"""The PYTHONPATH before ours, which the Python inside GDB gets."""
USER_LIBRARY_PATH_VARIABLE = "PGDB_USER_LD_LIBRARY_PATH"
"""The LD_LIBRARY_PATH before ours, which GDB gets."""

SYMBOL_PREFETCH_VARIABLE = "PGDB_SYMBOL_PREFETCH"
"""``PID:START:GDB``: a rank of the front end's host, when it started (in ticks since the boot), and
the GDB to run: what its program's symbols can be read by while MPI comes up."""

AGGREGATOR_NAME = "pgdb-aggregator"
"""What a daemon is called in process lists."""
BEAT_S = 2.0
"""A daemon shows its anchor this often that it gets on."""
HANGS_S = 60.0
"""A daemon that has shown nothing for so long is ended by its anchor: its GDBs let go then."""
LEAVE_HANGS_S = 5.0
"""The same once it is to leave."""

CALL_WORD = "pgdb-aggregator"
"""Begins the line ``pgdb-aggregator NODE HOST:PORT`` for a front end that calls."""
CANNOT_JOIN = 3
"""Exit status of a daemon that never got into the tree, and then of its anchor: its launcher
ends the others as well, and what is to be done next need not wait for them."""
