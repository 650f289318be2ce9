"""A nursery that reads symbols before the session says what there is to do."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdb.backend.sbd import rank_files
from pgdb.backend.sbd.mapped_objects import mapped_objects
from pgdb.backend.zygote.index_cache import IndexCache
from pgdb.backend.zygote.nursery import Nurseries
from pgdb.backend.zygote.symbol_prefetch import Hint, SymbolPrefetch, gdb_environment
from pgdb.bootstrap_env import SYMBOL_PREFETCH_VARIABLE
from pgdb.jobs import gdb_program, procfs
from tests.support.processes import is_alive, is_traced, wait_until

GDB = gdb_program.find_gdb("gdb") or "gdb"
pytestmark = [
    pytest.mark.gdb,
    pytest.mark.skipif(not shutil.which("gdb"), reason="this machine has no GDB"),
]


@pytest.fixture
def process() -> Iterator[int]:
    """A process that waits."""
    with subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL) as started:
        wait_until(lambda: "sleep" in (procfs.executable(started.pid) or ""), "it is executed")
        # Which is before the kernel has mapped it.
        wait_until(lambda: len(mapped_objects(started.pid)) > 1, "its libraries are loaded")
        yield started.pid
        started.kill()


def hint_of(pid: int) -> str:
    status = procfs.read_stat(pid)
    assert status is not None
    return f"{pid}:{status.start_time_ticks}:{GDB}"


def test_a_hint_is_taken_out_of_the_environment_and_holds_for_one_process(process: int) -> None:
    environment = {SYMBOL_PREFETCH_VARIABLE: hint_of(process)}
    hint = Hint.take(environment)
    assert hint is not None and hint.holds and not environment
    other = Hint(hint.pid, hint.start_time_ticks + 1, hint.gdb)
    assert not other.holds
    for text in ("", "x", "1", "1:", ":1:gdb", "1:x:gdb", "-1:1:gdb"):
        assert Hint.take({SYMBOL_PREFETCH_VARIABLE: text}) is None


def test_it_is_given_once_and_to_whom_it_fits(process: int) -> None:
    async def run() -> None:
        symbol_prefetch = SymbolPrefetch.begin(
            Hint.take({SYMBOL_PREFETCH_VARIABLE: hint_of(process)})
        )
        assert symbol_prefetch is not None
        files = rank_files.look_at(process)
        assert await symbol_prefetch.take("another gdb", files) is None
        assert await symbol_prefetch.take(GDB, rank_files.look_at(os.getpid())) is None
        nursery = await symbol_prefetch.take(GDB, files)
        assert nursery is not None and nursery.is_alive
        assert not is_traced(process)
        assert await symbol_prefetch.take(GDB, files) is None
        await symbol_prefetch.close()
        assert nursery.is_alive
        await nursery.close()

    asyncio.run(asyncio.wait_for(run(), 120))


def test_what_nobody_takes_is_ended(process: int, tmp_path: Path) -> None:
    reported = tmp_path / "pid"
    gdb = tmp_path / "gdb"
    gdb.write_text(f'#!/bin/sh\necho $$ >{reported}\nexec {GDB} "$@"\n')
    gdb.chmod(0o755)

    async def run(*, early: bool) -> None:
        pid, ticks, _ = hint_of(process).split(":")
        symbol_prefetch = SymbolPrefetch.begin(Hint(int(pid), int(ticks), str(gdb)))
        assert symbol_prefetch is not None
        while not reported.exists() or not reported.read_text():
            await asyncio.sleep(0.01)
        if not early:
            assert await symbol_prefetch.take("another gdb", rank_files.look_at(process)) is None
            # With the right GDB the answer comes only when the symbols have been read.
            assert await symbol_prefetch.take(str(gdb), rank_files.look_at(os.getpid())) is None
        await symbol_prefetch.close()
        assert not is_alive(int(reported.read_text()))
        reported.unlink()

    for early in (True, False):
        asyncio.run(asyncio.wait_for(run(early=early), 120))


def test_what_cannot_be_read_is_no_symbol_prefetch(process: int) -> None:
    async def run(gdb: str, pid: int) -> None:
        status = procfs.read_stat(pid)
        assert status is not None
        symbol_prefetch = SymbolPrefetch.begin(Hint(pid, status.start_time_ticks, gdb))
        assert symbol_prefetch is not None
        assert await symbol_prefetch.take(gdb, rank_files.look_at(process)) is None
        await symbol_prefetch.close()

    asyncio.run(asyncio.wait_for(run("/nonexistent/gdb", process), 120))
    assert SymbolPrefetch.begin(Hint(process, 0, GDB)) is None


def test_what_it_finds_wrong_with_the_index_cache_is_reported(
    process: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    build_id = next(each.build_id for each in mapped_objects(process) if each.build_id)
    damaged = tmp_path / "gdb" / f"{build_id}.gdb-index"
    damaged.parent.mkdir()
    damaged.touch()

    async def run() -> list[str]:
        notices: list[str] = []
        environment = gdb_environment(os.environ)
        symbol_prefetch = SymbolPrefetch.begin(
            Hint.take({SYMBOL_PREFETCH_VARIABLE: hint_of(process)})
        )
        nurseries = Nurseries(
            GDB,
            environment,
            notices.append,
            IndexCache(environment, notices.append),
            symbol_prefetch=symbol_prefetch,
        )
        try:
            assert await nurseries.find(rank_files.look_at(process), process) is not None
        finally:
            await nurseries.close()
        return notices

    assert asyncio.run(run()) == [f"removed a damaged index of GDB's: {damaged}"]
