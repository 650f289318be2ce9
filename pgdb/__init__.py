"""PGDB, a parallel debugger for MPI programs.

The scripting interface::

    import pgdb

    with pgdb.attach(4711) as session:          # pid of mpirun, mpiexec or srun
        print(session.backtrace())
        print(session[0:4].evaluate("step").values)
        print(session.tree().odd)               # where the fewest ranks are

:mod:`pgdb.aio` has the same as coroutines, for programs that have an event loop.

Everything here is loaded when it is first used, so that the aggregators, which import this
package on every host of a job, do not carry the front end along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgdb.version import __version__

if TYPE_CHECKING:
    from pgdb import aio as aio
    from pgdb import errors as errors
    from pgdb import records as records
    from pgdb.errors import CommandError as CommandError
    from pgdb.errors import DebuggerError as DebuggerError
    from pgdb.errors import DiscoveryError as DiscoveryError
    from pgdb.errors import GdbError as GdbError
    from pgdb.errors import InternalError as InternalError
    from pgdb.errors import LinkError as LinkError
    from pgdb.errors import NoAnswerError as NoAnswerError
    from pgdb.errors import NotRecordedError as NotRecordedError
    from pgdb.errors import PermissionToTraceError as PermissionToTraceError
    from pgdb.errors import PgdbError as PgdbError
    from pgdb.errors import ProtocolError as ProtocolError
    from pgdb.errors import RankSetError as RankSetError
    from pgdb.errors import SessionEndedError as SessionEndedError
    from pgdb.errors import StartError as StartError
    from pgdb.errors import UsageError as UsageError
    from pgdb.frontend.analysis.answers import Answer as Answer
    from pgdb.frontend.analysis.answers import FieldValues as FieldValues
    from pgdb.frontend.analysis.arrays import Arrays as Arrays
    from pgdb.frontend.analysis.assertions import Check as Check
    from pgdb.frontend.analysis.calltree import CallTree as CallTree
    from pgdb.frontend.analysis.comparing import Comparison as Comparison
    from pgdb.frontend.analysis.decompose import GlobalArray as GlobalArray
    from pgdb.frontend.analysis.layouts import Layout as Layout
    from pgdb.frontend.api.answer_calls import compare as compare
    from pgdb.frontend.api.notifications import Notification as Notification
    from pgdb.frontend.api.notifications import Told as Told
    from pgdb.frontend.api.options import SessionOptions as SessionOptions
    from pgdb.frontend.report.model import Report as Report
    from pgdb.frontend.show.text.thread_stacks import ThreadGroup as ThreadGroup
    from pgdb.frontend.show.text.thread_stacks import stacks_of as stacks_of
    from pgdb.frontend.startup.sync import Ranks as Ranks
    from pgdb.frontend.startup.sync import Session as Session
    from pgdb.frontend.startup.sync import attach as attach
    from pgdb.frontend.startup.sync import launch as launch
    from pgdb.frontend.startup.sync import open_cores as open_cores
    from pgdb.frontend.startup.sync import replay as replay
    from pgdb.merge.classes import EquivalenceClass as EquivalenceClass
    from pgdb.merge.classes import Missing as Missing
    from pgdb.merge.summary import Summary as Summary
    from pgdb.overlay.query_options import QueryOptions as QueryOptions
    from pgdb.ranks import RankSet as RankSet

_HOMES = {
    "Answer": "pgdb.frontend.analysis.answers",
    "Arrays": "pgdb.frontend.analysis.arrays",
    "CallTree": "pgdb.frontend.analysis.calltree",
    "Check": "pgdb.frontend.analysis.assertions",
    "CommandError": "pgdb.errors",
    "Comparison": "pgdb.frontend.analysis.comparing",
    "DiscoveryError": "pgdb.errors",
    "EquivalenceClass": "pgdb.merge.classes",
    "FieldValues": "pgdb.frontend.analysis.answers",
    "DebuggerError": "pgdb.errors",
    "GdbError": "pgdb.errors",
    "InternalError": "pgdb.errors",
    "GlobalArray": "pgdb.frontend.analysis.decompose",
    "Layout": "pgdb.frontend.analysis.decompose",
    "LinkError": "pgdb.errors",
    "Notification": "pgdb.frontend.api.notifications",
    "Missing": "pgdb.merge.classes",
    "NoAnswerError": "pgdb.errors",
    "NotRecordedError": "pgdb.errors",
    "PermissionToTraceError": "pgdb.errors",
    "PgdbError": "pgdb.errors",
    "ProtocolError": "pgdb.errors",
    "QueryOptions": "pgdb.overlay.query_options",
    "RankSet": "pgdb.ranks",
    "RankSetError": "pgdb.errors",
    "Ranks": "pgdb.frontend.startup.sync",
    "Report": "pgdb.frontend.report.model",
    "Session": "pgdb.frontend.startup.sync",
    "SessionEndedError": "pgdb.errors",
    "SessionOptions": "pgdb.frontend.api.options",
    "StartError": "pgdb.errors",
    "Summary": "pgdb.merge.summary",
    "ThreadGroup": "pgdb.frontend.show.text.thread_stacks",
    "Told": "pgdb.frontend.api.notifications",
    "UsageError": "pgdb.errors",
    "attach": "pgdb.frontend.startup.sync",
    "compare": "pgdb.frontend.api.answer_calls",
    "launch": "pgdb.frontend.startup.sync",
    "open_cores": "pgdb.frontend.startup.sync",
    "replay": "pgdb.frontend.startup.sync",
    "stacks_of": "pgdb.frontend.show.text.thread_stacks",
}
_MODULES = ("aio", "errors", "records")

__all__ = [
    "Answer",
    "Arrays",
    "CallTree",
    "Check",
    "CommandError",
    "Comparison",
    "DebuggerError",
    "DiscoveryError",
    "EquivalenceClass",
    "FieldValues",
    "GdbError",
    "GlobalArray",
    "InternalError",
    "Layout",
    "LinkError",
    "Missing",
    "NoAnswerError",
    "NotRecordedError",
    "Notification",
    "PermissionToTraceError",
    "PgdbError",
    "ProtocolError",
    "QueryOptions",
    "RankSet",
    "RankSetError",
    "Ranks",
    "Report",
    "Session",
    "SessionEndedError",
    "SessionOptions",
    "StartError",
    "Summary",
    "ThreadGroup",
    "Told",
    "UsageError",
    "__version__",
    "aio",
    "attach",
    "compare",
    "errors",
    "launch",
    "open_cores",
    "records",
    "replay",
    "stacks_of",
]


def __getattr__(name: str) -> object:
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"pgdb.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'pgdb' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
