"""Reports of ranks that come over connections: whose they are, and their fields."""

from __future__ import annotations

import asyncio
import hmac
import os

from pgdb.jobs import hold
from pgdb.overlay import addresses

MAX_REPORT_BYTES = 1 << 14
"""Limit of a report, in bytes: names of a host and a path, read before their origin is known."""
REPORT_TIMEOUT_S = 10.0
"""Time that a connection may take to report, in seconds; ranks report at once."""
_LENGTH_DIGITS = 8


class IncomingReports:
    """Reader of the reports of one session (:func:`pgdb.jobs.hold.report`)."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._heard: set[bytes] = set()

    async def read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[str]:
        """Read the fields of a report; none if it is not of this session, or a repeated one.

        :raises OSError: if there is none in time, or the connection is lost.
        :raises ValueError: if the bytes are no report.
        :raises asyncio.IncompleteReadError: if they end before that.
        :raises asyncio.LimitOverrunError: if there are too many of them.
        """
        async with asyncio.timeout(REPORT_TIMEOUT_S):
            length = int((await reader.readuntil(b"\n"))[: _LENGTH_DIGITS + 1])
            if not 0 < length <= MAX_REPORT_BYTES or not may_report(writer):
                return []
            code, _, report = (await reader.readexactly(length)).partition(b"\0")
        if not hmac.compare_digest(code, hold.authentication(self._mark, report)):
            return []
        if code in self._heard:
            return []
        self._heard.add(code)
        return report.decode("utf-8", "surrogateescape").split("\0")


def may_report(writer: asyncio.StreamWriter) -> bool:
    """Return whether the peer can be a rank: on this host, a process of the same user.

    The mark is in the ranks' command lines, which any user of their hosts can read.
    """
    peer, own = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
    if not (peer[0].startswith("127.") or peer[0] in addresses.own_addresses()):
        return True
    return addresses.user_of_peer(peer[:2], own[:2]) in (os.geteuid(), 0)


def offered_addresses(listen: str, *, on_this_host_only: bool) -> list[str]:
    """Return the addresses to which the first rank of each host may report."""
    if on_this_host_only:
        return ["127.0.0.1"]
    if listen:
        return [addresses.check_own(listen)]
    # Each host finds out itself which of them it can reach.
    return list(addresses.own_addresses()) or ["127.0.0.1"]
