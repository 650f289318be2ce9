"""Settings of a whole process: PGDB's own processes have them, a user's program does not."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

REPORT = """
import asyncio, asyncio.sslproto, ctypes, os
report = os.fdopen(os.dup(1), "w")
calls = []
class Library:
    def __init__(self, name): pass
    def mallopt(self, *values): calls.append(values)
ctypes.CDLL = Library
default = asyncio.sslproto.SSLProtocol.max_size
{body}
from pgdb.overlay.own_process import limit_heaps
limit_heaps()
size = asyncio.sslproto.SSLProtocol.max_size
print("default" if size == default else size, len(calls), file=report)
"""

EVERYTHING = """
import pgdb, pgdb.aio
for name in pgdb.__all__:
    getattr(pgdb, name)
import pgdb.frontend.ui.main, pgdb.backend.node.daemon, pgdb.backend.node.serving
import pgdb.overlay.node, pgdb.overlay.channel, pgdb.frontend.startup.sync
"""

LOOP_THREAD = """
from pgdb.frontend.api.loop_thread import LoopThread
async def nothing(): pass
thread = LoopThread()
thread.call(nothing)
thread.end(nothing)
"""

PROGRAM = """
import sys
import pgdb.frontend.ui.main as main
main.main = lambda words: 0
main.os._exit = lambda status: None
try:
    main.run()
except SystemExit:
    pass
"""

DAEMON = """
import pgdb.backend.node.daemon as daemon
async def over(hint): return True
daemon._run = over
daemon.os.write = lambda *_: 0
daemon.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (EVERYTHING, "default 0"),
        (LOOP_THREAD, "32768 0"),
        (PROGRAM, "32768 2"),
        (DAEMON, "32768 2"),
    ],
    ids=["import", "synchronous API", "pgdb", "aggregator"],
)
def test_only_own_processes_have_the_settings(body: str, expected: str) -> None:
    command = [sys.executable, "-c", REPORT.format(body=body)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert found.stdout.strip() == expected, found.stderr


COLLECTOR = """
import gc, os
report = os.fdopen(os.dup(1), "w")
{body}
print(gc.isenabled(), gc.get_freeze_count() > 10_000, file=report, flush=True)
"""

FRONT_END = """
import pgdb.__main__, sys
class Watch:
    def find_spec(self, name, *_):
        if name == "pgdb.frontend.ui.main":
            assert not gc.isenabled()
sys.meta_path.insert(0, Watch())
sys.argv[1:] = ["--version"]
os._exit = lambda status: None
try:
    pgdb.__main__.run()
except SystemExit:
    pass
"""

AGGREGATOR = """
import asyncio, pgdb.backend.node.daemon as daemon, pgdb.backend.node.serving as serving
async def over(debuggers): return True
serving.serve = over
gc.disable()  # as pgdb.backend.__main__ does
asyncio.run(daemon._run(None))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "expected"),
    [(EVERYTHING, "True False"), (FRONT_END, "True True"), (AGGREGATOR, "True True")],
    ids=["import", "pgdb", "aggregator"],
)
def test_the_collector_passes_over_what_own_processes_have_imported(
    body: str, expected: str
) -> None:
    command = [sys.executable, "-c", COLLECTOR.format(body=body)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert found.stdout.splitlines()[-1:] == [expected], found.stderr


INTERRUPTED = """
import os, pgdb.__main__, signal, sys
class Watch:
    def find_spec(self, name, *_):
        if name == "pgdb.frontend.ui.main":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Watch())
signal.signal(signal.SIGINT, signal.{handler})
sys.argv[1:] = ["--version"]
pgdb.__main__.run()
"""


@pytest.mark.parametrize(
    ("handler", "status"), [("default_int_handler", -signal.SIGINT), ("SIG_IGN", 0)]
)
def test_ctrl_c_during_the_imports_ends_pgdb_without_a_traceback(handler: str, status: int) -> None:
    command = [sys.executable, "-c", INTERRUPTED.format(handler=handler)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stderr) == (status, "")
