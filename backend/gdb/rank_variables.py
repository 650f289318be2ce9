"""The rank in GDB's own words: convenience variables."""

from __future__ import annotations

import socket

from pgdb.backend.gdb.mi import console, quote
from pgdb.jobs import procfs
from pgdb.jobs.rank_environment import rank_environment


def definitions(rank: int, pid: int) -> list[str]:
    """Return the commands that define ``$_rank``, ``$_size``, ``$_host`` and ``$_world``.

    The front end changes ``$_world`` in ranks that MPI_Comm_spawn has started.

    A variable that the user has defined stays.
    """
    values = {"_rank": str(rank), "_host": quote(socket.gethostname()), "_world": "0"}
    identity = rank_environment(procfs.environment(pid) or {})
    if identity is not None and identity.size is not None:
        values["_size"] = str(identity.size)
    return [console(f"init-if-undefined ${name} = {value}") for name, value in values.items()]
