"""The aggregator's process: forked from its anchor, in a session of its own.

The anchor (:mod:`pgdb.backend.__main__`) is a process of the MPI launcher. The two communicate
through the daemon's standard input and output (protocol: :mod:`pgdb.backend.node.wireup`); the end
of that pipe means the end of the anchor, and ends the daemon. This module imports only what the
daemon needs before the anchor's first message; :mod:`pgdb.backend.node.serving` has the rest.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import sys
from collections.abc import MutableMapping

from pgdb.backend.zygote.symbol_prefetch import Hint, SymbolPrefetch
from pgdb.bootstrap_env import (
    CANNOT_JOIN,
    RENDEZVOUS_TEXT_VARIABLE,
    USER_LIBRARY_PATH_VARIABLE,
    USER_PYTHONPATH_VARIABLE,
    USER_SEARCH_PATH_VARIABLE,
)
from pgdb.controls import HarmlessFormatter
from pgdb.jobs.file_limit import raise_file_limit
from pgdb.jobs.placement import absolute_parts
from pgdb.jobs.rank_environment import rank_environment
from pgdb.overlay.own_process import mark_own

ILLEGAL_EVENTS_VARIABLE = "PGDB_ILLEGAL_EVENTS"
"""Environment variable with a file to which the rank machines append each event that they ignored.

The live tests set it, and fail if the file is not empty.
"""
RANK_MACHINE = "pgdb.backend.rank.machine"
"""Name of the rank machine's logger; to import the module here would delay the daemon's start."""


def main() -> None:
    """Run one aggregator until it leaves."""
    mark_own()
    # Each rank takes some files of its aggregator.
    raise_file_limit()
    handler = logging.StreamHandler()
    handler.setFormatter(
        HarmlessFormatter(f"%(asctime)s {socket.gethostname()} aggregator[%(process)d] %(message)s")
    )
    logging.basicConfig(level=os.environ.get("PGDB_LOG_LEVEL", "WARNING"), handlers=[handler])
    if path := os.environ.get(ILLEGAL_EVENTS_VARIABLE):
        append_illegal_events(path)
    hint = Hint.take(os.environ)
    clean_environment(os.environ)
    identity = rank_environment(os.environ)
    rank, size = (identity.rank, identity.size or 1) if identity is not None else (0, 1)
    os.write(1, f"{rank} {size}\n".encode("ascii"))
    if not asyncio.run(_run(hint)):
        sys.exit(CANNOT_JOIN)


def append_illegal_events(path: str) -> logging.Handler:
    """Append to the file what this process's rank machines report as errors; return the handler."""
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(HarmlessFormatter("%(message)s"))
    logging.getLogger(RANK_MACHINE).addHandler(handler)
    return handler


def clean_environment(environment: MutableMapping[str, str]) -> None:
    """Remove from our environment what GDB must not inherit.

    That is the session's key, which the anchor has read, and search paths without a directory: they
    mean the working directory, which may hold other users' files.
    """
    environment.pop(RENDEZVOUS_TEXT_VARIABLE, None)
    for name in (USER_PYTHONPATH_VARIABLE, USER_LIBRARY_PATH_VARIABLE):
        if name in environment:
            environment[name] = absolute_parts(environment[name])
    if path := environment.pop(USER_SEARCH_PATH_VARIABLE, ""):
        both = absolute_parts(f"{path}:{environment.get('PATH', '')}")
        environment["PATH"] = ":".join(dict.fromkeys(both.split(":")))


async def _run(hint: Hint | None) -> bool:
    symbol_prefetch = SymbolPrefetch.begin(hint)
    try:
        if symbol_prefetch is not None:
            await symbol_prefetch.begun()
        # GDB starts meanwhile; GDB's start needs only half of our imports.
        from pgdb.backend.gdb.debugger_factory import gdb_debuggers
        from pgdb.backend.node.serving import serve

        # The process began without the collector, for the imports.
        gc.freeze()
        gc.enable()
        return await serve(gdb_debuggers(symbol_prefetch))
    finally:
        if symbol_prefetch is not None:
            await symbol_prefetch.close()
