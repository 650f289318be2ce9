"""``python -m pgdb.backend``: what the MPI launcher starts on the job's hosts.

It starts the aggregator's daemon, wires it up, and stays as its anchor: blocked in wait, so
that the launcher's job lasts as long as the daemon, and exits 0 when it has ended. The daemon
is started first, so that its imports overlap with those of MPI, and so that nothing of MPI's
threads and descriptors is in it.
"""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys

from pgdb.backend.wireup import wire_up


def main() -> int:
    """Start, wire up and wait for one aggregator; return the exit status."""
    logging.basicConfig(format="%(asctime)s anchor[%(process)d] %(message)s")
    daemon = subprocess.Popen(
        [sys.executable, "-P", "-m", "pgdb.backend.daemon"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert daemon.stdin is not None and daemon.stdout is not None
    to_daemon, from_daemon = daemon.stdin, daemon.stdout

    def own_address(front_end: str) -> str:
        host = _address_towards(front_end)
        to_daemon.write(host.encode("ascii") + b"\n")
        to_daemon.flush()
        port = from_daemon.readline().decode("ascii").strip()
        if not port:
            raise SystemExit("pgdb: the aggregator's daemon did not start; its message is above")
        return f"{host}:{port}"

    wiring = wire_up(own_address)
    place = {
        "node": wiring.node,
        "count": wiring.rendezvous.count,
        "fan_out": wiring.rendezvous.fan_out,
        "credentials": wiring.rendezvous.credentials,
        "front_end": wiring.rendezvous.front_end,
        "grace_s": wiring.rendezvous.grace_s,
        "addresses": wiring.addresses,
    }
    to_daemon.write(json.dumps(place).encode("ascii") + b"\n")
    to_daemon.flush()
    daemon.wait()
    return 0


def _address_towards(front_end: str) -> str:
    """Return the address of this host from which *front_end* (``host:port``) is reached."""
    host, _, port = front_end.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Connecting a datagram socket sends nothing; it asks the kernel for the route.
        probe.connect((host, int(port)))
        return str(probe.getsockname()[0])


if __name__ == "__main__":
    sys.exit(main())
