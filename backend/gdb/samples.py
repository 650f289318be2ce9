"""Samples of what a rank does, from GDB's Python (:mod:`.progress_in_gdb`)."""

from __future__ import annotations

import msgspec

from pgdb.backend.gdb.python_calls import ask
from pgdb.backend.gdb.session import GdbSession
from pgdb.rank_sample import RankSample
from pgdb.records import Done, Failure, Record

_NEEDED_FOR = "samples of a rank need"


async def sample(gdb: GdbSession) -> Record:
    """Return a RankSample of the rank, or a Failure.

    :raises GdbError: if GDB ends.
    """
    found = await ask(gdb, "progress_in_gdb.sample", needed_for=_NEEDED_FOR)
    return found if isinstance(found, Failure) else msgspec.convert(found, RankSample)


async def select_caller(gdb: GdbSession) -> Record:
    """Select the caller of MPI where a function of MPI is selected; return Done, or a Failure.

    :raises GdbError: if GDB ends.
    """
    found = await ask(gdb, "progress_in_gdb.select_caller", needed_for=_NEEDED_FOR)
    return found if isinstance(found, Failure) else Done()
