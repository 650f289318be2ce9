"""PGDB, a parallel debugger for MPI programs.

The scripting interface::

    import pgdb

    with pgdb.attach(4711) as session:          # pid of mpirun, mpiexec or srun
        print(session.backtrace())
        print(session[0:4].evaluate("step").values)

Everything here is loaded when it is first used, so that the aggregators, which import this
package on every host of a job, do not carry the front end along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgdb.version import __version__

if TYPE_CHECKING:
    from pgdb.errors import PgdbError as PgdbError
    from pgdb.ranks import RankSet as RankSet

__all__ = ["PgdbError", "RankSet", "__version__"]

_HOMES = {"PgdbError": "pgdb.errors", "RankSet": "pgdb.ranks"}


def __getattr__(name: str) -> object:
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module 'pgdb' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
