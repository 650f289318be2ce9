"""Queries of launchers that a busy machine answers late."""

from __future__ import annotations

from contextlib import suppress

from pgdb.errors import DiscoveryError
from pgdb.frontend.discovery import pmix
from pgdb.proctable import RankProcess


def patient(pid: int) -> tuple[RankProcess, ...]:
    """Ask through PMIx more than once: on a busy machine (load 15 on 2 cores) it comes to nothing
    one time in five."""
    for _ in range(2):
        with suppress(DiscoveryError):
            return pmix.query_job(pid, timeout_s=20)
    return pmix.query_job(pid, timeout_s=20)
