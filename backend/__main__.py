"""``python -m pgdb.backend``: what the MPI launcher starts on the job's hosts.

It starts the aggregator's daemon, wires it up, and stays as its anchor: blocked in wait, so
that the launcher's job lasts as long as the daemon, and exits 0 when that has ended. The daemon
is started first, so that its imports overlap with those of MPI, and so that nothing of MPI's
threads and descriptors is in it.
"""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import subprocess
import sys

from pgdb.backend.wireup import wire_up
from pgdb.overlay import addresses
from pgdb.overlay.rendezvous import CALL_WORD, CANNOT_JOIN, WATCH_INPUT_VARIABLE, Rendezvous


def main() -> int:
    """Start, wire up and wait for one aggregator; return the exit status."""
    logging.basicConfig(
        format=f"%(asctime)s {socket.gethostname()} anchor[%(process)d] %(message)s"
    )
    daemon = subprocess.Popen(
        [sys.executable, "-P", "-m", "pgdb.backend.daemon"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert daemon.stdin is not None and daemon.stdout is not None
    to_daemon, from_daemon = daemon.stdin, daemon.stdout

    def own_address(rendezvous: Rendezvous) -> str:
        host = _host_for_links(rendezvous)
        to_daemon.write(host.encode("ascii") + b"\n")
        to_daemon.flush()
        port = from_daemon.readline().decode("ascii").strip()
        if not port:
            raise SystemExit("pgdb: the aggregator's daemon did not start; its message is above")
        return f"{host}:{port}"

    wiring = wire_up(own_address)
    if not wiring.rendezvous.front_end and (wiring.node == 0 or not wiring.addresses):
        # One write: launchers pass lines on as they come.
        sys.stdout.write(f"{CALL_WORD} {wiring.node} {wiring.own_address}\n")
        sys.stdout.flush()
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
    if os.environ.get(WATCH_INPUT_VARIABLE):
        _wait_for(daemon)
        to_daemon.close()
    return CANNOT_JOIN if daemon.wait() == CANNOT_JOIN else 0


def _wait_for(daemon: subprocess.Popen[bytes]) -> None:
    """Wait until the daemon has ended, or our input has: ssh tells of its end in no other way."""
    poll = select.poll()
    poll.register(os.pidfd_open(daemon.pid), select.POLLIN)
    poll.register(0, select.POLLIN)
    while daemon.poll() is None:
        for descriptor, _ in poll.poll():
            if descriptor == 0 and not os.read(0, 4096):
                return


def _host_for_links(rendezvous: Rendezvous) -> str:
    """Return the address of this host for links with the front end, or else the other hosts."""
    if rendezvous.front_end:
        host, _, port = rendezvous.front_end.rpartition(":")
        if (address := addresses.source_address((host, int(port)))) is not None:
            return address
    own = addresses.own_names()
    return addresses.address_towards(host for host in rendezvous.hosts if host not in own)


if __name__ == "__main__":
    sys.exit(main())
