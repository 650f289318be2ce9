"""The aggregator's process: forked from its anchor, in a session of its own.

The anchor (:mod:`pgdb.backend.__main__`) is a process of the MPI launcher. The two
speak through the daemon's standard input and output, as :mod:`pgdb.backend.wireup` says; the end
of that pipe is the end of the anchor, and with it of the daemon.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import MutableMapping

from pgdb.backend.aggregator import Aggregator, Place
from pgdb.backend.headstart import HeadStart, Hint
from pgdb.controls import HarmlessFormatter
from pgdb.jobs import procfs
from pgdb.jobs.placement import absolute_parts
from pgdb.overlay import addresses
from pgdb.overlay.channel import listen_on
from pgdb.overlay.rendezvous import (
    CANNOT_JOIN,
    RENDEZVOUS_TEXT_VARIABLE,
    USER_LIBRARY_PATH_VARIABLE,
    USER_PYTHONPATH_VARIABLE,
    Rendezvous,
)
from pgdb.overlay.topology import Topology
from pgdb.overlay.words import BEAT_S

LOG = logging.getLogger("pgdb.backend.daemon")

# The table of all aggregators' addresses is one line.
_LINE_LIMIT_BYTES = 1 << 26


def main() -> None:
    """Run one aggregator until it leaves."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        HarmlessFormatter(f"%(asctime)s {socket.gethostname()} aggregator[%(process)d] %(message)s")
    )
    logging.basicConfig(level=os.environ.get("PGDB_LOG_LEVEL", "WARNING"), handlers=[handler])
    hint = Hint.take(os.environ)
    clean_environment(os.environ)
    identity = procfs.rank_environment(os.environ)
    rank, size = (identity.rank, identity.size or 1) if identity is not None else (0, 1)
    os.write(1, f"{rank} {size}\n".encode("ascii"))
    if not asyncio.run(_run(hint)):
        sys.exit(CANNOT_JOIN)


def clean_environment(environment: MutableMapping[str, str]) -> None:
    """Take out of our environment what GDB must not get from us.

    That is the session's key, which the anchor has read, and search paths that begin nowhere: they
    mean the working directory, and somebody else's files may be there.
    """
    environment.pop(RENDEZVOUS_TEXT_VARIABLE, None)
    for name in (USER_PYTHONPATH_VARIABLE, USER_LIBRARY_PATH_VARIABLE):
        if name in environment:
            environment[name] = absolute_parts(environment[name])


def host_for_links(rendezvous: Rendezvous) -> str:
    """Return the address of this host for links with the front end, or else the other hosts."""
    if rendezvous.front_end:
        host, _, port = rendezvous.front_end.rpartition(":")
        if (address := addresses.source_address((host, int(port)))) is not None:
            return address
    elif not rendezvous.hosts and "SLURM_PROCID" not in os.environ:
        # All aggregators are here, and so is the front end, or the ssh that brings its link.
        return "127.0.0.1"
    own = addresses.own_names()
    return addresses.address_towards(host for host in rendezvous.hosts if host not in own)


async def _run(hint: Hint | None) -> bool:
    """Run the aggregator where it is told to; return whether it has been part of the session."""
    head_start = HeadStart.begin(hint)
    try:
        return await _run_where_told(head_start)
    finally:
        if head_start is not None:
            await head_start.close()


async def _run_where_told(head_start: HeadStart | None) -> bool:
    loop = asyncio.get_running_loop()
    anchor = asyncio.StreamReader(limit=_LINE_LIMIT_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(anchor), sys.stdin.buffer)
    line = await anchor.readline()
    if not line:
        return True  # the anchor is gone, and has no use for a status
    rendezvous = Rendezvous.parse(line)
    host = host_for_links(rendezvous)
    listening = socket.create_server((host, 0), backlog=1024)
    own_address = f"{host}:{listening.getsockname()[1]}"
    calls = "calls" if rendezvous.front_end else "called"
    os.write(1, f"{own_address} {calls}\n".encode("ascii"))
    beats = os.dup(1)
    os.set_blocking(beats, False)
    # What a library prints is for nobody, and must not block us.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    words = (await anchor.readline()).decode("ascii").split()
    if not words:
        return True
    place = Place(
        node=int(words[0]),
        topology=Topology(count=rendezvous.count, fan_out=rendezvous.fan_out),
        credentials=rendezvous.credentials.encode("ascii"),
        front_end=rendezvous.front_end,
        grace_s=rendezvous.grace_s,
        own_address=own_address,
        addresses=tuple(words[1:]),
    )
    return await _serve(Aggregator(place, head_start), place, listening, anchor, beats)


async def _serve(
    aggregator: Aggregator,
    place: Place,
    listening: socket.socket,
    anchor: asyncio.StreamReader,
    beats: int,
) -> bool:
    """Run the aggregator; return whether it has been part of the session."""

    async def watch_anchor() -> None:
        await anchor.read()
        LOG.warning("the launcher has ended")
        aggregator.leave()

    listener = await listen_on(listening, place.credentials, aggregator.serve_link)
    # The anchor leaves MPI meanwhile.
    if not await anchor.readline():
        await listener.close()
        return True
    watching = asyncio.create_task(watch_anchor())
    beating = asyncio.create_task(_beat(beats))
    await aggregator.run()
    if aggregator.failure:
        sys.stderr.write(f"pgdb: {socket.gethostname()} {aggregator.failure}\n")
    watching.cancel()
    beating.cancel()
    await listener.close()
    return not aggregator.failure


async def _beat(beats: int) -> None:
    """Show the anchor that we get on."""
    while True:
        # Its end is told by the other pipe.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(beats, b".")
        await asyncio.sleep(BEAT_S)
