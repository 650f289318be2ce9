"""The aggregator's process: a fresh interpreter in a session of its own.

Started by its anchor (:mod:`pgdb.backend.__main__`), a process of the MPI launcher. The two
speak through the daemon's standard input and output: the anchor says on which address to listen,
the daemon at which port it does, the anchor what its place is; the end of that pipe is the end of
the anchor, and with it of the daemon.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import socket
import sys
from typing import Any

from pgdb.backend.aggregator import Aggregator, Place
from pgdb.overlay.channel import listen_on
from pgdb.overlay.rendezvous import CANNOT_JOIN
from pgdb.overlay.topology import Topology

LOG = logging.getLogger("pgdb.backend.daemon")


def main() -> None:
    """Run one aggregator until it leaves."""
    logging.basicConfig(
        stream=sys.stderr,
        level=os.environ.get("PGDB_LOG_LEVEL", "WARNING"),
        format=f"%(asctime)s {socket.gethostname()} aggregator[%(process)d] %(message)s",
    )
    # A GDB that aborts must not leave a core file in the user's directory.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    host = sys.stdin.buffer.readline().decode("ascii").strip()
    if not host:
        return
    listening = socket.create_server((host, 0), backlog=1024)
    port = listening.getsockname()[1]
    os.write(1, f"{port}\n".encode())
    # From now on nobody reads our output; what a library prints must not block us.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    line = sys.stdin.buffer.readline()
    if not line:
        return
    told: dict[str, Any] = json.loads(line)
    place = Place(
        node=told["node"],
        topology=Topology(count=told["count"], fan_out=told["fan_out"]),
        credentials=told["credentials"].encode("ascii"),
        front_end=told["front_end"],
        grace_s=told["grace_s"],
        own_address=f"{host}:{port}",
        addresses=tuple(told["addresses"]),
    )
    if not asyncio.run(_serve(place, listening)):
        sys.exit(CANNOT_JOIN)


async def _serve(place: Place, listening: socket.socket) -> bool:
    """Run the aggregator; return whether it has been part of the session."""
    aggregator = Aggregator(place)
    loop = asyncio.get_running_loop()
    anchor = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(anchor), sys.stdin.buffer)

    async def watch_anchor() -> None:
        await anchor.read()
        LOG.warning("the launcher has ended")
        aggregator.leave()

    listener = await listen_on(listening, place.credentials, aggregator.serve_link)
    watching = asyncio.create_task(watch_anchor())
    await aggregator.run()
    if aggregator.failure:
        sys.stderr.write(f"pgdb: {socket.gethostname()} {aggregator.failure}\n")
    watching.cancel()
    await listener.close()
    return not aggregator.failure


if __name__ == "__main__":
    main()
