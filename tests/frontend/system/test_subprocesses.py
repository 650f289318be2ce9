"""Programs that leave processes behind which hold their pipes: real processes."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from pgdb.errors import CommandError, StartError
from pgdb.frontend.analysis.calltree import CallTree
from pgdb.frontend.show.export import tree_files
from pgdb.frontend.startup import job, remote, shipping
from pgdb.frontend.system import subprocesses
from pgdb.frontend.system.subprocesses import Program
from tests.support.processes import is_alive

DEADLINE_S = 30.0


@pytest.fixture
def leaving(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Make a program that starts a process which holds all its pipes, then runs a script."""

    def made(script: str) -> str:
        path = tmp_path / "leaving"
        # A background process has an empty input unless it is given another one.
        holder = f"exec 3<&0; setsid sleep 600 <&3 &\necho $! >{tmp_path}/left; exec 3<&-"
        path.write_text(f"#!/bin/sh\n{holder}\n{script}\n")
        path.chmod(0o755)
        return str(path)

    yield made
    os.kill(left(tmp_path), signal.SIGKILL)


def left(tmp_path: Path) -> int:
    return int((tmp_path / "left").read_text())


def descriptors() -> set[tuple[str, str]]:
    """Return the open descriptors of this process and their targets."""
    return {
        (name, os.readlink(f"/proc/self/fd/{name}"))
        for name in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{name}")
    }


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run *test* and check that no descriptor stays open, without garbage collection."""

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            # Descriptors that asyncio opens for its first program stay open.
            await (await Program.start("true")).end()
            before = descriptors()
            await test()
            await asyncio.sleep(0)
            assert descriptors() <= before

    gc.disable()
    try:
        asyncio.run(bounded())
    finally:
        gc.enable()


PIPE = asyncio.subprocess.PIPE


def test_a_program_that_has_ended_is_known_to(leaving: Callable[[str], str]) -> None:
    program = leaving("echo here; exit 3")

    async def test() -> None:
        process = await Program.start(program, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"here\n"
        assert await process.wait() == 3
        await process.end()
        assert await process.stdout.read() == b""
        assert process.returncode == 3

    run(test)


def test_the_pipes_of_a_program_that_has_ended_are_closed(
    leaving: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocesses, "LAST_WORDS_S", 0.1)
    program = leaving("echo here; exit 3")

    async def test() -> None:
        process = await Program.start(program, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        assert await process.communicate() == (b"here\n", b"")

    run(test)


def test_a_program_that_runs_is_killed(leaving: Callable[[str], str]) -> None:
    program = leaving("echo here; exec sleep 600")

    async def test() -> None:
        process = await Program.start(program, stdin=PIPE, stdout=PIPE)
        assert process.stdout is not None
        await process.stdout.readline()
        await process.end()
        assert process.returncode == -signal.SIGKILL

    run(test)


def test_a_program_that_cannot_be_killed_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subprocesses, "KILL_S", 0.05)

    async def test() -> None:
        process = await Program.start("sleep", "600", stdin=PIPE, stdout=PIPE)
        with monkeypatch.context() as patch:
            patch.setattr(process, "kill", lambda: None)
            await process.end()
        await process.wait()

    run(test)


@pytest.mark.slow
@pytest.mark.parametrize("prints", [False, True])
@pytest.mark.parametrize("script", ["exit 4", "exec sleep 600"])
def test_a_launcher_of_aggregators(
    leaving: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    prints: bool,
) -> None:
    program = leaving(f"read word; echo $word; {script}")
    lines: list[str] = []
    # No deadline ends it: those are for launchers that do not end.
    monkeypatch.setattr(job, "TERMINATE_TIMEOUT_S", 3600.0)

    async def test() -> None:
        async def rendezvous() -> str:
            return "hello"

        launcher = await job.OverlayLauncher.start(
            [program],
            environment=os.environ,
            rendezvous=rendezvous,
            log=tmp_path / "log",
            keep_input=True,
            on_line=lines.append if prints else None,
        )
        if script == "exit 4":
            assert await launcher.wait() == 4
        else:
            while "hello" not in (tmp_path / "log").read_text():
                await asyncio.sleep(0.01)
        await launcher.end()
        assert launcher.has_ended
        assert launcher.last_words() == "hello"

    run(test)
    assert lines == ["hello"] * prints


def test_the_ssh_to_a_site(leaving: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocesses, "LAST_WORDS_S", 0.1)
    ssh = leaving("echo 'no route to host' >&2; exit 255")

    async def test() -> None:
        with pytest.raises(StartError, match=r"far: .*no route"):
            await remote.RemoteSite.connect("far", [ssh])

    run(test)


def test_the_ssh_that_ships(leaving: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocesses, "LAST_WORDS_S", 0.1)
    ssh = leaving("echo 'no route to host' >&2; exit 255")

    async def test() -> None:
        with pytest.raises(StartError, match="far: no route to host"):
            await shipping.ship_by_ssh("far", [ssh], timeout_s=5.0)

    run(test)


def test_graphviz(
    leaving: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.rename(leaving("exit 0"), tmp_path / "dot")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(tree_files, "DOT_TIMEOUT_S", 0.5)
    tree = CallTree.from_classes([])

    async def test() -> None:
        with pytest.raises(CommandError, match=r"t\.png: dot has not drawn"):
            await tree_files.write(tree, "png", tmp_path / "t.png")

    run(test)
    assert is_alive(left(tmp_path))
