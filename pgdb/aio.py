"""The scripting interface for programs that have an event loop: the same calls, as coroutines.

::

    from pgdb import aio

    session = await aio.launch(["mpirun", "-n", "4", "./ring"], aio.SessionOptions(fan_out=8))
    try:
        await session.break_at("ring.c:23")
        answer = await session.continue_()
    finally:
        await session.close()
"""

from __future__ import annotations

from pgdb.frontend.api.notifications import Notification, Told
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.rank_view import RankView as Ranks
from pgdb.frontend.api.session import Session
from pgdb.frontend.report.reporting import report
from pgdb.frontend.startup.open_cores import open_cores
from pgdb.frontend.startup.replay import replay
from pgdb.frontend.startup.restart import restart
from pgdb.frontend.startup.start import attach, launch

__all__ = [
    "Notification",
    "Ranks",
    "Session",
    "SessionOptions",
    "Told",
    "attach",
    "launch",
    "open_cores",
    "replay",
    "report",
    "restart",
]
