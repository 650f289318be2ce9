"""The aggregator's part in the tree, after its anchor's first message."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys

from pgdb.backend.node.aggregator import Aggregator, Place
from pgdb.backend.rank.protocol import OpenFactory
from pgdb.bootstrap_env import BEAT_S
from pgdb.overlay import addresses
from pgdb.overlay.channel import listen_on
from pgdb.overlay.rendezvous import Rendezvous
from pgdb.overlay.topology import Topology

LOG = logging.getLogger(__name__)

# The table of all aggregators' addresses is one line.
_LINE_LIMIT_BYTES = 1 << 26


def host_for_links(rendezvous: Rendezvous) -> str:
    """Return this host's address for links with the front end, or else with the other hosts."""
    if rendezvous.front_end:
        host, _, port = rendezvous.front_end.rpartition(":")
        if (address := addresses.source_address((host, int(port)))) is not None:
            return address
    elif not rendezvous.hosts and "SLURM_PROCID" not in os.environ:
        # All aggregators are on this host, with the front end, or with the ssh that tunnels its
        # link.
        return "127.0.0.1"
    own = addresses.own_names()
    return addresses.address_towards(host for host in rendezvous.hosts if host not in own)


async def serve(open_factory: OpenFactory) -> bool:
    """Run the aggregator at the place that the anchor assigns; return whether it joined the
    session."""
    # NumPy's linear algebra would start an idle thread for each core when it is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    loop = asyncio.get_running_loop()
    anchor = asyncio.StreamReader(limit=_LINE_LIMIT_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(anchor), sys.stdin.buffer)
    line = await anchor.readline()
    if not line:
        return True  # the anchor is gone, and reads no status
    rendezvous = Rendezvous.parse(line)
    host = host_for_links(rendezvous)
    listening = socket.create_server((host, 0), backlog=1024)
    own_address = f"{host}:{listening.getsockname()[1]}"
    calls = "calls" if rendezvous.front_end else "called"
    os.write(1, f"{own_address} {calls}\n".encode("ascii"))
    beats = os.dup(1)
    os.set_blocking(beats, False)
    # Nobody reads the output of libraries, and it must not block us.
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
    return await _serve(Aggregator(place, open_factory), place, listening, anchor, beats)


async def _serve(
    aggregator: Aggregator,
    place: Place,
    listening: socket.socket,
    anchor: asyncio.StreamReader,
    beats: int,
) -> bool:
    """Run the aggregator; return whether it joined the session."""

    async def watch_anchor() -> None:
        await anchor.read()
        LOG.warning("the launcher has ended")
        aggregator.leave()

    listener = await listen_on(listening, place.credentials, aggregator.serve_link)
    # The anchor finalizes MPI meanwhile.
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
    """Send heartbeats to the anchor."""
    while True:
        # The other pipe reports the anchor's end.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(beats, b".")
        await asyncio.sleep(BEAT_S)
