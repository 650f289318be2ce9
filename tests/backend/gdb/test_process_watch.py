"""The process of a rank, seen from outside of its GDB."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from pgdb.backend.gdb.process_watch import ProcessWatch


@pytest.mark.slow
def test_a_process_that_ends_when_it_is_free_has_no_debugger() -> None:
    """A rank can die of a signal as soon as it is free, before the end of its GDB is noticed."""

    async def check() -> None:
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
            watch, ended = ProcessWatch(), asyncio.Event()
            watch.begin(child.pid, ended.set)
            assert watch.is_free and watch.has_no_debugger
            child.kill()
            async with asyncio.timeout(30):
                await ended.wait()
            # Nobody has waited for it yet.
            assert not watch.is_free and watch.has_no_debugger
            child.wait()
            assert not watch.is_free and watch.has_no_debugger
            watch.stop()

    asyncio.run(check())
