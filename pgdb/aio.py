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

from pgdb.frontend.options import SessionOptions
from pgdb.frontend.recording.replay import replay
from pgdb.frontend.session import Session
from pgdb.frontend.starting.start import attach, launch
from pgdb.frontend.telling import Told
from pgdb.frontend.view import Ranks

__all__ = ["Ranks", "Session", "SessionOptions", "Told", "attach", "launch", "replay"]
