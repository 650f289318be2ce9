"""Discovery of the held ranks of one host."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct

from pgdb.jobs import hold, procfs

LOG = logging.getLogger(__name__)

_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid


class Collector:
    """Collector of the held ranks of this host, from the ranks' own reports.

    A rank that came before us is found in /proc; a rank that comes later sends a datagram. The
    kernel vouches for its process and user. Each rank's environment says how many are to come.
    """

    def __init__(self, mark: str, share: int, shares: int) -> None:
        self._mark = mark
        self._share = share
        self._shares = shares
        self._held: dict[int, int] = {}  # rank -> process id
        self.programs: dict[int, str] = {}
        """The program that each held rank is to execute, as its command line names it."""
        self._expected: int | None = None
        self._all_held = asyncio.Event()
        self._sockets: list[socket.socket] = []
        self.job_size = 0
        """Ranks in MPI_COMM_WORLD, 0 until the first one is held."""

    def listen(self) -> None:
        """Begin to receive datagrams, then search for ranks that are held already."""
        # Ranks that Slurm's own launcher did not start do not know Slurm's name of the node.
        for node in dict.fromkeys((os.environ.get("SLURMD_NODENAME", ""), "")):
            self._listen_at(hold.collector_address(self._mark, self._share, node))
        for pid in procfs.all_pids():
            self._look_at(pid)

    def close(self) -> None:
        """Stop listening."""
        for each in self._sockets:
            asyncio.get_running_loop().remove_reader(each)
            each.close()
        self._sockets.clear()

    async def wait_all(self) -> dict[int, int]:
        """Wait until all ranks of the share are held; return the process id of each.

        The caller brings the deadline: a rank may end, or never come.
        """
        await self._all_held.wait()
        return dict(sorted(self._held.items()))

    def _listen_at(self, address: str) -> None:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            listening.bind(address)
        except OSError as error:
            # The aggregator of another node on this machine has the address.
            LOG.info("cannot listen for held ranks at %r: %s", address, error.strerror)
            listening.close()
            return
        self._sockets.append(listening)
        asyncio.get_running_loop().add_reader(listening, self._receive, listening)

    def _receive(self, listening: socket.socket) -> None:
        while True:
            try:
                _, control, _, _ = listening.recvmsg(65536, socket.CMSG_SPACE(_CREDENTIALS.size))
            except BlockingIOError:
                return
            for level, kind, data in control:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                    pid, uid, _ = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])
                    if uid in (os.getuid(), 0):
                        self._look_at(pid)

    def _look_at(self, pid: int) -> None:
        status = procfs.read_stat(pid)
        if status is None or status.comm != hold.HELD_NAME:
            return
        # Root could read the environment of any user's process with that name.
        if status.uid not in (os.geteuid(), 0):
            return
        line = procfs.command_line(pid)
        environment = procfs.environment(pid)
        if line is None or environment is None or self._mark not in line:
            return
        if not procfs.on_this_host(pid):
            return
        rank, size, local_rank, local_size = hold.identity(environment)
        if self._expected is None:
            self.job_size = size
            self._expected = sum(
                hold.share_of(each, local_size, self._shares) == self._share
                for each in range(local_size)
            )
        if hold.share_of(local_rank, local_size, self._shares) == self._share:
            self._held[rank] = pid
            self.programs[rank] = _program(line[line.index(self._mark) :])
        if len(self._held) >= self._expected:
            self._all_held.set()


def _program(words: list[str]) -> str:
    """Return the program in the words behind the mark, which follows ``--``."""
    _, *program = words[words.index("--") :] if "--" in words else ("",)
    return program[0] if program else ""
