"""The rank in GDB's own words: convenience variables."""

from __future__ import annotations

import socket

from pgdb.backend.gdb.mi import console, quote
from pgdb.backend.gdb.process import GUARD
from pgdb.backend.gdb.session import GdbSession
from pgdb.jobs import procfs
from pgdb.jobs.rank_environment import RankIdentity, rank_environment


def define(gdb: GdbSession, rank: int, pid: int) -> None:
    """Define the rank's variables in its GDB, and refuse there what takes the rank away.

    Nobody waits for that: GDB carries out commands in their order.
    """
    own = (*definitions(rank, pid), console(GUARD))
    if gdb.is_asked_only:
        # PGDB's questions name no variable, and many sessions ask nothing else.
        gdb.put_off(*own)
    else:
        gdb.ask_together(*own)


def definitions(rank: int, pid: int) -> list[str]:
    """Return the commands that define ``$_rank``, ``$_size``, ``$_host`` and ``$_world``.

    The front end changes ``$_world`` in ranks that MPI_Comm_spawn has started.

    A variable that the user has defined stays.
    """
    return definitions_for(rank, rank_environment(procfs.environment(pid) or {}))


def definitions_for(rank: int, identity: RankIdentity | None) -> list[str]:
    """Return the commands for a rank whose environment names *identity*."""
    values = {"_rank": str(rank), "_host": quote(socket.gethostname()), "_world": "0"}
    if identity is not None and identity.size is not None:
        values["_size"] = str(identity.size)
    return [console(f"init-if-undefined ${name} = {value}") for name, value in values.items()]
