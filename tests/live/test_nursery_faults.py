"""Nurseries and forked GDBs that die, stall, are damaged or too old, on processes without MPI."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pgdb.backend.zygote import nursery
from pgdb.backend.zygote.index_cache import is_whole
from pgdb.errors import GdbError
from pgdb.jobs.gdb_program import check_gdb
from pgdb.overlay.messages import Backtrace, Console, InsertBreakpoint, Resume
from pgdb.records import Failure, Gone, Running, Stack, Stop, Text
from tests.support.nursery_ranks import functions, ranks, run, running
from tests.support.processes import is_alive, is_traced, wait_progress, wait_until, write_gdb
from tests.support.real_gdb import NEEDS_CC_AND_GDB
from tests.support.terminal import DEADLINE_S

pytestmark = NEEDS_CC_AND_GDB


def test_a_gdb_that_is_killed_costs_its_own_rank(openers: Path) -> None:
    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids)
            os.kill(found.all[1].gdb_pid, signal.SIGKILL)
            while not any(isinstance(each, Gone) for each in found.reported[1]):
                await asyncio.sleep(0.01)
            (gone,) = [each for each in found.reported[1] if isinstance(each, Gone)]
            assert gone.why == "GDB was ended by signal 9, which can be for want of memory"
            answers = await found.ask(Backtrace())
            assert isinstance(answers[1], Failure)
            assert isinstance(answers[0], Stack) and isinstance(answers[2], Stack)
            wait_progress(pids[1])

    with running(*([str(openers / "opener")] for _ in range(3))) as pids:
        run(test(pids))


def test_a_nursery_that_dies_is_done_without(openers: Path) -> None:
    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids[:2])
            (parent,) = found.parents()
            os.kill(parent, signal.SIGKILL)
            wait_until(lambda: not is_alive(parent), "the nursery has ended")
            (third,) = await found.attach(pids[2:])
            assert isinstance(third, Stop)
            for stack in await found.ask(Backtrace()):
                assert functions(stack)[-1] == "main"
            assert len(found.notices) == 1 and "without the nursery" in found.notices[0]
            for each in await found.ask(Resume(command="continue"), 3):
                assert isinstance(each, Running)
        assert not any(is_traced(pid) for pid in pids)

    with running(*([str(openers / "opener")] for _ in range(3))) as pids:
        run(test(pids))


def notice_without_nursery(openers: Path, gdb: str) -> str:
    """Attach to two processes with a GDB that makes no nursery; return what PGDB says of that."""
    notices: list[str] = []

    async def test(pids: list[int]) -> None:
        async with ranks(gdb) as found:
            for each in await found.attach(pids):
                assert isinstance(each, Stop)
            assert found.parents() == {os.getpid()}
            for stack in await found.ask(Backtrace()):
                assert functions(stack)[-1] == "main"
        notices.extend(found.notices)

    with running(*([str(openers / "opener")] for _ in range(2))) as pids:
        run(test(pids))
    (notice,) = notices
    assert "without the nursery" in notice
    return notice


def test_a_gdb_without_python_is_enough(openers: Path, tmp_path: Path) -> None:
    gdb = tmp_path / "gdb"
    gdb.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        "words = ['no-such-command' if each.startswith('python') else each for each in sys.argv]\n"
        f"os.execv({shutil.which('gdb')!r}, words)\n"
    )
    gdb.chmod(0o755)
    assert "as a GDB without Python does" in notice_without_nursery(openers, str(gdb))


def test_what_a_nursery_says_last_has_no_zeros(openers: Path, tmp_path: Path) -> None:
    """GDB 13.1 writes a zero byte, and nothing else, when it has no memory for Python."""
    says = 'case "$*" in *forking_in_gdb*) printf "\\0" >&2; exit 1;; esac'
    notice = notice_without_nursery(openers, write_gdb(tmp_path, says))
    assert "ended (1)" in notice
    assert notice.isprintable() and "\\0" not in notice and "ended (1):" not in notice


def test_a_nursery_that_stalls_is_done_without(
    openers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nursery, "STALL_S", 0.5)
    stalls = 'case "$*" in *forking_in_gdb*) exec tail -f /dev/null;; esac'
    notice = notice_without_nursery(openers, write_gdb(tmp_path, stalls))
    assert "has not computed for 0.5 s" in notice


def test_a_nursery_that_dies_in_its_rehearsal_is_done_without(
    openers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(self: nursery.Nursery, pid: int) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        await rehearse(self, pid)

    rehearse = nursery.Nursery.rehearse
    monkeypatch.setattr(nursery.Nursery, "rehearse", hang)
    monkeypatch.setattr(nursery, "STALL_S", 0.5)
    monkeypatch.setattr(nursery, "END_TIMEOUT_S", 0.5)

    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            for each in await found.attach(pids):
                assert isinstance(each, Stop) and not each.detail
            assert found.parents() == {os.getpid()}
            (notice,) = found.notices
            assert "without the nursery" in notice and "has not computed" in notice
        for pid in pids:
            assert not is_traced(pid)
            wait_progress(pid)

    with running(*([str(openers / "opener")] for _ in range(2))) as pids:
        run(test(pids))


def test_a_damaged_index_cache_is_done_without(openers: Path, tmp_path: Path) -> None:
    """A full disk leaves an index that is cut off, of which GDB 13.1 crashes."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    line = [
        "gdb", "-nx", "-q", "-batch", "-iex", "set index-cache enabled on",
        "-iex", "maint set worker-threads 0", "-ex", "info line go_on", str(openers / "opener"),
    ]  # fmt: skip

    def look() -> int:
        done = subprocess.run(
            line, env=environment, check=False, capture_output=True, timeout=DEADLINE_S
        )
        return done.returncode

    assert look() == 0
    (index,) = (tmp_path / "gdb").iterdir()
    whole = index.read_bytes()
    crashes = set()
    for size_bytes in range(len(whole)):
        index.write_bytes(whole[:size_bytes])
        if is_whole(index):
            # GDB 18.1 fills it up, and nothing that is referred to is missing.
            assert size_bytes > len(whole) - 8 and look() == 0, size_bytes
            continue
        if size_bytes % 512 == 0 and look() < 0:
            crashes.add(size_bytes)
    if not crashes:
        pytest.skip("this GDB survives an index that is cut off")
    index.write_bytes(whole)
    assert is_whole(index)
    index.write_bytes(whole[: min(crashes)])

    async def test(pids: list[int]) -> None:
        async with ranks(environment=environment) as found:
            for each in await found.attach(pids):
                assert isinstance(each, Stop)
            assert len(found.parents()) == 1 and os.getpid() not in found.parents()
            for each in await found.ask(Console(command="info line go_on")):
                assert isinstance(each, Text) and "opener.c" in each.text
        assert found.notices == [f"removed a damaged index of GDB's: {index}"]
        assert is_whole(index)

    with running(*([str(openers / "opener")] for _ in range(2))) as pids:
        run(test(pids))


@pytest.mark.parametrize("expected", ["", "12.9"])
def test_another_version_is_reported_once(openers: Path, expected: str) -> None:
    async def test(pids: list[int]) -> None:
        async with ranks(expected=expected or check_gdb("gdb")) as found:
            await found.attach(pids)
            assert len(found.notices) == bool(expected)
            assert all("12.9 at the front end" in each for each in found.notices)

    with running(*([str(openers / "opener")] for _ in range(2))) as pids:
        run(test(pids))


def test_one_that_is_too_old_is_named(openers: Path, tmp_path: Path) -> None:
    """Each host looks by itself: the front end knows only its own."""
    version = (
        'class V(gdb.Command):\n def __init__(s): super().__init__("show version", 0)\n'
        ' def invoke(s, *_): print("GNU gdb (GDB) 9.2\\n")\nV()\n'
    )
    (tmp_path / "version.py").write_text(version)
    gdb = tmp_path / "gdb"
    source = f"source {tmp_path}/version.py"
    gdb.write_text(f'#!/bin/sh\nexec {shutil.which("gdb")} -iex "{source}" "$@"\n')
    gdb.chmod(0o755)

    async def test(pids: list[int]) -> None:
        async with ranks(str(gdb), expected="13.1") as found:
            for pid in pids:
                with pytest.raises(GdbError, match=f"{gdb} is GDB 9.2 on this host; at least 12.1"):
                    await found.attach([pid])
            assert len([each for each in found.notices if "13.1 at the front end" in each]) == 1

    with running(*([str(openers / "opener")] for _ in range(2))) as pids:
        run(test(pids))


def test_gdbs_detach_when_nobody_listens(openers: Path) -> None:
    """The sockets of forked GDBs are closed when the aggregator is killed."""

    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids)
            await found.ask(InsertBreakpoint(command="break go_on if steps < 0", first_number=1))
            await found.ask(Resume(command="continue"), 3)
            gdbs = [each.gdb_pid for each in found.all]
            for each in found.all:
                vars(each)["on_end"] = lambda why: None  # nobody repairs the rank
                each._gdb._process._transport.abort()  # type: ignore[union-attr]
            for gdb in gdbs:
                while is_alive(gdb):
                    await asyncio.sleep(0.01)
        for pid in pids:
            assert not is_traced(pid)
            wait_progress(pid)

    with running(*([str(openers / "opener")] for _ in range(3))) as pids:
        run(test(pids))
